import { afterEach, expect, test } from "vitest";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

const LONG = 600_000;
let net: TestFabric;
afterEach(() => net.stop());

/** Whether clients wait for these routers, now. */
async function waits(routerIds: string[]): Promise<{ wait: Promise<void>; isOver: () => boolean }> {
  let isOver = false;
  const wait = net.fabric.someRouterBack(routerIds).then(() => {
    isOver = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return { wait, isOver: () => isOver };
}

test("clients of a controller that was just started wait until they can use a router, not only until it has connected", async () => {
  net = await TestFabric.start({ reconnectGraceMs: LONG, returnWaitMs: LONG });
  const { wait, isOver } = await waits(["a", "b"]);
  expect(isOver()).toBe(false);
  const a = await net.connect("a");
  await a.roundTrip();
  expect(isOver()).toBe(false);
  await a.hello(4022);
  await wait;
  // Neither does who comes now, nor is another router of any concern.
  expect((await waits(["b", "a"])).isOver()).toBe(true);
});

test("no client waits for a router that was here and went away, for none, or later on", async () => {
  net = await TestFabric.start({ reconnectGraceMs: LONG });
  const a = await net.connect("a");
  await a.hello(4022);
  a.channel.close();
  await eventually(() => expect(net.fabric.routerState("a")).toBeUndefined());
  expect((await waits(["a"])).isOver()).toBe(true);
  expect((await waits([])).isOver()).toBe(true);
  await net.stop();
  net = await TestFabric.start({ reconnectGraceMs: 1 });
  await net.fabric.someRouterBack(["a"]);
  expect((await waits(["a"])).isOver()).toBe(true);
});
