import type { KubeObject } from "../../kube/kinds.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/** Applies an object, and remembers what the server makes of it. */
export async function applyChild<T extends KubeObject>(
  intended: KubeObject,
  { client, signal, admissions, log }: Pick<ReconcileContext, "client" | "signal" | "admissions" | "log">,
): Promise<T> {
  const answer = await client.apply<T>(intended, { signal });
  if (admissions.wrote(intended, answer)) {
    const { kind, metadata } = intended;
    const text =
      "the API server keeps an object in another form than it was asked for; it is left as admission wants it";
    log.info({ child: `${kind} ${metadata.name}` }, text);
  }
  return answer;
}
