import { timingSafeEqual } from "node:crypto";
import { fieldError, type terminatorCreate, type terminatorPatch } from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { TerminatorTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { findEntity, found, getEntity, json, lockEntity, requireEntity, updateEntity } from "../entity.ts";
import { removeTerminators } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";

export type TerminatorRow = Selectable<TerminatorTable>;

/** Where a service ends: a router, and an address that it dials. */
export class Terminators {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /**
   * Made by an administrator. `hostId`: the identity that hosts, for the choice of terminators. `secretField`: the API's name of the secret.
   * @throws ApiError 404 for an unknown service or router, 400 on `secretField` when the instance id is hosted with another secret
   */
  async create(
    terminator: z.output<typeof terminatorCreate> & { readonly hostId?: string },
    secretField: "identitySecret" | "instanceSecret" = "identitySecret",
  ): Promise<string> {
    const id = randomEntityId();
    if (terminator.address === "") throw fieldError("address", "address is required", "");
    await transact(this.#ctx.store, async (trx) => {
      await requireEnds(trx, terminator.service, terminator.router);
      const { identity: instanceId, service: serviceId } = terminator;
      const secret = terminator.identitySecret && Buffer.from(terminator.identitySecret, "base64");
      if (!(await mayShareInstance(trx, { serviceId, instanceId, secret: secret || undefined }))) {
        const reason = `the identity ${instanceId} is hosted with another secret: give the secret of its other terminators`;
        throw fieldError(secretField, reason, "");
      }
      await trx
        .insertInto("terminator")
        .values({
          id,
          service_id: terminator.service,
          router_id: terminator.router,
          binding: bindingOf(terminator.binding, terminator.address),
          address: terminator.address,
          instance_id: terminator.identity,
          instance_secret: secret || null,
          host_id: terminator.hostId,
          cost: terminator.cost,
          precedence: terminator.precedence,
          tags: json(terminator.tags),
        })
        .execute();
      const before = { routerId: terminator.router, serviceId: terminator.service };
      await appendChange(trx, { kind: "terminator", key: id, op: "create", before });
    });
    return id;
  }

  /** Applies the fields that are present. @throws ApiError 404, and 400 on `service` for another one than the terminator was made for */
  async update(
    id: string,
    change: z.output<typeof terminatorPatch> & { readonly hostId?: string | undefined },
  ): Promise<void> {
    await transact(this.#ctx.store, async (trx) => {
      const before = await lockEntity(trx, "terminator", id);
      if (change.service !== undefined && change.service !== before.service_id) {
        const reason = `a terminator stays with its service ${before.service_id}: delete it and create one of the other service`;
        throw fieldError("service", reason, change.service);
      }
      if (change.router !== undefined) await requireEnds(trx, before.service_id, change.router);
      await updateEntity(trx, "terminator", id, {
        router_id: change.router,
        binding: change.binding,
        address: change.address,
        host_id: change.hostId,
        cost: change.cost,
        precedence: change.precedence,
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      const ends = { routerId: change.router ?? before.router_id, serviceId: before.service_id };
      await appendChange(trx, { kind: "terminator", key: id, op: "update", before: ends });
    });
  }

  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const gone = await removeTerminators(trx, sql`t.id = ${id}`);
      found(gone[0], "terminator", id);
    });
  }

  async find(db: Db, id: string): Promise<TerminatorRow | undefined> {
    return findEntity(db, "terminator", id);
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<TerminatorRow> {
    return getEntity(db, "terminator", id);
  }
}

/** @throws ApiError 404 */
async function requireEnds(trx: Db, serviceId: string, routerId: string): Promise<void> {
  await requireEntity(trx, "service", serviceId);
  await requireEntity(trx, "router", routerId);
}

/** A missing binding follows from the address: `udp:…` is served by `udp`, everything else by `transport`. */
function bindingOf(binding: string, address: string): string {
  if (binding !== "") return binding;
  return address.startsWith("udp:") ? "udp" : "transport";
}

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
