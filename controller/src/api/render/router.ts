import { apiTime, type edgeRouterDetail, orNull, routerCapability, type routerDetail } from "@sallyport/api";
import { hasCapability, RouterCapability } from "@sallyport/wire";
import type { z } from "zod";
import type { RouterRow } from "../../model/network/routers.ts";
import type { RouterInterface } from "../../store/schema.ts";
import type { ApiDependencies, RouterView } from "../dependencies.ts";
import { baseOf } from "./base.ts";

const UNKNOWN_VERSION = { arch: "", buildDate: "", os: "", revision: "", version: "" };

/** The outstanding enrollments by router, and the routers as they were after that. */
async function outstanding(deps: ApiDependencies, rows: readonly RouterRow[]) {
  const { db } = deps.ctx.store;
  const unverified = rows.filter((row) => !row.is_verified).map((row) => row.id);
  const found = await deps.model.enrollments.ofRouters(db, unverified);
  const enrollments = new Map(found.map((enrollment) => [enrollment.router_id, enrollment]));
  // A router that completes its enrollment between the two queries would have neither certificate nor token.
  const between = unverified.filter((id) => !enrollments.has(id));
  const now =
    between.length === 0 ? [] : await db.selectFrom("router").selectAll().where("id", "in", between).execute();
  const changed = new Map(now.map((row) => [row.id, row]));
  const enrollmentOf = (routerId: string) => {
    const enrollment = enrollments.get(routerId);
    return (
      enrollment && {
        enrollmentCreatedAt: apiTime(enrollment.issued_at),
        enrollmentExpiresAt: apiTime(enrollment.expires_at),
        enrollmentJwt: enrollment.jwt,
        enrollmentToken: enrollment.token,
      }
    );
  };
  return { enrollmentOf, rows: rows.map((row) => changed.get(row.id) ?? row) };
}

/** Ids of the configs of routers; null for those without, as consoles of OpenZiti expect. */
async function configsOf(
  { ctx }: ApiDependencies,
  rows: readonly RouterRow[],
): Promise<(routerId: string) => string[] | null> {
  if (rows.length === 0) return () => null;
  const found = await ctx.store.db
    .selectFrom("router_config")
    .select(["router_id", "config_id"])
    .where(
      "router_id",
      "in",
      rows.map(({ id }) => id),
    )
    .orderBy("config_id")
    .execute();
  const byRouter = Map.groupBy(found, ({ router_id }) => router_id);
  return (routerId) => orNull((byRouter.get(routerId) ?? []).map(({ config_id }) => config_id));
}

/** Any routers as parts of the fabric, with their outstanding enrollments. */
export async function renderRouters(
  deps: ApiDependencies,
  found: readonly RouterRow[],
): Promise<z.input<typeof routerDetail>[]> {
  const { enrollmentOf, rows } = await outstanding(deps, found);
  const configs = await configsOf(deps, rows);
  return rows.map((row) => ({
    ...baseOf("transit-routers", row),
    configs: configs(row.id),
    cost: row.cost,
    ctrlChanListeners: row.ctrl_chan_listeners,
    disabled: row.disabled,
    ...enrollmentOf(row.id),
    fingerprint: row.fingerprint,
    ...interfacesOf(row),
    isOnline: deps.fabric.routerState(row.id)?.isOnline ?? false,
    isVerified: row.is_verified,
    name: row.name,
    noTraversal: row.no_traversal,
    unverifiedCertPem: row.unverified_cert_pem,
    unverifiedFingerprint: row.unverified_fingerprint,
  }));
}

/** Edge routers as administrators see them, with their outstanding enrollments. */
export async function renderEdgeRouters(
  deps: ApiDependencies,
  found: readonly RouterRow[],
): Promise<z.input<typeof edgeRouterDetail>[]> {
  const { enrollmentOf, rows } = await outstanding(deps, found);
  const configs = await configsOf(deps, rows);
  return rows.map((row) => {
    const state = deps.fabric.routerState(row.id) ?? offline(row);
    return {
      ...baseOf("edge-routers", row),
      ...propertiesOf(row, state),
      certPem: row.cert_pem,
      configs: configs(row.id),
      ctrlChanListeners: row.ctrl_chan_listeners,
      ...enrollmentOf(row.id),
      fingerprint: row.fingerprint ?? undefined,
      ...interfacesOf(row),
      isTunnelerEnabled: row.is_tunneler_enabled,
      isVerified: row.is_verified,
      roleAttributes: orNull(row.attrs),
      unverifiedCertPem: row.unverified_cert_pem,
      unverifiedFingerprint: row.unverified_fingerprint,
      versionInfo: state.versionInfo ?? UNKNOWN_VERSION,
    };
  });
}

/** Bits of an interface's flags, as routers report them. */
const InterfaceFlag = { Up: 1, Broadcast: 2, Loopback: 4, Multicast: 16, Running: 32 } as const;

/** The property `interfaces`; none for a router that has reported none. */
export function interfacesOf({ interfaces }: RouterRow) {
  return interfaces.length === 0 ? {} : { interfaces: interfaces.map(interfaceOf) };
}

function interfaceOf({ flags, ...shown }: RouterInterface) {
  const has = (flag: number) => (flags & flag) !== 0;
  return {
    ...shown,
    addresses: [...shown.addresses],
    isBroadcast: has(InterfaceFlag.Broadcast),
    isLoopback: has(InterfaceFlag.Loopback),
    isMulticast: has(InterfaceFlag.Multicast),
    isRunning: has(InterfaceFlag.Running),
    isUp: has(InterfaceFlag.Up),
  };
}

const OFFLINE: RouterView = { isOnline: false, hostname: "", supportedProtocols: {}, syncStatus: "SYNC_UNKNOWN" };

/** A router that is not connected has no addresses; its name and version are those it had last. */
function offline({ report }: RouterRow): RouterView {
  return { ...OFFLINE, hostname: report.hostname ?? "", ...(report.version && { versionInfo: report.version }) };
}

/** The properties of an edge router that clients see, too. The name is the same everywhere: C clients distinguish connections by it. */
export function propertiesOf(row: RouterRow, state: RouterView) {
  return {
    appData: row.app_data,
    ...(state.isOnline && { capabilities: capabilitiesOf(state) }),
    cost: row.cost,
    disabled: row.disabled,
    hostname: state.hostname,
    isOnline: state.isOnline,
    name: row.name,
    noTraversal: row.no_traversal,
    supportedProtocols: { ...state.supportedProtocols },
    syncStatus: state.syncStatus,
    version: state.versionInfo?.version ?? "",
  };
}

const CAPABILITY_BITS: Readonly<Record<z.infer<typeof routerCapability>, number>> = {
  MULTI_CHANNEL: RouterCapability.MultiChannel,
  CONNECT_V2: RouterCapability.ConnectV2,
  SERVICE_SUBSCRIPTIONS: RouterCapability.ServiceSubscriptions,
  POSTURE_CHECKS: RouterCapability.PostureChecks,
  BIND_SUCCESS: RouterCapability.BindSuccess,
};

function capabilitiesOf({ capabilities }: RouterView): z.infer<typeof routerCapability>[] {
  return routerCapability.options.filter((name) => hasCapability(capabilities, CAPABILITY_BITS[name]));
}

/** A router as clients see it. Includes offline routers: a C client closes its connection to a router that is missing, with everything on it. */
export function stateForClients(deps: ApiDependencies, routerId: string): RouterView {
  return deps.fabric.routerState(routerId) ?? OFFLINE;
}
