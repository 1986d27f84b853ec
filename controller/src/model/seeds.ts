/** The entities that every network has from the start: see docs/protocol/store.md, "From the start". */
import { appendChange } from "../store/changes/change-log.ts";
import {
  hostInterfacesV1,
  hostV1,
  hostV2,
  interceptV1,
  interfacesV1,
  l2HostV1,
  l2InterceptV1,
  proxyV1,
  routerLinkV1,
  tunnelerClientV1,
  tunnelerServerV1,
} from "../store/config-schemas.ts";
import { randomEntityId } from "../store/ids.ts";
import type { ConfigTarget } from "../store/schema.ts";
import type { Db, ModelStore } from "./context.ts";
import { json } from "./entity.ts";
import { transact, translated } from "./store-errors.ts";

export const DEFAULT_AUTH_POLICY = "default";

interface FixedConfigType {
  readonly id: string;
  readonly name: string;
  readonly schema: object;
  readonly target?: ConfigTarget;
}

/**
 * The config types that every network has, because tunnelers and routers look for them by name. Their ids are fixed, too. docs/protocol/configs.md explains
 * the keys.
 */
export const FIXED_CONFIG_TYPES: readonly FixedConfigType[] = [
  { id: "g7cIWbcGg", name: "intercept.v1", schema: interceptV1 },
  { id: "NH5p4FpGR", name: "host.v1", schema: hostV1 },
  { id: "host.v2", name: "host.v2", schema: hostV2 },
  { id: "f2dd2df0-9c04-4b84-a91e-71437ac229f1", name: "ziti-tunneler-client.v1", schema: tunnelerClientV1 },
  { id: "cea49285-6c07-42cf-9f52-09a9b115c783", name: "ziti-tunneler-server.v1", schema: tunnelerServerV1 },
  // From OpenZiti 2.0 on.
  { id: "interfaces.v1", name: "interfaces.v1", schema: interfacesV1 },
  { id: "host-interfaces.v1", name: "host-interfaces.v1", schema: hostInterfacesV1 },
  { id: "proxy.v1", name: "proxy.v1", schema: proxyV1 },
  { id: "router.link.v1", name: "router.link.v1", schema: routerLinkV1, target: "router" },
  { id: "l2.host.v1", name: "l2.host.v1", schema: l2HostV1 },
  { id: "l2.intercept.v1", name: "l2.intercept.v1", schema: l2InterceptV1 },
];

/**
 * The most rows that the tables have in an unused network: what `init` and the first start write. A restore may replace such a network.
 */
export const UNUSED_NETWORK_ROWS: Readonly<Record<string, number>> = {
  auth_policy: 1,
  authenticator: 1,
  config_type: FIXED_CONFIG_TYPES.length,
  identity: 1,
  secret: 10,
  setting: 100,
  token_key: 10,
};

/**
 * Makes the default authentication policy and the fixed config types where they are missing. Safe to run at every start.
 * @returns the names of config types that an administrator had made before they were fixed ones: those stay as they are
 */
export async function seed(store: ModelStore): Promise<readonly string[]> {
  return store.transaction(async (trx) => {
    await seedIn(trx);
    const names = FIXED_CONFIG_TYPES.map(({ name }) => name);
    const ids = FIXED_CONFIG_TYPES.map(({ id }) => id);
    const own = trx.selectFrom("config_type").select("name").where("name", "in", names).where("id", "not in", ids);
    return (await own.orderBy("name").execute()).map(({ name }) => name);
  });
}

/** As {@link seed}, in a transaction. */
export async function seedIn(trx: Db): Promise<void> {
  const policy = await trx
    .insertInto("auth_policy")
    .values({
      id: DEFAULT_AUTH_POLICY,
      name: "Default",
      is_system: true,
      cert_allowed: true,
      cert_allow_expired: true,
      updb_allowed: true,
      updb_min_password_length: 5,
      updb_max_attempts: 0,
      updb_lockout_minutes: 0,
      ext_jwt_allowed: true,
    })
    .onConflict((conflict) => conflict.column("id").doNothing())
    .returning("id")
    .executeTakeFirst();
  if (policy !== undefined) await appendChange(trx, { kind: "auth_policy", key: policy.id, op: "create" });
  for (const type of FIXED_CONFIG_TYPES) {
    const made = await trx
      .insertInto("config_type")
      .values({ id: type.id, name: type.name, schema: json(type.schema), target: type.target, is_system: true })
      // Of the id, or of the name: an administrator may have had a type of that name before.
      .onConflict((conflict) => conflict.doNothing())
      .returning("id")
      .executeTakeFirst();
    if (made !== undefined) await appendChange(trx, { kind: "config_type", key: made.id, op: "create" });
  }
}

/** Whether the default administrator was made. */
export async function hasAdmin(store: ModelStore): Promise<boolean> {
  return translated(async () => {
    const query = store.db.selectFrom("identity").select("id").where("is_default_admin", "=", true);
    return (await query.executeTakeFirst()) !== undefined;
  });
}

/**
 * Makes the default administrator, once: a second call changes nothing and answers undefined.
 * @param passwordHash argon2id in PHC form (`auth/password.ts`)
 */
export async function seedAdmin(
  store: ModelStore,
  admin: { readonly name: string; readonly username: string; readonly passwordHash: string },
): Promise<string | undefined> {
  return transact(store, async (trx) => {
    const present = await trx
      .selectFrom("identity")
      .select("id")
      .where("is_default_admin", "=", true)
      .executeTakeFirst();
    if (present !== undefined) return undefined;
    const id = randomEntityId();
    await trx
      .insertInto("identity")
      .values({ id, name: admin.name, type_id: "Default", is_admin: true, is_default_admin: true })
      .execute();
    const authenticatorId = randomEntityId();
    await trx
      .insertInto("authenticator")
      .values({
        id: authenticatorId,
        identity_id: id,
        method: "updb",
        username: admin.username,
        password_hash: admin.passwordHash,
      })
      .execute();
    await appendChange(
      trx,
      { kind: "identity", key: id, op: "create" },
      { kind: "authenticator", key: authenticatorId, op: "create" },
    );
    return id;
  });
}
