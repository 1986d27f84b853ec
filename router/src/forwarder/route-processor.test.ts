import { DestinationType, FaultSubject, silentLogger } from "@sallyport/wire";
import { expect, test, vi } from "vitest";
import { DEFAULT_FORWARDER_OPTIONS } from "../testing/default-options.ts";
import type { EgressRequest } from "./egress.ts";
import type { Fault } from "./fault-reports.ts";
import { Forwarder } from "./forwarder.ts";
import type { RouteRequest } from "./route-processor.ts";

const routeOf = (circuitId: string): RouteRequest => ({
  circuitId,
  attempt: 0,
  egress: { binding: "test", address: `end-${circuitId}`, destination: "x", peerData: {} },
  forwards: [],
  timeout: 10_000_000_000n,
  tags: {},
});

test("dials wait for a worker, one that is unrouted meanwhile never starts, and the next takes its place", async () => {
  const forwarder = new Forwarder({
    routerId: "r1",
    log: silentLogger,
    options: { ...DEFAULT_FORWARDER_OPTIONS, xgressDialWorkerCount: 1, xgressDialQueueLength: 2 },
  });
  const dials: { request: EgressRequest; done: () => void }[] = [];
  forwarder.registerEgress("test", {
    dial: (request) =>
      new Promise((resolve) => {
        dials.push({ request, done: () => resolve(new Map()) });
      }),
  });
  const outcomes = ["c1", "c2", "c3"].map((id) => forwarder.route(routeOf(id), "ctrl"));
  expect((await forwarder.route(routeOf("c4"), "ctrl")).error).toMatch(/2 dials waiting/);
  expect(dials.map((dial) => dial.request.circuitId)).toEqual(["c1"]);
  forwarder.unroute("c2", true);
  dials[0]?.done();
  expect(await outcomes[0]).toMatchObject({ ok: true });
  expect(await outcomes[1]).toMatchObject({ ok: false, error: expect.stringContaining("unrouted") });
  await vi.waitFor(() => expect(dials.map((dial) => dial.request.circuitId)).toEqual(["c1", "c3"]), 10_000);
  expect(dials[1]?.request.timeoutMs).toBeLessThanOrEqual(10_000);
  dials[1]?.done();
  expect(await outcomes[2]).toMatchObject({ ok: true });
  expect(forwarder.circuitIds()).toEqual(["c1", "c3"]);
  forwarder.close();
});

test("a route without a way and without an egress changes whose a circuit is, and makes none", async () => {
  const forwarder = new Forwarder({ routerId: "r1", log: silentLogger, options: DEFAULT_FORWARDER_OPTIONS });
  const faults: Fault[] = [];
  forwarder.onFault((fault) => faults.push(fault));
  const forwards = [{ srcAddress: "end", dstAddress: "start", dstType: DestinationType.Start }];
  const plain = { circuitId: "c1", attempt: 0, timeout: 1_000_000_000n, tags: { serviceId: "s1" } };
  expect(await forwarder.route({ ...plain, forwards }, "ctrl1")).toMatchObject({ ok: true });
  const takeover = { ...plain, attempt: 99_969_996, forwards: [], tags: {} };
  expect(await forwarder.route(takeover, "ctrl2")).toMatchObject({ ok: true });
  expect([...forwarder.circuits()]).toMatchObject([{ id: "c1", controllerId: "ctrl2", tags: { serviceId: "s1" } }]);
  expect([...forwarder.circuits()][0]?.from("end")?.target).toBe("start");
  forwarder.giveUp({ circuitId: "c1", address: "end" });
  expect(faults).toEqual([{ subject: FaultSubject.IngressFault, ids: ["c1"], controllerId: "ctrl2" }]);
  const ended = await forwarder.route({ ...takeover, circuitId: "c2" }, "ctrl2");
  expect(ended).toMatchObject({ ok: false, error: expect.stringContaining("no circuit c2 here") });
  expect(forwarder.circuitIds()).toEqual(["c1"]);
  forwarder.close();
});
