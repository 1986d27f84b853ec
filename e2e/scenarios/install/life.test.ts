/**
 * The life of an installation as a user sees it: a release is installed by its chart, gets a network with traffic, is upgraded to the next release and back,
 * and is uninstalled.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { helm as helmWith } from "../../charts/helm.ts";
import type { ClusterHandle } from "../../cluster/ways/handle.ts";
import { openCluster, wayOf } from "../../cluster/ways/open.ts";
import { eventually } from "../../network/eventually.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { imageValues, OPERATOR, SYSTEM } from "../installation.ts";
import { canOpenCluster, offer } from "../run-cluster.ts";
import { Stage } from "../stage.ts";
import { type Counts, Traffic } from "../traffic.ts";
import { newRelease, previousRelease, type Release } from "./releases.ts";

const PATIENCE_MS = 300_000;
/** For a dial that waits for the controller, which is away for some seconds while it is restarted: longer than the tunneler's own patience. */
const DIAL_SECONDS = 60;
const WAIT = ["--wait", "--timeout=300s"];
/** What an installation may leave in a cluster. */
const EVERYTHING =
  "namespace,crd,clusterrole,clusterrolebinding,deployment,statefulset,service,serviceaccount,role,rolebinding,pod,pdb,networkpolicy,configmap,secret,pvc,job,lease";

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

describe.skipIf(!canOpenCluster)("an installation", { timeout: 900_000 }, () => {
  const scratch = makeScratch("installation");
  let previous: Release;
  let next: Release;
  let cluster: ClusterHandle;
  let stage: Stage;
  let traffic: Traffic;
  let before: string[];

  const helm = (...args: string[]) => helmWith([...args, "--namespace", SYSTEM], cluster);
  const upgrade = (release: Release, ...values: string[]) =>
    helm("upgrade", "sallyport", release.chart, "--reset-values", ...WAIT, ...imageValues(cluster), ...values);
  /** Pods that the operator has made. */
  const made = async (): Promise<Pod[]> => {
    const selector = "--selector=app.kubernetes.io/name in (edge-router,network-controller)";
    return (JSON.parse(await stage.kubectl("get", "pods", selector, "--output=json")) as { items: Pod[] }).items;
  };
  const identities = async () => (await made()).map(({ metadata: { name, uid } }) => `${name} ${uid}`).sort();
  const versions = async () =>
    new Set((await made()).flatMap(({ spec }) => spec.containers.map(({ image }) => image.split(":").at(-1))));
  const isReady = ({ status }: Pod) =>
    status.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
  /** Until the operator that runs now has looked at everything. */
  const lookedAt = async (mark: string) => {
    await stage.kubectl("annotate", "--overwrite", "overlay", "--all", `sallyport.dev/reconcile-requested-at=${mark}`);
    await stage.explained(
      ...["wait", `--for=jsonpath={.status.lastHandledReconcileAt}=${mark}`],
      ...["overlay", "--all", "--timeout=300s"],
    );
  };
  /** Everything in the cluster but what Kubernetes itself makes in each namespace. */
  const objects = async (): Promise<string[]> => {
    const path = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}";
    const list = await cluster.kubectl(["get", EVERYTHING, "--all-namespaces", `--output=jsonpath=${path}`]);
    return list
      .split("\n")
      .filter((line) => line !== "" && !/^(Lease|Pod|ConfigMap) kube-|kube-root-ca\.crt$|\/default$/.test(line))
      .sort();
  };
  const added = async () => {
    const known = new Set(before);
    return (await objects()).filter((each) => !known.has(each));
  };
  /**
   * Every call on a connection of its own since counting began, and some more; where one failed, beside what the tunnelers say.
   *
   * @param restarts of routers: each may end the connection that lasts in the middle of a call
   */
  const allAnswered = async (restarts: number): Promise<Counts> => {
    await traffic.answered(5);
    const counts = await traffic.counts();
    const { fresh, kept, connections } = counts;
    console.log(JSON.stringify({ scenario: "calls", fresh: fresh.answered, kept: kept.answered, connections }));
    const failed = [...fresh.failed, ...kept.failed.slice(restarts)];
    if (failed.length === 0) return counts;
    const said = ["caller", "host"].map((name) =>
      stage.kubectl("logs", `deployment/${name}`, "--container=tunnel", "--tail=200"),
    );
    throw new Error(`calls were not answered:\n${[...failed, ...(await Promise.all(said))].join("\n")}`);
  };
  /** While the pods of one release become those of another: how many routers were away at a time. */
  const rolledOut = async (version: string): Promise<number> => {
    let mostAway = 0;
    await stage.explain(
      eventually(
        `every pod is of ${version}`,
        async () => {
          const pods = await made();
          const routers = pods.filter(({ metadata }) => metadata.name.startsWith("edge-"));
          mostAway = Math.max(mostAway, 2 - routers.filter(isReady).length);
          const isDone = pods.every(
            (pod) => isReady(pod) && pod.spec.containers.every(({ image }) => image.endsWith(`:${version}`)),
          );
          return isDone && pods.length === 3;
        },
        PATIENCE_MS,
      ),
    );
    await lookedAt(`rolled-out-${version}`);
    await stage.ready();
    return mostAway;
  };

  beforeAll(async () => {
    previous = await previousRelease(join(scratch, "previous"));
    next = await newRelease(join(scratch, "next"));
    cluster = await openCluster(wayOf(process.env), { nodes: 1, images: [...previous.images, ...next.images] });
    offer(cluster);
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    before = await objects();
    await cluster.apply(JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: SYSTEM, labels } }));
  }, 900_000);
  afterAll(async () => {
    await cluster?.close();
    removeScratch(scratch);
  }, 300_000);

  test("begins with a chart, whose own test finds the operator at work", async () => {
    await helm("install", "sallyport", previous.chart, ...WAIT, ...imageValues(cluster));
    expect(await helm("test", "sallyport", "--timeout=300s")).toMatch(/Phase: +Succeeded/);
    stage = await Stage.open("live", { restarts: false });
    const resource = (kind: string, name: string, spec: object) => ({
      apiVersion: "sallyport.dev/v1alpha1",
      kind,
      metadata: { name },
      spec,
    });
    await stage.apply([
      resource("Network", "main", { managed: { database: { embedded: { size: "1Gi" } } } }),
      resource("EdgeRouter", "edge", { networkRef: { name: "main" }, replicas: 2, roleAttributes: ["public"] }),
    ]);
    traffic = await Traffic.start(stage, DIAL_SECONDS);
    await stage.ready();
    expect([...(await versions())]).toEqual([previous.version]);
  });

  test("is upgraded to an operator that keeps the images: nothing else is touched", async () => {
    const pods = await identities();
    await traffic.restartCounts();
    const kept = ["--set", `routerImage.tag=${previous.version}`, "--set", `controllerImage.tag=${previous.version}`];
    await upgrade(next, ...kept);
    const image = await cluster.kubectl([
      ...["get", "deployment", OPERATOR, `--namespace=${SYSTEM}`],
      "--output=jsonpath={.spec.template.spec.containers[0].image}",
    ]);
    expect(image).toMatch(new RegExp(`:${next.version}$`));
    await lookedAt("new-operator");
    await stage.ready();
    expect(await identities()).toEqual(pods);
    const { connections } = await allAnswered(0);
    expect(connections, "the long-lived connection is still the first one").toBe(0);
  });

  test("is upgraded to the next release: controller and routers follow, one router at a time, and no call fails", async () => {
    await traffic.restartCounts();
    await upgrade(next);
    expect(await rolledOut(next.version)).toBeLessThanOrEqual(1);
    const { connections } = await allAnswered(2);
    // A connection ends with the router that it goes through, when that stops; its next call has another.
    expect(connections).toBeLessThanOrEqual(3);
    expect(
      await stage.kubectl(
        "get",
        "network",
        "main",
        "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}",
      ),
    ).toBe("True");
    expect(await helm("test", "sallyport", "--timeout=300s")).toMatch(/Phase: +Succeeded/);
  });

  test("goes back to the release before", async () => {
    await traffic.restartCounts();
    await helm("rollback", "sallyport", "1", ...WAIT);
    expect(await rolledOut(previous.version)).toBeLessThanOrEqual(1);
    await allAnswered(2);
  });

  test("is not uninstalled while there is something to clean up", async () => {
    const refused = await helm("uninstall", "sallyport", ...WAIT).then(
      () => "it was uninstalled",
      (error: Error) => error.message,
    );
    expect(refused).toMatch(/uninstall-check|pre-delete/);
    const said = await cluster.kubectl(["logs", `--namespace=${SYSTEM}`, `job/${OPERATOR}-uninstall-check`]);
    expect(said).toContain(stage.namespace);
    // All is as before.
    await traffic.answered(1);
  });

  test("is uninstalled without resources, and leaves nothing but the kinds", async () => {
    await stage.close();
    await helm("uninstall", "sallyport", ...WAIT);
    await cluster.kubectl(["delete", "namespace", SYSTEM, "--timeout=300s"]);
    const left = await added();
    expect(left.filter((each) => !each.startsWith("CustomResourceDefinition "))).toEqual([]);
    expect(left).toHaveLength(10);
  });

  test("is taken up again by the kinds that stayed, and leaves nothing at all when it may not keep them", async () => {
    await helm(
      "install",
      "sallyport",
      next.chart,
      ...WAIT,
      "--create-namespace",
      ...imageValues(cluster),
      "--set=crds.keep=false",
    );
    await helm("uninstall", "sallyport", ...WAIT);
    await cluster.kubectl(["delete", "namespace", SYSTEM, "--timeout=300s"]);
    await eventually("the kinds are gone", async () => (await added()).length === 0, PATIENCE_MS);
    expect(await added()).toEqual([]);
  });
});
