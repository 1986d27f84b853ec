/** Edge routers as real pods: enrolled, rolled out, enrolled again, scaled, deleted. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { printFigure, secondsToOnline } from "../figures.ts";
import { hasCluster, type Stage } from "../stage.ts";
import { Routers, stageWithNetwork } from "./routers.ts";

const PATIENCE = { timeout: 300_000, interval: 1_000 };

describe.skipIf(!hasCluster)("edge routers", () => {
  let stage: Stage;
  let eu: Routers;

  beforeAll(async () => {
    stage = await stageWithNetwork("life");
    // Enforced here: what the policy forbids would keep them from coming online.
    eu = new Routers(stage, "eu", { drainSeconds: 2, networkPolicy: { enabled: true } });
    await stage.wait("condition=Ready", "network/main");
  });
  afterAll(async () => await stage?.close());

  const event = async (reason: string): Promise<string> =>
    await stage.kubectl("get", "events", `--field-selector=reason=${reason}`, "--output=jsonpath={.items[*].message}");
  const isRenewed = (than: RouterStatus | undefined) => async () => {
    const [now] = await eu.each();
    return now?.online === true && now.certificateNotAfter !== than?.certificateNotAfter;
  };

  test("come online from one manifest, where pods are restricted", async () => {
    await eu.declare({ replicas: 2 });
    await eu.ready();
    const address = (n: number) => `eu-${n}-edge.${stage.namespace}.svc:3022`;
    expect(await eu.each()).toMatchObject([
      { ordinal: 0, name: "eu-0", verified: true, online: true, advertiseAddress: address(0) },
      { ordinal: 1, name: "eu-1", verified: true, online: true, advertiseAddress: address(1) },
    ]);
    const seconds = await secondsToOnline(stage, "eu-0");
    printFigure({ scenario: "life of routers", what: "eu-0: pod created to online", seconds, target: 10 });
    // The token is used.
    expect(await eu.objects("secret")).toEqual([]);
    const budget = "--output=jsonpath={.status.expectedPods} {.status.disruptionsAllowed}";
    await expect.poll(() => stage.kubectl("get", "pdb/eu", budget), PATIENCE).toBe("2 1");
  });

  test("are at rest: nothing is applied any more", async () => {
    const kinds = "statefulset,service,configmap,pvc,pdb,networkpolicy,serviceaccount,pod";
    const before = await stage.settled(kinds);
    expect(before.length).toBeGreaterThan(12);
    await eu.annotate("sallyport.dev/reconcile-requested-at=1");
    await stage.wait("jsonpath={.status.lastHandledReconcileAt}=1", "edgerouter/eu");
    expect(await stage.versions(kinds)).toEqual(before);
  });

  test("are not restarted for what concerns the network alone, nor for a mistake, which describe shows", async () => {
    const before = await eu.each();
    await eu.declare({ replicas: 2, roleAttributes: ["public"] });
    await eu.current();
    await eu.declare({ replicas: 2, config: { overrides: { forwarder: { linkDialQueLength: 3 } } } });
    await stage.wait("condition=Stalled", "edgerouter/eu");
    const described = await stage.kubectl("describe", "edgerouter/eu");
    expect(described).toContain("spec.config.overrides.forwarder.linkDialQueLength: expected a known key, perhaps");
    await eu.declare({ replicas: 2 });
    await eu.current();
    expect((await eu.each()).map(({ configHash }) => configHash)).toEqual(before.map(({ configHash }) => configHash));
  });

  test("are enrolled again when an annotation asks for it", async () => {
    const [before] = await eu.each();
    await eu.annotate("sallyport.dev/re-enroll=0:a");
    await stage.wait("jsonpath={.status.lastHandledReEnroll}=0:a", "edgerouter/eu");
    await stage.explain(expect.poll(isRenewed(before), PATIENCE).toBe(true));
    await eu.current();
    expect((await eu.each())[0]?.id).toBe(before?.id);
    await expect.poll(() => event("ReEnrolled"), PATIENCE).toContain("eu-0");
  });

  test("are enrolled again on another volume when theirs is lost, as the same router", async () => {
    const [before] = await eu.each();
    await stage.kubectl("delete", "pvc/data-eu-0-0", "--wait=false");
    await stage.kubectl("delete", "pod/eu-0-0");
    await stage.explain(expect.poll(isRenewed(before), PATIENCE).toBe(true));
    await eu.current();
    expect((await eu.each())[0]?.id).toBe(before?.id);
    const told = "router eu-0 is enrolled again: its volume is a new one";
    await expect.poll(() => event("ReEnrolled"), PATIENCE).toContain(told);
  });

  test("are one, three and one by kubectl scale: entities, volumes and Services come and go", async () => {
    const perRouter = "statefulset,configmap,pvc,service";
    const of = async (router: string) => {
      const isItsOwn = new RegExp(`\\b${router}(-|$)`);
      return (await eu.objects(perRouter)).filter((name) => isItsOwn.test(name));
    };
    const scale = async (replicas: number) => {
      await stage.kubectl("scale", "edgerouter/eu", `--replicas=${replicas}`);
      await eu.current((now) => now.length === replicas);
    };
    const [first, second] = await eu.each();
    await scale(1);
    await scale(3);
    const three = await eu.each();
    expect(three.every(({ online }) => online)).toBe(true);
    expect(three[0]?.id).toBe(first?.id);
    // It was deleted from the network, and is another one.
    expect(three[1]?.id).not.toBe(second?.id);
    expect(await of("eu-2")).toHaveLength(4);
    await scale(1);
    expect((await eu.each())[0]?.id).toBe(first?.id);
    for (const gone of ["eu-1", "eu-2"])
      await stage.explain(expect.poll(() => of(gone), { ...PATIENCE, message: gone }).toEqual([]));
  });

  test("get larger volumes without a restart", async () => {
    const generation = "--output=jsonpath={.metadata.generation}";
    const before = await stage.kubectl("get", "statefulset/eu-0", generation);
    await eu.declare({ replicas: 1, storage: { size: "60Mi" } });
    await stage.wait("jsonpath={.status.capacity.storage}=60Mi", "pvc/data-eu-0-0");
    await eu.current();
    expect(await stage.kubectl("get", "statefulset/eu-0", generation)).toBe(before);
  });

  test("are gone with all that is theirs when they are deleted", async () => {
    await stage.explained("delete", "edgerouter/eu", "--timeout=300s");
    const left = () => eu.objects("statefulset,configmap,pvc,service,pod,pdb,networkpolicy,serviceaccount");
    await stage.explain(expect.poll(left, PATIENCE).toEqual([]));
  });
});
