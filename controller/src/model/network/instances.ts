import { timingSafeEqual } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../context.ts";

/** A terminator that is to have an instance id. */
export interface InstanceClaim {
  readonly serviceId: string;
  readonly instanceId: string;
  readonly secret?: Uint8Array | undefined;
  /** The identity that hosts; undefined: an administrator makes the terminator. */
  readonly hostId?: string | undefined;
}

/**
 * Whether a terminator may share its instance id with those of the service. Another host needs their secret. An administrator needs it only if there is
 * one. In a transaction the answer holds until its end. Source: docs/protocol/fabric.md, "Instances".
 */
export async function mayShareInstance(trx: Db, claim: InstanceClaim): Promise<boolean> {
  const { serviceId, instanceId, secret, hostId } = claim;
  if (instanceId === "") return true;
  // One after the other: of two hosts that ask at the same moment each would find the instance free.
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`instance/${serviceId}/${instanceId}`}, 0))`.execute(trx);
  const others = await trx
    .selectFrom("terminator")
    .select(["host_id", "instance_secret"])
    .where("service_id", "=", serviceId)
    .where("instance_id", "=", instanceId)
    .execute();
  return others.every(({ host_id, instance_secret }) => {
    if (hostId !== undefined && host_id === hostId) return true;
    if (instance_secret === null) return hostId === undefined;
    return secret !== undefined && isEqual(instance_secret, secret);
  });
}

function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
