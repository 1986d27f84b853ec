import { CreateCircuitHeader, EdgeCtrlHeader, EdgeCtrlType, type Message, silentLogger } from "@sallyport/wire";
import { afterEach, describe, expect, test } from "vitest";
import type { FabricOptions } from "../options.ts";
import { dial, dialHeaders, established, link } from "../testing/circuit-mesh.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

const LONG = 600_000;
let net: TestFabric;
/** What dials that wait are missing. */
let waits: unknown[];
afterEach(() => net.stop());

/** A controller that was just started: the service it knows is hosted at router b, only router a has come back. */
async function restarted(options: Partial<FabricOptions> = {}, instanceId = "") {
  waits = [];
  net = await TestFabric.start(
    { reconnectGraceMs: LONG, routeTimeoutMs: LONG, returnWaitMs: LONG, ...options },
    {
      ...silentLogger,
      debug: (fields: { cause?: unknown }, text) => void (/waits/.test(text ?? "") && waits.push(fields.cause)),
    },
  );
  net.model.addService("svc");
  net.model.addTerminator("t1", "svc", "b", { instanceId });
  net.model.sessions.set("dial", { id: "s1", type: "Dial", serviceId: "svc", identityId: "client" });
  return net.connect("a");
}

const waitsFor = (...causes: string[]) => eventually(() => expect(waits).toEqual(causes));

function expectRefused(answer: Message, text: RegExp): void {
  expect(answer.contentType).toBe(EdgeCtrlType.Error);
  expect(answer.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(1);
  expect(answer.body.toString()).toMatch(text);
}

describe("a controller that was just started", () => {
  test("has a dial wait for the router of the terminator, and then for its link", async () => {
    const a = await restarted();
    const answer = dial(a);
    await waitsFor("NO_ONLINE_TERMINATORS");
    const b = await net.connect("b");
    await link(a, b, "ab", 1);
    a.acceptRoute((await a.nextRoute()).message);
    b.acceptRoute((await b.nextRoute()).message);
    const created = await answer;
    expect(created.contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(net.fabric.circuit(created.headers.getString(CreateCircuitHeader.ResponseCircuitId) ?? "")).toMatchObject({
      terminatorId: "t1",
      route: { routers: ["a", "b"], links: ["ab"] },
    });
    expect(waits).toHaveLength(1);
  });

  test("has a dial wait for a link", async () => {
    const a = await restarted();
    const b = await net.connect("b");
    const answer = dial(a);
    await waitsFor("NO_PATH");
    await link(b, a, "ba", 1);
    a.acceptRoute((await a.nextRoute()).message);
    b.acceptRoute((await b.nextRoute()).message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
  });

  test("has a dial that waits find a terminator that is new: its host has come to another router", async () => {
    const a = await restarted();
    await net.connect("b");
    const answer = dial(a);
    await waitsFor("NO_PATH");
    net.model.addTerminator("t2", "svc", "a");
    a.acceptRoute((await a.nextRoute()).message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(waits).toHaveLength(1);
  });

  test("does not hand out a terminator that was deleted while a dial waited", async () => {
    const a = await restarted();
    const answer = dial(a);
    await waitsFor("NO_ONLINE_TERMINATORS");
    net.model.terminators.delete("t1");
    await link(a, await net.connect("b"), "ab", 1);
    expectRefused(await answer, /has no terminators$/);
  });

  test("refuses in the end what does not come back, with the reason", async () => {
    const a = await restarted({ routeTimeoutMs: 200 });
    expectRefused(await dial(a), /no online terminators/);
    await net.connect("b");
    expectRefused(await dial(a), /no path/);
    expect(waits).toEqual(["NO_ONLINE_TERMINATORS", "NO_PATH"]);
  });

  test("has some dials of a router wait, and refuses further ones at once: it serves the router meanwhile", async () => {
    const a = await restarted();
    net.model.addService("here");
    net.model.addTerminator("t2", "here", "a");
    net.model.sessions.set("near", { id: "s2", type: "Dial", serviceId: "here", identityId: "client" });
    const waiting = Array.from({ length: 500 }, () => dial(a));
    await eventually(() => expect(waits).toHaveLength(500));
    // More than are worked on side by side.
    const refused = await Promise.all(Array.from({ length: 1_000 }, () => dial(a)));
    for (const answer of refused) expectRefused(answer, /no online terminators/);
    const near = dial(a, dialHeaders("near"));
    a.acceptRoute((await a.nextRoute()).message);
    expect((await near).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(waits).toHaveLength(500);
    net.model.terminators.delete("t1");
    await link(a, await net.connect("b"), "ab", 1);
    for (const answer of await Promise.all(waiting)) expectRefused(answer, /has no terminators$/);
  });

  test("refuses at once when its first moments are over", async () => {
    const a = await restarted({ reconnectGraceMs: 1_000 });
    // It waits until they are over.
    expectRefused(await dial(a), /no online terminators/);
    const before = waits.length;
    expectRefused(await dial(a), /no online terminators/);
    await net.connect("b");
    expectRefused(await dial(a), /no path/);
    expect(waits).toHaveLength(before);
  });

  test("refuses at once what no router can bring back: a router that was here, an instance that no host has", async () => {
    const a = await restarted({}, "other");
    expectRefused(await dial(a), /no terminators for instanceId/);
    net.model.addTerminator("t2", "svc", "b");
    const b = await net.connect("b");
    await link(a, b, "ab", 1);
    await established(a, b);
    b.close();
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual(["a"]));
    expectRefused(await dial(a), /no online terminators/);
    expect(waits).toEqual([]);
  });

  test("keeps no dial of a router that went away, nor any when it stops", async () => {
    const a = await restarted();
    dial(a).catch(() => {});
    await waitsFor("NO_ONLINE_TERMINATORS");
    const events: string[] = [];
    net.fabric.onEvent(({ kind }) => void events.push(kind));
    a.close();
    await eventually(() => expect(events).toContain("circuit-failed"));
    dial(await net.connect("a")).catch(() => {});
    await waitsFor("NO_ONLINE_TERMINATORS", "NO_ONLINE_TERMINATORS");
    await net.fabric.close();
    expect(events.filter((kind) => kind === "circuit-failed")).toHaveLength(2);
  });
});
