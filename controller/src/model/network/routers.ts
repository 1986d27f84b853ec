import {
  apiError,
  type edgeRouterCreate,
  type edgeRouterPatch,
  fieldError,
  unauthorized,
  unhandledCause,
} from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { RouterTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { findEntity, found, json, lockEntity, requireName, updateEntity } from "../entity.ts";
import type { Enrollments } from "../identity/enrollments.ts";
import type { Identities } from "../identity/identities.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { dropFromPolicies, removeTerminators } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";
import { oneOfEachType } from "./configs.ts";

export type RouterRow = Selectable<RouterTable>;
export type NewEdgeRouter = z.output<typeof edgeRouterCreate>;
export type EdgeRouterChange = z.output<typeof edgeRouterPatch>;
export type RouterChange = EdgeRouterChange & { readonly fingerprint?: string | undefined };

/** A router whose certificate was made elsewhere. */
export interface EnrolledRouter {
  readonly id: string;
  readonly name: string;
  readonly fingerprint: string;
  readonly cost: number;
  readonly noTraversal: boolean;
  readonly disabled: boolean;
  readonly tags: RouterRow["tags"];
}

type RouterCertificate = { readonly pem: string; readonly fingerprint: string };

/** Ids given from outside become parts of addresses and messages. */
const ROUTER_ID = /^[A-Za-z0-9._-]{1,100}$/;

const NO_CERTIFICATE = {
  fingerprint: null,
  cert_pem: null,
  unverified_fingerprint: null,
  unverified_cert_pem: null,
} as const;

/** Edge routers, and the transit routers that share their names and ids. */
export class Routers {
  readonly #ctx: ModelContext;
  readonly #enrollments: Enrollments;
  readonly #identities: Identities;

  constructor(ctx: ModelContext, enrollments: Enrollments, identities: Identities) {
    this.#ctx = ctx;
    this.#enrollments = enrollments;
    this.#identities = identities;
  }

  /** Makes a router and its enrollment; with the tunneler on, its identity and the policy that ties them, too. */
  async create(router: NewEdgeRouter, kind: RouterRow["kind"] = "edge"): Promise<string> {
    requireName(router.name);
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      await trx
        .insertInto("router")
        .values({
          id,
          kind,
          name: router.name,
          attrs: roleAttributes(router.roleAttributes),
          cost: router.cost,
          no_traversal: router.noTraversal,
          disabled: router.disabled,
          is_tunneler_enabled: router.isTunnelerEnabled,
          app_data: json(router.appData),
          ctrl_chan_listeners: json(router.ctrlChanListeners),
          tags: json(router.tags),
        })
        .execute();
      await addConfigs(trx, id, router.configs);
      await this.#enrollments.insert(trx, { method: kind === "edge" ? "erott" : "trott", routerId: id });
      if (router.isTunnelerEnabled) await this.#addTunneler(trx, id, router.name);
      await appendChange(trx, { kind: "router", key: id, op: "create" });
    });
    return id;
  }

  /** Makes a transit router that needs no enrollment: it comes with the certificate of this fingerprint. */
  async createEnrolled(router: EnrolledRouter): Promise<void> {
    requireName(router.name);
    if (!ROUTER_ID.test(router.id)) {
      const reason =
        "id must be 1 to 100 letters, digits and the characters . _ -, as routers carry it in certificates";
      throw fieldError("id", reason, router.id);
    }
    await transact(this.#ctx.store, async (trx) => {
      await trx
        .insertInto("router")
        .values({
          id: router.id,
          kind: "transit",
          name: router.name,
          fingerprint: router.fingerprint.toLowerCase(),
          is_verified: true,
          cost: router.cost,
          no_traversal: router.noTraversal,
          disabled: router.disabled,
          tags: json(router.tags),
        })
        .execute();
      await appendChange(trx, { kind: "router", key: router.id, op: "create" });
    });
  }

  /** Applies the fields that are present. A fingerprint replaces the certificate: the router is enrolled by it. */
  async update(id: string, change: RouterChange, kind: RouterRow["kind"] | "any" = "edge"): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    await transact(this.#ctx.store, async (trx) => {
      const before = await this.#locked(trx, id, kind);
      await updateEntity(trx, "router", id, {
        name: change.name,
        attrs: change.roleAttributes === undefined ? undefined : roleAttributes(change.roleAttributes),
        cost: change.cost,
        no_traversal: change.noTraversal,
        disabled: change.disabled,
        is_tunneler_enabled: change.isTunnelerEnabled,
        app_data: json(change.appData),
        ctrl_chan_listeners: json(change.ctrlChanListeners),
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      if (change.configs !== undefined) {
        await trx.deleteFrom("router_config").where("router_id", "=", id).execute();
        await addConfigs(trx, id, change.configs);
      }
      const print = change.fingerprint?.toLowerCase();
      if (print !== undefined && print !== before.fingerprint) await this.#setFingerprint(trx, id, print);
      const tunneler = change.isTunnelerEnabled ?? before.is_tunneler_enabled;
      if (tunneler && !before.is_tunneler_enabled) await this.#addTunneler(trx, id, change.name ?? before.name);
      if (!tunneler && before.is_tunneler_enabled) await this.#removeTunneler(trx, id);
      if (tunneler && before.is_tunneler_enabled && change.name !== undefined && change.name !== before.name) {
        await updateEntity(trx, "identity", id, { name: change.name, updated_at: this.#ctx.now() });
        await appendChange(trx, { kind: "identity", key: id, op: "update" });
      }
      await this.#logUpdate(trx, before);
    });
  }

  /** Removes the router with its terminators, enrollments, selectors and tunneler. */
  async delete(id: string, kind?: RouterRow["kind"]): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await this.#locked(trx, id, kind);
      await removeTerminators(trx, sql`t.router_id = ${id}`);
      if (row.is_tunneler_enabled) await this.#removeTunneler(trx, id);
      await this.#enrollments.withdraw(trx, id);
      await dropFromPolicies(trx, "router", id);
      await trx.deleteFrom("router").where("id", "=", id).execute();
      await appendChange(trx, { kind: "router", key: id, op: "delete", before: { attrs: row.attrs } });
    });
  }

  /** Withdraws the router's certificate and makes a new enrollment; the change closes its live channel. */
  async reEnroll(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const before = await this.#locked(trx, id);
      await this.#enrollments.withdraw(trx, id);
      await updateEntity(trx, "router", id, { ...NO_CERTIFICATE, is_verified: false, updated_at: this.#ctx.now() });
      await this.#enrollments.insert(trx, { method: before.kind === "edge" ? "erott" : "trott", routerId: id });
      await this.#logUpdate(trx, before);
    });
  }

  /**
   * Makes a newly issued certificate the router's. `held`: the fingerprint by which the router asked for it; absent after an enrollment.
   * @throws ApiError 401 when that one was withdrawn or replaced since
   */
  async setCertificate(trx: Db, id: string, certificate: RouterCertificate, held?: string): Promise<void> {
    const before = await this.#locked(trx, id);
    requireHeld(before, held);
    await updateEntity(trx, "router", id, {
      ...NO_CERTIFICATE,
      is_verified: true,
      cert_pem: certificate.pem,
      fingerprint: certificate.fingerprint,
      updated_at: this.#ctx.now(),
    });
    await this.#logUpdate(trx, before);
  }

  /** Keeps a renewed certificate until the router confirms it; the present one stays valid. As {@link setCertificate}. */
  async setUnverifiedCertificate(trx: Db, id: string, certificate: RouterCertificate, held: string): Promise<void> {
    requireHeld(await this.#locked(trx, id), held);
    await updateEntity(trx, "router", id, {
      unverified_cert_pem: certificate.pem,
      unverified_fingerprint: certificate.fingerprint,
    });
    await appendChange(trx, { kind: "router", key: id, op: "update" });
  }

  /** By its certificate, or by a renewed one that it has not confirmed yet; edge routers first. */
  async findByFingerprint(db: Db, fingerprint: string): Promise<RouterRow | undefined> {
    return db
      .selectFrom("router")
      .selectAll()
      .where((eb) => eb.or([eb("fingerprint", "=", fingerprint), eb("unverified_fingerprint", "=", fingerprint)]))
      .orderBy("kind")
      .executeTakeFirst();
  }

  async find(db: Db, id: string): Promise<RouterRow | undefined> {
    return findEntity(db, "router", id);
  }

  /** @throws ApiError 404, also when the router is of the other kind */
  async get(db: Db, id: string, kind?: RouterRow["kind"]): Promise<RouterRow> {
    const row = await this.find(db, id);
    return found(kind !== undefined && row?.kind !== kind ? undefined : row, "router", id);
  }

  async #setFingerprint(trx: Db, id: string, fingerprint: string): Promise<void> {
    await this.#enrollments.withdraw(trx, id);
    await updateEntity(trx, "router", id, { ...NO_CERTIFICATE, is_verified: true, fingerprint });
  }

  async #addTunneler(trx: Db, id: string, name: string): Promise<void> {
    await trx.insertInto("identity").values({ id, name, type_id: "Router" }).execute();
    await trx
      .insertInto("edge_router_policy")
      .values({ id, name: `edge-router-${id}-system`, semantic: "AnyOf", is_system: true })
      .execute();
    await trx
      .insertInto("edge_router_policy_ref")
      .values([
        { policy_id: id, side: "identity", entity_id: id },
        { policy_id: id, side: "router", entity_id: id },
      ])
      .execute();
    await appendChange(
      trx,
      { kind: "identity", key: id, op: "create" },
      { kind: "edge_router_policy", key: id, op: "create" },
    );
  }

  async #removeTunneler(trx: Db, id: string): Promise<void> {
    await trx.deleteFrom("edge_router_policy").where("id", "=", id).execute();
    await appendChange(trx, { kind: "edge_router_policy", key: id, op: "delete" });
    if ((await this.#identities.find(trx, id)) === undefined) return;
    // Sessions that are being made wait for this, or are there when it is removed.
    await this.#identities.remove(trx, await this.#identities.locked(trx, id));
  }

  async #locked(trx: Db, id: string, kind: RouterRow["kind"] | "any" = "any"): Promise<RouterRow> {
    const row = await lockEntity(trx, "router", id);
    if (kind === "any" || row.kind === kind) return row;
    throw apiError("CAN_NOT_UPDATE_ROUTER", unhandledCause(`router ${id} is not a router of kind ${kind}`));
  }

  async #logUpdate(trx: Db, before: RouterRow): Promise<void> {
    await appendChange(trx, { kind: "router", key: before.id, op: "update", before: { attrs: before.attrs } });
  }
}

async function addConfigs(trx: Db, id: string, configIds: readonly string[]): Promise<void> {
  const configs = await oneOfEachType(trx, "router", configIds);
  if (configs.length === 0) return;
  await trx
    .insertInto("router_config")
    .values(configs.map((config) => ({ router_id: id, ...config })))
    .execute();
}

function requireHeld(router: RouterRow, fingerprint: string | undefined): void {
  if (fingerprint === undefined || router.fingerprint === fingerprint) return;
  throw unauthorized(`the certificate ${fingerprint} of router ${router.id} was withdrawn or replaced`);
}
