/** Configs of EdgeRouters: a fake API server on one side, a real controller on the other. No pod runs: what counts is the entity and what the status says of it. */
import { expect, test } from "vitest";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import type { TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const scene = OperatorScene.ofThisFile();
const LINK = {
  type: "router.link.v1",
  data: { heartbeats: { sendInterval: "10s" }, protocol: null, address: null, port: null },
};

const synced = (operator: TestOperator) =>
  conditionOf(operator.read("EdgeRouter", "eu")?.status.conditions, "EntitiesSynced");

/** Until the condition EntitiesSynced of the EdgeRouter has the reason. */
const until = async (operator: TestOperator, reason: string) => {
  await operator.until(
    "EdgeRouter",
    "eu",
    ({ status }) => conditionOf(status.conditions, "EntitiesSynced")?.reason === reason,
  );
  return synced(operator);
};

async function configsOf(name: string): Promise<unknown> {
  const [router] = await scene.named("EdgeRouter", name);
  return router?.configs;
}

test("a router gets the configs of its spec, waits for missing ones, and keeps them against others", async () => {
  const operator = await scene.start();
  await operator.apply("EdgeRouter", "eu", { configRefs: [{ name: "link" }] });
  expect(await until(operator, "ReferenceNotFound")).toMatchObject({
    status: "False",
    message: "ServiceConfig link does not exist",
  });
  expect(await scene.named("EdgeRouter", "eu-0")).toEqual([]);

  // The config wakes the router that waits for it.
  await operator.apply("ServiceConfig", "link", LINK);
  const { status } = await operator.ready("ServiceConfig", "link");
  await until(operator, "Synced");
  expect(await configsOf("eu-0")).toEqual([status.id]);
  expect(await operator.writesOfAnotherLook()).toEqual([]);

  const [router] = await scene.named("EdgeRouter", "eu-0");
  await scene.controller.admin("PATCH", `/edge-routers/${router?.id}`, { configs: [] });
  operator.operator.loops.resync();
  await expect.poll(() => configsOf("eu-0")).toEqual([status.id]);

  // A change of what else the spec says does not wait for a config, and takes none away.
  await operator.apply("EdgeRouter", "eu", { cost: 7, configRefs: [{ name: "link" }, { name: "more" }] });
  expect(await until(operator, "ReferenceNotFound")).toMatchObject({
    message: "ServiceConfig more does not exist; the rest is in force",
  });
  expect((await scene.named("EdgeRouter", "eu-0"))[0]).toMatchObject({ cost: 7, configs: [status.id] });

  await operator.apply("EdgeRouter", "eu", { configRefs: null });
  await until(operator, "Synced");
  expect(await configsOf("eu-0")).toBe(null);
});

test("a config for services is refused, with the field", async () => {
  const operator = await scene.start();
  await operator.apply("ServiceConfig", "host");
  await operator.ready("ServiceConfig", "host");
  await operator.apply("EdgeRouter", "us", { configRefs: [{ name: "host" }] });
  const refused = await operator.ready("EdgeRouter", "us", "False", "InvalidSpec");
  expect(conditionOf(refused.status.conditions, "Stalled")?.message).toContain("configs");
});
