/** The API server forgets its history under a running operator, which lists anew and goes on. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster, Stage } from "../stage.ts";

const PATIENCE_MS = 180_000;

describe.skipIf(!hasCluster)("an API server that forgets its history", { timeout: 600_000 }, () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open("history");
  }, 600_000);
  afterAll(async () => await stage?.close(), 300_000);

  const service = (name: string, changes: Readonly<Record<string, unknown>>) => ({
    ...sample("OverlayService", changes, name),
    metadata: { name },
  });
  const waits = async (name: string, message: string): Promise<void> => {
    const says = async () => (await stage.condition("overlayservice", name, "Ready"))?.message?.includes(message);
    await stage.explain(eventually(`${name} says: ${message}`, says, PATIENCE_MS));
  };
  /** How often the operator was told that its place in the history is gone. */
  const tooOld = async () =>
    (await stage.operatorLog()).split("\n").filter((line) => line.includes("the watch is too old")).length;
  const containers = () =>
    stage.cluster.kubectl([
      ...["get", "pods", "--namespace=sallyport-system", "--selector=app.kubernetes.io/name=sallyport-operator"],
      "--output=jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}",
    ]);

  test("what changes afterwards is acted on, and what changed meanwhile, too", async ({ skip }) => {
    const { cluster } = stage;
    skip(!cluster.can("compact") || !cluster.can("components"), "this cluster's history is out of reach");
    await stage.apply(service("before", { networkRef: { name: "nowhere" } }));
    await waits("before", "no Network nowhere");
    const [heard, running] = [await tooOld(), await containers()];
    // Away for a moment only: the operator that leads gives up when it cannot say so for ten seconds.
    await cluster.stopComponent("kube-apiserver");
    await cluster.compact();
    await cluster.startComponent("kube-apiserver");
    const answers = async () => (await cluster.attempt(["get", "--raw", "/readyz"])).stdout === "ok";
    await eventually("the API server is ready", answers, PATIENCE_MS);
    await stage.apply(service("after", { networkRef: { name: "elsewhere" } }));
    await waits("after", "no Network elsewhere");
    await stage.kubectl("delete", "overlayservice", "before", "after", "--timeout=300s");
    await eventually("it was told that its place is gone", async () => (await tooOld()) > heard, PATIENCE_MS);
    expect(await containers()).toBe(running);
  });
});
