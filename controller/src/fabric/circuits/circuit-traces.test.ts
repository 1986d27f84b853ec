import { silentLogger, TraceChannel } from "@sallyport/wire";
import { expect, test } from "vitest";
import { CircuitFailureCause, type FabricEvent } from "../fabric-events.ts";
import type { Circuit } from "./circuit.ts";
import { circuitTraces } from "./circuit-traces.ts";

const circuit = (clientId: string): Circuit => ({
  id: "c",
  serviceId: "s",
  terminatorId: "t",
  clientId,
  hostId: "h",
  grant: { kind: "identity" },
  route: { routers: ["a", "b"], links: ["l"], ingressId: "i", egressId: "e" },
  addresses: { initiatorLocal: "", initiatorRemote: "", terminatorLocal: "", terminatorRemote: "" },
  requestedAt: 0,
  createdAt: new Date(0),
  updatedAt: new Date(0),
  tags: {},
  peerData: new Map(),
});

const FAILED = {
  kind: "circuit-failed",
  ...{
    circuitId: "c",
    serviceId: "s",
    terminatorId: "",
    instanceId: "",
    ingressRouterId: "r1",
    timespanMs: 1,
    message: "no way",
  },
  cause: CircuitFailureCause.NoPath,
} as const;

test.each([
  [TraceChannel.SelectPath, ["created", "rerouted"]],
  [TraceChannel.EstablishPath, ["created", "removed", "failed"]],
])("of the channels %j only %j are written", (channelMask, expected) => {
  const written: string[] = [];
  const log = { ...silentLogger, info: (_fields: object, msg: string) => written.push(msg) };
  const trace = circuitTraces(() => ({ traceId: "T", channelMask }), log);
  trace({ kind: "circuit-created", circuit: circuit("i"), timespanMs: 1 });
  trace({ kind: "circuit-rerouted", circuit: circuit("i") });
  trace({ kind: "circuit-removed", circuit: circuit("i"), reason: "closed" });
  trace({ ...FAILED, clientId: "i" });
  expect(written).toEqual(expected.map((each) => `traced circuit-${each}`));
});

test("only what happens to circuits of traced identities is written, with the trace's id", () => {
  const written: object[] = [];
  const log = { ...silentLogger, info: (fields: object, msg: string) => written.push({ ...fields, msg }) };
  const trace = circuitTraces(
    (id) => (id === "traced" ? { traceId: "T", channelMask: TraceChannel.All } : undefined),
    log,
  );
  const events: FabricEvent[] = ["traced", "other"].flatMap((id): FabricEvent[] => [
    { kind: "circuit-created", circuit: circuit(id), timespanMs: 1 },
    { kind: "circuit-rerouted", circuit: circuit(id) },
    { kind: "circuit-removed", circuit: circuit(id), reason: "closed" },
    { ...FAILED, clientId: id },
    { kind: "router-offline", routerId: "a" },
  ]);
  for (const event of events) trace(event);
  expect(written).toMatchObject([
    { msg: "traced circuit-created", traceId: "T", path: ["a", "b"], links: ["l"], ingressId: "i", egressId: "e" },
    { msg: "traced circuit-rerouted", traceId: "T" },
    { msg: "traced circuit-removed", traceId: "T", reason: "closed" },
    { msg: "traced circuit-failed", traceId: "T", cause: "NO_PATH" },
  ]);
});
