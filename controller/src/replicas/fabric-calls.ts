/** The calls about what the fabric of each process alone knows. */
import type { ListQuery } from "@sallyport/api";
import { z } from "zod";
import type { CircuitState } from "../fabric/circuits/circuit.ts";
import type { InspectionRequest, InspectionResult } from "../fabric/inspection.ts";
import type { Call } from "./calls.ts";

const date = z.number().transform((ms) => new Date(ms));

const grant = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("session"), sessionId: z.string() }),
  z.object({ kind: z.literal("token"), apiSessionId: z.string(), identityId: z.string(), issuedAt: date }),
  z.object({ kind: z.literal("identity") }),
]);

const circuit = z.object({
  id: z.string(),
  serviceId: z.string(),
  terminatorId: z.string(),
  clientId: z.string(),
  hostId: z.string(),
  grant,
  route: z.object({
    routers: z.array(z.string()),
    links: z.array(z.string()),
    ingressId: z.string(),
    egressId: z.string(),
  }),
  addresses: z.object({
    initiatorLocal: z.string(),
    initiatorRemote: z.string(),
    terminatorLocal: z.string(),
    terminatorRemote: z.string(),
  }),
  createdAt: date,
  updatedAt: date,
  tags: z.record(z.string(), z.string()),
});

/** A circuit as it travels; it is read by the schema. */
export function circuitText(of: CircuitState): CircuitState {
  const { id, serviceId, terminatorId, clientId, hostId, grant, route, addresses, createdAt, updatedAt, tags } = of;
  const told = {
    ...{ id, serviceId, terminatorId, clientId, hostId, route, addresses, tags },
    grant: grant.kind === "token" ? { ...grant, issuedAt: grant.issuedAt.getTime() } : grant,
    createdAt: createdAt.getTime(),
    updatedAt: updatedAt.getTime(),
  };
  // Dates are numbers on their way.
  return told as unknown as CircuitState;
}

/** Which circuits are asked for. */
export type CircuitQuestion =
  | { readonly by: "page"; readonly list: ListQuery }
  | { readonly by: "id" | "session" | "router"; readonly id: string };

const list = z.object({
  // What it may be is checked when it is applied.
  filter: z.unknown().optional(),
  sort: z.array(z.object({ name: z.string(), descending: z.boolean() })),
  sortIn: z.enum(["filter", "sort"]),
  limit: z.number(),
  offset: z.number(),
}) as unknown as z.ZodType<ListQuery>;

/** Circuits of the asked replica, and how many there are beside those of the page. */
export const CIRCUITS: Call<CircuitQuestion, number, CircuitState> = {
  name: "circuits",
  question: z.union([
    z.object({ by: z.literal("page"), list }),
    z.object({ by: z.enum(["id", "session", "router"]), id: z.string() }),
  ]),
  answer: z.number(),
  item: circuit as unknown as z.ZodType<CircuitState>,
};

/** Ends a circuit if the asked replica has it. */
export const END_CIRCUIT: Call<{ id: string; isImmediate: boolean }, boolean> = {
  name: "end circuit",
  question: z.object({ id: z.string(), isImmediate: z.boolean() }),
  answer: z.boolean(),
};

/** An administrator removed a link. */
export const LINK_REMOVED: Call<{ id: string }, boolean> = {
  name: "link removed",
  question: z.object({ id: z.string() }),
  answer: z.boolean(),
};

/** Closes the control channel of a router. */
export const DISCONNECT: Call<{ id: string; reason: string }, boolean> = {
  name: "disconnect router",
  question: z.object({ id: z.string(), reason: z.string() }),
  answer: z.boolean(),
};

/** What the asked replica says of itself. */
export const INSPECT: Call<InspectionRequest, InspectionResult> = {
  name: "inspect",
  question: z.object({ appRegex: z.string(), requestedValues: z.array(z.string()) }),
  answer: z.object({
    success: z.boolean(),
    errors: z.array(z.string()),
    values: z.array(z.object({ appId: z.string(), name: z.string(), value: z.string() })),
  }),
};
