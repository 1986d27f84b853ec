import { X509Certificate } from "node:crypto";
import { type PrecedenceName, splitPem } from "@sallyport/wire";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { Attributed } from "../../policy/selector.ts";
import type { Tags } from "../../store/schema.ts";
import type { RevocationType } from "../../store/session-tables.ts";
import type { Db } from "../context.ts";
import {
  configEvent,
  configTypeEvent,
  type EncodedEvent,
  identityEvent,
  postureCheckEvent,
  revocationEvent,
  serviceEvent,
} from "./events.ts";

/** The kinds of entities that are read by id; policies come from `policies.ts`. */
export type ImageEntityKind = "revocation" | "config_type" | "config" | "identity" | "service" | "posture_check";

/** An entity as the image keeps it. */
export interface ImageEntity extends Attributed {
  readonly event: EncodedEvent;
  /** Of an identity: the services it has configs of its own for. */
  readonly overrides: readonly string[];
  /** Of an identity that is disabled for a time: its end. */
  readonly disabledUntil: Date | undefined;
}

/** Entities of a kind: those with the ids, or up to `limit` behind an id, in id order. */
export type WantedEntities = { readonly ids: readonly string[] } | { readonly after: string; readonly limit: number };

/** Reads entities and encodes their events; ids that are gone are left out. */
export async function readEntities(
  db: Db,
  kind: ImageEntityKind,
  wanted: WantedEntities,
  now: Date,
): Promise<ImageEntity[]> {
  const from =
    "ids" in wanted ? sql<SqlBool>`e.id = ANY (${wanted.ids}::text[])` : sql<SqlBool>`e.id > ${wanted.after}`;
  const page = sql`${from} ORDER BY e.id ${"ids" in wanted ? sql`` : sql`LIMIT ${wanted.limit}`}`;
  const readers = {
    revocation: revocations,
    identity: identities,
    service: services,
    posture_check: checks,
    config: configs,
    config_type: configTypes,
  };
  return readers[kind](db, page, now);
}

const plain = (id: string, attrs: readonly string[], event: EncodedEvent): ImageEntity => ({
  id,
  attrs,
  event,
  overrides: [],
  disabledUntil: undefined,
});

interface IdentityRow {
  id: string;
  name: string;
  attrs: string[];
  precedence: PrecedenceName;
  cost: number;
  precedences: Record<string, PrecedenceName>;
  costs: Record<string, number>;
  app_data: Tags;
  disabled_at: Date | null;
  disabled_until: Date | null;
  configs: [string, string, string][] | null;
}

async function identities(db: Db, page: RawBuilder<unknown>, now: Date): Promise<ImageEntity[]> {
  const { rows } = await sql<IdentityRow>`
    SELECT e.id, e.name, e.attrs, e.default_hosting_precedence AS precedence, e.default_hosting_cost AS cost,
      e.service_hosting_precedences AS precedences, e.service_hosting_costs AS costs, e.app_data, e.disabled_at,
      e.disabled_until,
      (SELECT jsonb_agg(jsonb_build_array(c.service_id, c.config_type_id, c.config_id) ORDER BY c.service_id, c.config_type_id)
        FROM identity_service_config c WHERE c.identity_id = e.id) AS configs
    FROM identity e WHERE ${page}`.execute(db);
  return rows.map((row) => {
    const isDisabled = row.disabled_at !== null && (row.disabled_until === null || row.disabled_until > now);
    const serviceConfigs = row.configs ?? [];
    const event = identityEvent({
      id: row.id,
      name: row.name,
      defaultHostingPrecedence: row.precedence,
      defaultHostingCost: row.cost,
      serviceHostingPrecedences: row.precedences,
      serviceHostingCosts: row.costs,
      appData: row.app_data,
      serviceConfigs,
      isDisabled,
    });
    return {
      id: row.id,
      attrs: row.attrs,
      event,
      overrides: [...new Set(serviceConfigs.map(([serviceId]) => serviceId))],
      disabledUntil: isDisabled ? (row.disabled_until ?? undefined) : undefined,
    };
  });
}

async function services(db: Db, page: RawBuilder<unknown>): Promise<ImageEntity[]> {
  const { rows } = await sql<{ id: string; name: string; attrs: string[]; encrypted: boolean; configs: string[] }>`
    SELECT e.id, e.name, e.attrs, e.encryption_required AS encrypted,
      ARRAY(SELECT c.config_id FROM service_config c WHERE c.service_id = e.id ORDER BY c.config_id) AS configs
    FROM service e WHERE ${page}`.execute(db);
  return rows.map(({ id, name, attrs, encrypted, configs }) =>
    plain(id, attrs, serviceEvent({ id, name, encryptionRequired: encrypted, configs })),
  );
}

async function checks(db: Db, page: RawBuilder<unknown>): Promise<ImageEntity[]> {
  const { rows } = await sql<{
    id: string;
    name: string;
    attrs: string[];
    type_id: string;
    data: Record<string, unknown>;
  }>`SELECT e.id, e.name, e.attrs, e.type_id, e.data FROM posture_check e WHERE ${page}`.execute(db);
  return rows.map(({ id, name, attrs, type_id: typeId, data }) =>
    plain(id, attrs, postureCheckEvent({ id, name, typeId, data })),
  );
}

/** Those for routers are not for all: each router is given its own. */
async function configs(db: Db, page: RawBuilder<unknown>): Promise<ImageEntity[]> {
  const { rows } = await sql<{ id: string; name: string; type_id: string; data: unknown }>`
    SELECT e.id, e.name, e.config_type_id AS type_id, e.data FROM config e
    WHERE NOT EXISTS (SELECT 1 FROM config_type t WHERE t.id = e.config_type_id AND t.target = 'router') AND ${page}`.execute(
    db,
  );
  return rows.map(({ id, name, type_id: typeId, data }) => plain(id, [], configEvent({ id, name, typeId, data })));
}

async function configTypes(db: Db, page: RawBuilder<unknown>): Promise<ImageEntity[]> {
  const { rows } = await sql<{ id: string; name: string; target: string }>`
    SELECT e.id, e.name, e.target FROM config_type e WHERE ${page}`.execute(db);
  return rows.map((row) => plain(row.id, [], configTypeEvent(row)));
}

/** Those whose tokens have ended are left out: their rows go soon. */
async function revocations(db: Db, page: RawBuilder<unknown>, now: Date): Promise<ImageEntity[]> {
  const { rows } = await sql<{ id: string; type: RevocationType; expires_at: Date; issued_before: Date | null }>`
    SELECT e.id, e.type, e.expires_at, e.issued_before FROM revocation e WHERE e.expires_at > ${now} AND ${page}`.execute(
    db,
  );
  return rows.map(({ id, type, expires_at: expiresAt, issued_before: issuedBefore }) =>
    plain(id, [], revocationEvent({ id, type, expiresAt, issuedBefore })),
  );
}

/** The first certificate of every foreign CA whose clients may log in. One that cannot be read is left out. */
export async function foreignAuthorities(db: Db): Promise<X509Certificate[]> {
  const { rows } = await sql<{ cert_pem: string }>`
    SELECT cert_pem FROM ca WHERE is_verified AND is_auth_enabled ORDER BY id`.execute(db);
  return rows.flatMap(({ cert_pem }) => {
    const [pem] = splitPem(cert_pem);
    try {
      return pem === undefined ? [] : [new X509Certificate(pem)];
    } catch {
      return [];
    }
  });
}
