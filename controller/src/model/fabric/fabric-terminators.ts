import { RouterBinding } from "@sallyport/wire";
import { sql } from "kysely";
import type {
  CircuitService,
  FabricModel,
  NewTerminator,
  TerminatorOutcome,
  TerminatorRecord,
} from "../../fabric/ports.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { Db, ModelContext } from "../context.ts";
import { json, keepEntity } from "../entity.ts";
import type { Model } from "../model.ts";
import type { ServiceRow } from "../network/services.ts";
import { mayShareInstance, type TerminatorRow } from "../network/terminators.ts";
import { hasGrant } from "../policy/access.ts";
import { removeTerminators } from "../session/session-removal.ts";
import type { CircuitFacts } from "./circuit-facts.ts";

/** What the fabric asks about services and terminators. */
export function fabricTerminators(ctx: ModelContext, model: Model, facts: CircuitFacts) {
  const { store } = ctx;
  const { db } = store;
  return {
    async findService(idOrName) {
      const row = await model.services.findByIdOrName(db, idOrName);
      return row === undefined ? undefined : circuitService(row);
    },
    async terminatorsOfService(serviceId) {
      return facts.terminators(serviceId, async () => {
        const query = db.selectFrom("terminator").selectAll().select(VERSION).where("service_id", "=", serviceId);
        const rows = await query.execute();
        return rows.map(terminatorRecord);
      });
    },
    async terminatorsOfRouter(routerId, afterId, limit) {
      const rows = await db
        .selectFrom("terminator")
        .selectAll()
        .select(VERSION)
        .where("router_id", "=", routerId)
        .where("id", ">", afterId)
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map(terminatorRecord);
    },
    async findTerminator(id) {
      const query = db.selectFrom("terminator").selectAll().select(VERSION).where("id", "=", id);
      const row = await query.executeTakeFirst();
      return row === undefined ? undefined : terminatorRecord(row);
    },
    createTerminator: (terminator) => store.transaction((trx) => create(trx, terminator, store.replica.isShared)),
    async updateTerminator(id, change, version) {
      const isUpdated = await store.transaction(async (trx) => {
        const row = await trx
          .updateTable("terminator")
          .set({ cost: change.cost, precedence: change.precedence, updated_at: ctx.now() })
          .where("id", "=", id)
          .$if(version !== undefined, (query) => query.where(sql`xmin::text`, "=", version))
          .returning(["router_id", "service_id"])
          .executeTakeFirst();
        if (row === undefined) return false;
        const before = { routerId: row.router_id, serviceId: row.service_id };
        await appendChange(trx, { kind: "terminator", key: id, op: "update", before });
        return true;
      });
      facts.forgetTerminator(id);
      return isUpdated;
    },
    async hostedWithoutSession(of) {
      const identityIds = of.map(({ identityId }) => identityId);
      const serviceIds = of.map(({ serviceId }) => serviceId);
      const { rows } = await sql<
        TerminatorRow & { version: string }
      >`SELECT t.*, t.xmin::text AS version FROM terminator t
        JOIN unnest(${identityIds}::text[], ${serviceIds}::text[]) AS o (identity_id, service_id)
          ON t.host_id = o.identity_id AND t.service_id = o.service_id
        WHERE t.binding = ${RouterBinding.Edge} AND NOT EXISTS (SELECT 1 FROM session s
          WHERE s.identity_id = t.host_id AND s.service_id = t.service_id AND s.type = 'Bind')`.execute(db);
      return rows.map(terminatorRecord);
    },
    async deleteTerminators(routerId, ids) {
      if (ids.length === 0) return [];
      const removed = await store.transaction((trx) =>
        removeTerminators(trx, sql`t.router_id = ${routerId} AND t.id = ANY (${ids}::text[])`),
      );
      for (const id of removed) facts.forgetTerminator(id);
      return removed;
    },
    async deleteUnchanged(routerId, terminators) {
      const ids = terminators.map(({ id }) => id);
      const versions = terminators.map(({ version = "" }) => version);
      const removed = await store.transaction((trx) =>
        removeTerminators(
          trx,
          sql`t.router_id = ${routerId}
            AND (t.id, t.xmin::text) IN (SELECT * FROM unnest(${ids}::text[], ${versions}::text[]))`,
        ),
      );
      // One that stays has another version than is kept: its router asked for it again, which the change log does not tell.
      for (const id of ids) facts.forgetTerminator(id);
      return removed;
    },
  } satisfies Partial<FabricModel>;
}

export function circuitService(
  row: Pick<ServiceRow, "id" | "name" | "terminator_strategy" | "encryption_required" | "max_idle_time_millis">,
): CircuitService {
  return {
    id: row.id,
    name: row.name,
    terminatorStrategy: row.terminator_strategy,
    encryptionRequired: row.encryption_required,
    maxIdleTimeMs: Number(row.max_idle_time_millis),
  };
}

/** The transaction that wrote a terminator's row. */
const VERSION = sql<string>`xmin::text`.as("version");

/** @param isShared another controller may be about to delete what the router asks for again: that gets another version */
async function create(trx: Db, terminator: NewTerminator, isShared: boolean): Promise<TerminatorOutcome> {
  const id = terminator.id ?? randomEntityId();
  const refusal = await refusalOf(trx, terminator);
  if (refusal !== undefined) return refusal;
  const made = await trx
    .insertInto("terminator")
    .values({
      id,
      service_id: terminator.serviceId,
      router_id: terminator.routerId,
      binding: terminator.binding,
      address: terminator.address,
      instance_id: terminator.instanceId,
      instance_secret: terminator.instanceSecret === undefined ? null : Buffer.from(terminator.instanceSecret),
      host_id: terminator.hostId,
      cost: terminator.cost,
      precedence: terminator.precedence,
      peer_data: json(peerDataToJson(terminator.peerData)),
    })
    .onConflict((conflict) => conflict.column("id").doNothing())
    .returningAll()
    .returning(VERSION)
    .executeTakeFirst();
  const before = { routerId: terminator.routerId, serviceId: terminator.serviceId };
  if (made !== undefined) {
    await appendChange(trx, { kind: "terminator", key: id, op: "create", before });
    return { outcome: "created", terminator: terminatorRecord(made) };
  }
  const present = await trx
    .selectFrom("terminator")
    .selectAll()
    .select(VERSION)
    .where("id", "=", id)
    .forUpdate()
    .executeTakeFirst();
  if (present === undefined) return { outcome: "rejected", message: `terminator ${id} is being removed` };
  const isSame =
    present.binding === terminator.binding &&
    present.service_id === terminator.serviceId &&
    present.router_id === terminator.routerId &&
    present.host_id === terminator.hostId;
  if (!isSame) return { outcome: "conflict", message: `terminator ${id} exists with another service, router or host` };
  const isUnchanged = present.cost === terminator.cost && present.precedence === terminator.precedence;
  if (isUnchanged && !isShared) return { outcome: "existing", terminator: terminatorRecord(present) };
  const changed = await trx
    .updateTable("terminator")
    .set({ cost: terminator.cost, precedence: terminator.precedence })
    .where("id", "=", id)
    .returningAll()
    .returning(VERSION)
    .executeTakeFirstOrThrow();
  if (!isUnchanged) await appendChange(trx, { kind: "terminator", key: id, op: "update", before });
  return { outcome: "existing", terminator: terminatorRecord(changed) };
}

/**
 * Why a terminator cannot be made. Locks the rows that it refers to until the transaction ends, in the order in which sessions lock them.
 * Checks the right to host again, by the rule for Bind sessions. A transaction that revokes that right waits for this one and then finds the terminator.
 */
async function refusalOf(trx: Db, terminator: NewTerminator): Promise<TerminatorOutcome | undefined> {
  const { serviceId, routerId, instanceId, hostId, instanceSecret: secret } = terminator;
  const host = await keepEntity(trx, "identity", hostId, ["id", "attrs", "is_admin"]);
  if (host === undefined) return { outcome: "denied", message: `identity ${hostId} is unknown` };
  const service = await keepEntity(trx, "service", serviceId, ["id", "attrs"]);
  if (service === undefined) return { outcome: "rejected", message: `service ${serviceId} is unknown` };
  if (!host.is_admin && !(await hasGrant(trx, host, service, "Bind"))) {
    return { outcome: "denied", message: `identity ${hostId} may not host service ${serviceId} any more` };
  }
  const router = await keepEntity(trx, "router", routerId, ["id"]);
  if (router === undefined) return { outcome: "rejected", message: `router ${routerId} is unknown` };
  if (await mayShareInstance(trx, { serviceId, instanceId, hostId, secret })) return undefined;
  return {
    outcome: "rejected",
    message: `instance id ${instanceId} is in use by another identity, and the instance secret is not the one of that`,
  };
}

/** A terminator as the fabric takes it. */
export function terminatorRecord(row: TerminatorRow & { readonly version?: string }): TerminatorRecord {
  return {
    id: row.id,
    serviceId: row.service_id,
    routerId: row.router_id,
    binding: row.binding,
    address: row.address,
    instanceId: row.instance_id,
    ...(row.instance_secret === null ? {} : { instanceSecret: row.instance_secret }),
    cost: row.cost,
    precedence: row.precedence,
    peerData: new Map(
      Object.entries(row.peer_data).map(([key, value]) => [Number(key), Buffer.from(value, "base64")] as const),
    ),
    hostId: row.host_id,
    createdAt: row.created_at,
    ...(row.version === undefined ? {} : { version: row.version }),
  };
}

function peerDataToJson(peerData: ReadonlyMap<number, Uint8Array>): Record<string, string> {
  return Object.fromEntries([...peerData].map(([key, value]) => [key, Buffer.from(value).toString("base64")]));
}
