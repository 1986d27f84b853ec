import { eventually } from "../network/eventually.ts";

/** As much of a cluster as is needed. */
interface Asked {
  attempt(args: readonly string[]): Promise<{ readonly code: number }>;
}

/**
 * Resolves when the API server serves the kinds of all CRDs, or of those that `which` selects (arguments of kubectl).
 * Asked again and again: `kubectl wait` gives up at once on a CRD that no controller has looked at yet.
 */
export async function kindsServed(cluster: Asked, which: readonly string[] = ["--all"]): Promise<void> {
  const wait = ["wait", "--for=condition=Established", "crd", ...which, "--timeout=30s"];
  await eventually("the kinds are served", async () => (await cluster.attempt(wait)).code === 0, 120_000);
}

/** Selects our CRDs. */
export const OURS = ["--selector=app.kubernetes.io/part-of=sallyport"] as const;
