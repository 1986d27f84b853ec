import type { CircuitGrant } from "./circuit.ts";

/**
 * What allows a circuit, as its routers keep it for the controller that takes the circuit over; absent for what an identity's right alone allows. Ids only: who
 * has them has no right by that. Source: docs/protocol/replicas.md, "Circuits".
 */
export function tagOfGrant(grant: CircuitGrant): string | undefined {
  if (grant.kind === "session") return `session ${grant.sessionId}`;
  if (grant.kind === "token") return `token ${grant.apiSessionId} ${grant.issuedAt.getTime()}`;
  return undefined;
}

/** Without a readable tag the circuit lasts as long as the right of its identity. */
export function grantOfTag(tag: string | undefined, identityId: string): CircuitGrant {
  const [kind, id, time] = (tag ?? "").split(" ");
  if (kind === "session" && id) return { kind, sessionId: id };
  const issuedAt = new Date(Number(time));
  if (kind === "token" && id && !Number.isNaN(issuedAt.getTime())) {
    return { kind, apiSessionId: id, identityId, issuedAt };
  }
  return { kind: "identity" };
}
