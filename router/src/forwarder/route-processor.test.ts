import { silentLogger } from "@sallyport/wire";
import { expect, test, vi } from "vitest";
import { DEFAULT_FORWARDER_OPTIONS } from "../testing/default-options.ts";
import type { EgressRequest } from "./egress.ts";
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
