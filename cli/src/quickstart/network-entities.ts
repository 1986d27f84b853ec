/** What a quick start makes in its network. What exists stays as it is. */
import { type Entity, valueAt } from "../entities/entity.ts";
import { quoted } from "../entities/filter-text.ts";
import { listEntities } from "../entities/list.ts";
import { withIds } from "../entities/references.ts";
import { changeEntity, createEntity, readEntity } from "../entities/write.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import type { Exposure } from "./exposure.ts";

export const ROUTER = "quickstart-router";
export const MACHINES = ["machine-2", "machine-3"] as const;
const POLICY = "quickstart";
/** Attribute of the identities that may dial the services, and of the services. */
const CLIENTS = "clients";
const SERVICES = "quickstart";
/** Reserved for private networks by ICANN. */
const DOMAIN = "sallyport.internal";
/** As long as a token counts that a controller makes by itself. */
const TOKEN_MS = 3 * 3_600_000;

type Given = Readonly<Record<string, unknown>>;

async function named(kindName: string, name: string, caller: ApiCaller): Promise<Entity | undefined> {
  const [found] = await listEntities(kindNamed(kindName), { filter: `name = ${quoted(name)}` }, caller);
  return found;
}

/** The entity with this name, which is created if there is none. */
async function ensured(kindName: string, name: string, given: Given, caller: ApiCaller): Promise<Entity> {
  const found = await named(kindName, name, caller);
  if (found !== undefined) return found;
  const kind = kindNamed(kindName);
  const values = await withIds(kind, new Map<string, unknown>(Object.entries({ name, ...given })), caller);
  return await readEntity(kind, await createEntity(kind, values, caller), caller);
}

/** The router, which also hosts the services. */
export async function ensureRouter(caller: ApiCaller): Promise<Entity> {
  return await ensured("edge-router", ROUTER, { isTunnelerEnabled: true }, caller);
}

/** A token that enrolls the router. One of an earlier run that was interrupted may have been used. */
export async function routerToken(caller: ApiCaller): Promise<string> {
  const kind = kindNamed("edge-router");
  const router = await ensureRouter(caller);
  const { id, enrollmentJwt: jwt, enrollmentExpiresAt: until } = router;
  if (typeof jwt === "string" && !isOver(until)) return jwt;
  await caller.json({ method: "POST", path: `${kind.path}/${id}/re-enroll`, body: {} });
  return String((await readEntity(kind, String(id), caller)).enrollmentJwt);
}

export async function isRouterOnline(caller: ApiCaller): Promise<boolean> {
  return (await named("edge-router", ROUTER, caller))?.isOnline === true;
}

/** All identities and services may use the router, `#clients` may dial the services, and the router hosts them. */
export async function ensurePolicies(caller: ApiCaller): Promise<void> {
  const semantic = "AnyOf";
  const all = ["#all"];
  const services = [`#${SERVICES}`];
  await ensured("edge-router-policy", POLICY, { semantic, identityRoles: all, edgeRouterRoles: all }, caller);
  await ensured("service-edge-router-policy", POLICY, { semantic, serviceRoles: all, edgeRouterRoles: all }, caller);
  const dial = { type: "Dial", semantic, identityRoles: [`#${CLIENTS}`], serviceRoles: services };
  await ensured("service-policy", `${POLICY}-dial`, dial, caller);
  const bind = { type: "Bind", semantic, identityRoles: [`@${ROUTER}`], serviceRoles: services };
  await ensured("service-policy", `${POLICY}-bind`, bind, caller);
}

/** The service, with the program that it leads to as it is now. */
export async function ensureService({ name, host, port }: Exposure, caller: ApiCaller): Promise<void> {
  const target = { protocol: "tcp", address: host, port };
  const config = await ensured("config", `${name}-host`, { configTypeId: "host.v1", data: target }, caller);
  const { address, port: before } = (config.data ?? {}) as Partial<typeof target>;
  if (address !== host || before !== port)
    await changeEntity(kindNamed("config"), config, new Map([["data", target]]), caller);
  const interception = {
    protocols: ["tcp"],
    addresses: [hostNameOf(name)],
    portRanges: [{ low: port, high: port }],
  };
  await ensured("config", `${name}-intercept`, { configTypeId: "intercept.v1", data: interception }, caller);
  const configs = [`${name}-host`, `${name}-intercept`];
  await ensured("service", name, { roleAttributes: [SERVICES], encryptionRequired: true, configs }, caller);
}

/** By which clients on a machine that intercepts call the service. */
export function hostNameOf(service: string): string {
  return `${service}.${DOMAIN}`;
}

/** The services with their programs, by name. */
export async function services(caller: ApiCaller): Promise<readonly Exposure[]> {
  const filter = `anyOf(roleAttributes) = ${quoted(SERVICES)}`;
  const found = await listEntities(kindNamed("service"), { filter }, caller);
  const exposures: Exposure[] = [];
  for (const { name } of found) {
    const data = (await named("config", `${name}-host`, caller))?.data as Partial<Exposure & { address: string }>;
    if (typeof data?.address === "string" && typeof data.port === "number")
      exposures.push({ name: String(name), host: data.address, port: data.port });
  }
  return exposures;
}

export interface MachineToken {
  readonly name: string;
  readonly jwt: string;
  readonly until: Date;
}

/** Creates the identity of a machine, which may dial the services. */
export async function ensureMachine(name: string, caller: ApiCaller): Promise<void> {
  const given = { type: "Device", isAdmin: false, roleAttributes: [CLIENTS], enrollment: { ott: true } };
  await ensured("identity", name, given, caller);
}

/** The token of a machine that has not joined yet; a new one where the last one has ended. */
export async function machineToken(name: string, caller: ApiCaller): Promise<MachineToken | undefined> {
  const identity = await named("identity", name, caller);
  if (identity === undefined || valueAt(identity, "authenticators.cert") !== undefined) return undefined;
  const now = outstanding(name, identity);
  if (now !== undefined && !isOver(now.until)) return now;
  const expiresAt = new Date(Date.now() + TOKEN_MS).toISOString();
  const id = valueAt(identity, "enrollment.ott.id");
  const request =
    typeof id === "string"
      ? { path: `${MANAGEMENT_API}/enrollments/${id}/refresh`, body: { expiresAt } }
      : { path: `${MANAGEMENT_API}/enrollments`, body: { method: "ott", identityId: identity.id, expiresAt } };
  await caller.json({ method: "POST", ...request });
  return outstanding(name, (await named("identity", name, caller)) ?? {});
}

function outstanding(name: string, identity: Entity): MachineToken | undefined {
  const jwt = valueAt(identity, "enrollment.ott.jwt");
  const until = new Date(String(valueAt(identity, "enrollment.ott.expiresAt")));
  return typeof jwt === "string" ? { name, jwt, until } : undefined;
}

function isOver(time: unknown): boolean {
  return new Date(time as string | Date).getTime() <= Date.now();
}
