import { silentLogger } from "@sallyport/wire";
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
  createdAt: new Date(0),
  updatedAt: new Date(0),
  tags: {},
  peerData: new Map(),
});

test("only what happens to circuits of traced identities is written, with the trace's id", () => {
  const written: object[] = [];
  const log = { ...silentLogger, info: (fields: object, msg: string) => written.push({ ...fields, msg }) };
  const trace = circuitTraces((id) => (id === "traced" ? { traceId: "T" } : undefined), log);
  const failed = {
    kind: "circuit-failed",
    ...{ circuitId: "c", serviceId: "s", terminatorId: "", instanceId: "", timespanMs: 1, message: "no way" },
    cause: CircuitFailureCause.NoPath,
  } as const;
  const events: FabricEvent[] = ["traced", "other"].flatMap((id): FabricEvent[] => [
    { kind: "circuit-created", circuit: circuit(id), timespanMs: 1 },
    { kind: "circuit-rerouted", circuit: circuit(id) },
    { kind: "circuit-removed", circuit: circuit(id), reason: "closed" },
    { ...failed, clientId: id },
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
