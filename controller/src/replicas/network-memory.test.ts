import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { FailedDials } from "../model/fabric/failed-dials.ts";
import { Traces } from "../model/identity/traces.ts";
import { type FailedRequest, FailedRequests } from "../model/posture/failed-requests.ts";
import { NetworkMemory } from "./network-memory.ts";
import { type TestReplica, TestReplicas } from "./testing/test-replicas.ts";

let replicas: TestReplicas;
let c: TestController;
let identity: string;
let service: string;
const clock = { ms: 0 };

beforeEach(async () => {
  clock.ms = Date.now();
  replicas = await TestReplicas.create();
  c = await startTestController({ calls: (await replicas.start("one")).calls });
  identity = await c.make("identities", { name: "laptop", type: "User", isAdmin: false });
  service = await c.make("services", { name: "web", encryptionRequired: false });
});
afterEach(async () => {
  await c.close();
  await replicas.close();
});

/** What another controller remembers. */
function other({ calls }: Pick<TestReplica, "calls">) {
  const now = () => new Date(clock.ms);
  const memory = {
    failedDials: new FailedDials(now),
    posture: { failedRequests: new FailedRequests() },
    traces: new Traces(now),
  };
  return { ...memory, whole: new NetworkMemory(memory, calls) };
}

const dialed = (code: string) => ({ serviceId: service, type: "Dial", code, message: `${code} it is` }) as const;
const why = async () => (await c.admin("GET", `/identities/${identity}/why/${service}`)).json.data;
const request = (when: string): FailedRequest => ({
  ...{ apiSessionId: "a", policyFailures: [], serviceId: service, serviceName: "web", sessionType: "Dial", when },
});

it("failed dials of all controllers are told by any of them, and a success at another one counts", async () => {
  const two = other(await replicas.start("two"));
  const three = other(await replicas.start("three"));
  // One that has no such call, as an older version, is left out.
  await replicas.start("old");
  replicas.set({ id: "gone", apiAddress: "localhost:1" });
  c.model.failedDials.add(identity, dialed("HERE"));
  clock.ms = Date.now() + 5_000;
  two.failedDials.add(identity, { ...dialed("THERE"), routerId: "r1" });
  two.failedDials.add("another identity", dialed("OTHER"));
  const codes = async () => (await why()).lastFailedDials.map(({ code }: { code: string }) => code);
  expect(await codes()).toEqual(["THERE", "HERE"]);
  expect(await two.whole.dials(identity, service, "Dial")).toMatchObject({
    failed: [{ code: "THERE", routerId: "r1" }, { code: "HERE" }],
    hasSucceededSince: false,
  });
  clock.ms += 1;
  three.failedDials.succeeded(identity, service);
  expect(await two.whole.dials(identity, service, "Dial")).toMatchObject({ hasSucceededSince: true });
});

it("failed requests of all controllers are one list in the order of time", async () => {
  const two = other(await replicas.start("two"));
  await replicas.start("old");
  const times = [1, 2, 3].map((second) => `2026-01-01T00:00:0${second}.000Z`);
  c.model.posture.failedRequests.add(identity, request(times[1]!));
  two.posture.failedRequests.add(identity, request(times[2]!));
  two.posture.failedRequests.add(identity, request(times[0]!));
  two.posture.failedRequests.add("another identity", request(times[0]!));
  const { json } = await c.admin("GET", `/identities/${identity}/failed-service-requests`);
  expect(json.data.map(({ when }: FailedRequest) => when)).toEqual(times);
});

it("an identity is traced at all controllers, those that start later too, until it is disabled at any", async () => {
  const two = other(await replicas.start("two"));
  const set = async (body: object) => (await c.admin("PUT", `/identities/${identity}/trace`, body)).json.data;
  const { traceId } = await set({ enabled: true, duration: "10m", traceId: "", channels: ["all"] });
  expect(two.traces.of(identity)).toEqual(c.model.traces.of(identity));
  expect(two.traces.of(identity)?.traceId).toBe(traceId);
  const late = other(await replicas.start("late"));
  await vi.waitFor(() => expect(late.traces.of(identity)?.traceId).toBe(traceId), 10_000);
  await late.whole.disableTrace(identity);
  for (const { traces } of [c.model, two, late]) expect(traces.of(identity)).toBeUndefined();
});
