import { ApiError } from "@sallyport/api";
import { ipOf } from "@sallyport/wire";
import {
  type Denial,
  DenialCode,
  type FabricModel,
  isDenial,
  type TunnelApiSession,
  type TunnelClientInfo,
  type TunnelService,
} from "../../fabric/ports.ts";
import type { ModelContext } from "../context.ts";
import { type IdentityRow, isDisabled } from "../identity/identities.ts";
import type { Model } from "../model.ts";
import type { RouterRow } from "../network/routers.ts";
import { configData, configsOfServices } from "../network/service-configs.ts";
import { grantedServices, mayUseRouter, permissionsOn } from "../policy/access.ts";
import type { ApiSessionRow } from "../session/api-sessions.ts";
import { circuitService } from "./fabric-terminators.ts";
import { DialRefusal } from "./failed-dials.ts";

/** A router asks again this long before its session would end. */
const REFRESH_AHEAD_MS = 10_000;

interface TunnelerRouter {
  readonly router: RouterRow;
  readonly identity: IdentityRow;
}

/** What the fabric asks for routers that are tunnelers: they act as the identity with their own id. */
export function fabricTunnel(ctx: ModelContext, model: Model) {
  const { store } = ctx;
  const { db } = store;

  const tunneler = async (routerId: string): Promise<TunnelerRouter | Denial> => {
    const router = await model.routers.find(db, routerId);
    const identity = await model.identities.find(db, routerId);
    if (router?.is_tunneler_enabled !== true || identity?.type_id !== "Router") {
      return { denied: DenialCode.TunnelingNotEnabled };
    }
    return { router, identity };
  };

  /** Refused, too, while the identity is disabled. Not for API sessions: a router ends its process when it gets none. */
  const enabledTunneler = async (routerId: string): Promise<TunnelerRouter | Denial> => {
    const found = await tunneler(routerId);
    if (isDenial(found) || !isDisabled(found.identity, ctx.now())) return found;
    return { denied: DenialCode.AccessDenied, message: `identity ${found.identity.id} is disabled` };
  };

  const newest = (identityId: string): Promise<ApiSessionRow | undefined> =>
    db
      .selectFrom("api_session")
      .selectAll()
      .where("identity_id", "=", identityId)
      .where("kind", "=", "legacy")
      .orderBy("id", "desc")
      .executeTakeFirst();

  const open = async (identity: IdentityRow, remoteAddress: string, configTypes: readonly string[]) =>
    store.transaction((trx) =>
      model.apiSessions.insert(trx, {
        identityId: identity.id,
        authenticatorId: identity.id,
        ipAddress: ipOf(remoteAddress),
        configTypes,
        certFingerprints: [],
        improperClientCertChain: false,
      }),
    );

  const shown = (identity: IdentityRow, session: ApiSessionRow): TunnelApiSession => ({
    id: session.id,
    token: session.token,
    identityId: identity.id,
    identityName: identity.name,
    refreshIntervalSeconds: Math.max(1, Math.floor((model.apiSessions.timeoutMs - REFRESH_AHEAD_MS) / 1000)),
    defaultHostingPrecedence: identity.default_hosting_precedence,
    defaultHostingCost: identity.default_hosting_cost,
    appDataJson: JSON.stringify(identity.app_data),
    servicePrecedences: new Map(Object.entries(identity.service_hosting_precedences)),
    serviceCosts: new Map(Object.entries(identity.service_hosting_costs)),
  });

  return {
    async openTunnelApiSession(routerId, client) {
      const found = await tunneler(routerId);
      if (isDenial(found)) return found;
      const { identity } = found;
      await store.transaction((trx) => model.identities.saveInfo(trx, identity.id, infoOf(client)));
      const present = await newest(identity.id);
      if (present !== undefined && !model.apiSessions.isExpired(present)) {
        model.apiSessions.touch(present);
        return shown(identity, present);
      }
      return shown(identity, await open(identity, client.remoteAddress, client.configTypes));
    },

    async tunnelServices(routerId, lastUpdate) {
      const found = await enabledTunneler(routerId);
      if (isDenial(found)) return found;
      const session = await newest(routerId);
      const changedAt = await model.policy.lastChange(found.identity, session?.created_at ?? ctx.now());
      const stamp = changedAt.toISOString();
      if (stamp === lastUpdate) return undefined;
      const grants = await model.policy.grantsOf(found.identity);
      const rows = await db
        .selectFrom("service")
        .selectAll()
        .where(grantedServices(grants, "service"))
        .orderBy("id")
        .execute();
      const ids = rows.map((row) => row.id);
      const types = session?.config_types ?? [];
      const configs = await configsOfServices(db, ids, { identityId: found.identity.id, types });
      const byService = Map.groupBy(configs, (config) => config.service_id);
      const services = rows.map(
        (row): TunnelService => ({
          id: row.id,
          name: row.name,
          permissions: permissionsOn(grants, row),
          encryptionRequired: row.encryption_required,
          configJson: JSON.stringify(configData(byService.get(row.id) ?? [])),
          tagsJson: JSON.stringify(row.tags),
        }),
      );
      return { lastUpdate: stamp, services };
    },

    async authorizeTunnel(claim) {
      const found = await enabledTunneler(claim.routerId);
      if (isDenial(found)) return found;
      const { identity, router } = found;
      const service =
        "id" in claim.service
          ? await model.services.find(db, claim.service.id)
          : await model.services.findByIdOrName(db, claim.service.name);
      if (service === undefined) return { denied: DenialCode.InvalidService };
      const note = (code: string, message: string) =>
        model.failedDials.add(identity.id, {
          serviceId: service.id,
          type: claim.type,
          code,
          message,
          routerId: router.id,
        });
      const index = await model.policy.current();
      if (index.grantingToRouter(identity, service.id, claim.type).length === 0) {
        note(DialRefusal.AccessDenied, "no service policy of this type, without posture checks, grants the service");
        return { denied: DenialCode.AccessDenied };
      }
      if (!index.routersFor(identity, service.id).includes(router.id)) {
        note(DialRefusal.InvalidEdgeRouter, "the service edge router policies do not select the router");
        return { denied: DenialCode.InvalidEdgeRouterForSession };
      }
      return { identityId: identity.id, service: circuitService(service) };
    },

    async openTunnelSession(request) {
      const found = await enabledTunneler(request.routerId);
      if (isDenial(found)) return found;
      const { identity, router } = found;
      const service = await model.services.findByIdOrName(db, request.serviceName);
      if (service === undefined) return { denied: DenialCode.InvalidService };
      if (!(await mayUseRouter(db, identity, service, router))) {
        return { denied: DenialCode.InvalidEdgeRouterForSession };
      }
      const present = await newest(identity.id);
      const isAlive = present !== undefined && !model.apiSessions.isExpired(present);
      const apiSession = isAlive ? present : await open(identity, request.remoteAddress, present?.config_types ?? []);
      model.apiSessions.touch(apiSession);
      try {
        const session = await model.sessions.create(apiSession, identity, {
          serviceId: service.id,
          type: request.type,
          // Routers that ask so end what they host with the session only when its token is opaque.
          isOpaque: true,
        });
        return {
          kind: "session",
          identityId: identity.id,
          sessionId: session.id,
          apiSessionId: apiSession.id,
          service: circuitService(service),
          sessionToken: session.token,
          ...(apiSession.id === request.apiSessionId ? {} : { newApiSession: shown(identity, apiSession) }),
        };
      } catch (error) {
        if (error instanceof ApiError) return { denied: DenialCode.AccessDenied, message: error.message };
        throw error;
      }
    },
  } satisfies Partial<FabricModel>;
}

function infoOf({ envInfo, sdkInfo }: TunnelClientInfo) {
  return { envInfo: { ...envInfo }, sdkInfo: { ...sdkInfo } };
}
