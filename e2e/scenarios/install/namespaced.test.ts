/** The operator for one namespace: installed by an administrator of that namespace and of nothing else, it works with Roles alone. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { type Manifest, sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { helm as helmWith } from "../../charts/helm.ts";
import { kindsServed } from "../../cluster/kinds-served.ts";
import type { ClusterHandle } from "../../cluster/ways/handle.ts";
import { openCluster, wayOf } from "../../cluster/ways/open.ts";
import { programArchives } from "../../images/program-archives.ts";
import { eventually } from "../../network/eventually.ts";
import { imageValues, OPERATOR } from "../installation.ts";
import { ROOT } from "../root.ts";
import { canOpenCluster } from "../run-cluster.ts";

const HOME = "team-a";
const OTHER = "team-b";

describe.skipIf(!canOpenCluster)("an operator for one namespace", { timeout: 600_000 }, () => {
  let cluster: ClusterHandle;
  /** What the administrator of the namespace does. */
  let helm: (...args: string[]) => Promise<string>;

  beforeAll(async () => {
    const images = await programArchives(join(ROOT, "dist", "images"), ["controller", "operator", "router"]);
    cluster = await openCluster(wayOf(process.env), { nodes: 1, images });
    // The administrator of the cluster brings the kinds, the namespaces and who rules one of them.
    await cluster.kubectl(["apply", "--server-side", "--kustomize", join(ROOT, "crds")]);
    await kindsServed(cluster);
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    for (const name of [HOME, OTHER])
      await cluster.apply(stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }));
    const kubeconfig = await cluster.kubeconfigOf("ruler", HOME);
    await cluster.kubectl([
      ...["create", "rolebinding", "ruler", `--namespace=${HOME}`],
      ...["--clusterrole=cluster-admin", `--serviceaccount=${HOME}:ruler`],
    ]);
    helm = (...args) => helmWith([...args, `--namespace=${HOME}`], { kubeconfig });
    const set = [
      "crds.enabled=false",
      "userRoles.enabled=false",
      `watchNamespaces={${HOME}}`,
      "clusterId=team-a-of-the-test",
    ];
    const values = [...set.map((each) => `--set=${each}`), ...imageValues(cluster)];
    await helm("install", "sallyport", "helm/sallyport", "--wait", "--timeout=300s", ...values);
  }, 600_000);
  afterAll(async () => await cluster?.close(), 300_000);

  const kubectl = (...args: string[]) => cluster.kubectl([`--namespace=${HOME}`, ...args]);
  const declare = async (namespace: string, { metadata: { name }, ...rest }: Manifest): Promise<void> =>
    void (await cluster.apply(stringify({ ...rest, metadata: { name, namespace } })));

  test("has no right outside of it, and nothing in the cluster is its own", async () => {
    const roles = await cluster.kubectl(["get", "clusterroles,clusterrolebindings", "--output=name"]);
    expect(roles.split("\n").filter((name) => name.includes("sallyport"))).toEqual([]);
    const may = async (...what: string[]) =>
      (
        await cluster.attempt(["auth", "can-i", ...what, `--as=system:serviceaccount:${HOME}:${OPERATOR}`])
      ).stdout.trim();
    expect(await may("list", "secrets", `--namespace=${HOME}`)).toBe("yes");
    for (const what of ["secrets", "overlayservices.sallyport.dev", "namespaces"]) {
      expect(await may("list", what, "--all-namespaces"), what).toBe("no");
      expect(await may("list", what, `--namespace=${OTHER}`), what).toBe("no");
    }
  });

  test("runs a network with a router there, and leaves other namespaces alone", async () => {
    await declare(OTHER, sample("OverlayService", {}, "foreign"));
    await declare(HOME, sample("Network", { external: null, managed: {} }, "main"));
    await declare(HOME, sample("EdgeRouter", { drainSeconds: 0 }, "edge"));
    await declare(HOME, sample("Identity", { enrollment: { output: "IdentitySecret" } }, "bot"));
    await declare(HOME, sample("OverlayService", {}, "web"));
    await kubectl("wait", "--for=condition=Ready", "overlay", "--all", "--timeout=300s");
    const foreign = await cluster.get<{ metadata: { finalizers?: string[] }; status?: object }>(
      "overlayservice",
      "foreign",
      OTHER,
    );
    // A status as the API server makes it.
    expect([foreign.metadata.finalizers, foreign.status]).toEqual([undefined, { observedGeneration: -1 }]);
  });

  test("is uninstalled by the administrator who installed it, and leaves nothing behind", async () => {
    await kubectl("delete", "overlay", "--all", "--timeout=300s");
    await helm("uninstall", "sallyport", "--wait", "--timeout=300s");
    const kinds = "deployments,roles,rolebindings,leases,poddisruptionbudgets";
    const left = async () => (await kubectl("get", kinds, "--output=name")).trim().split("\n");
    await eventually("the rest is gone", async () => {
      expect(await left()).toEqual(["rolebinding.rbac.authorization.k8s.io/ruler"]);
      return true;
    });
  });
});
