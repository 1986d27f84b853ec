import {
  apiTime,
  type clientOperations,
  type enrollmentOperations,
  fieldError,
  notFound,
  type sharedOperations,
  unauthorized,
} from "@sallyport/api";
import { withCsrErrors } from "../../auth/client-certificate.ts";
import type { ApiHandlers, ApiSessionContext } from "../../http/context.ts";
import { permissionsOn } from "../../model/policy/access.ts";
import { caller, ownSession } from "../caller.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { ownWhyHandlers } from "../identity/why-handlers.ts";
import {
  CLIENT_EXT_JWT_SIGNER_FIELDS,
  CLIENT_SERVICE_FIELDS,
  CLIENT_SESSION_CERTIFICATE_FIELDS,
  CLIENT_SESSION_FIELDS,
  CLIENT_TERMINATOR_FIELDS,
  clientRouterFields,
} from "../lists/fields.ts";
import { listed, only, roleCondition } from "../lists/listing.ts";
import { postureResponseHandlers } from "../posture/posture-handlers.ts";
import { baseOf, links, ref } from "../render/base.ts";
import { renderClientSigner } from "../render/credentials.ts";
import { propertiesOf, stateForClients } from "../render/router.ts";
import { listGrantedServices, renderServices } from "../render/service.ts";
import { renderSessionCertificate, renderSessions, renderUsableSession } from "../render/session.ts";

/** Routers that a client can use now come first. */
const CONNECTED_FIRST = [{ name: "connected", descending: true }];

type OwnOperations = Omit<typeof clientOperations, keyof typeof sharedOperations | keyof typeof enrollmentOperations>;

/** Operations that applications call, besides those of both APIs. */
export function clientHandlers(deps: ApiDependencies): ApiHandlers<OwnOperations> {
  const { model } = deps;
  const { db } = deps.ctx.store;
  const certificatesOf = ({ apiSessionId }: ApiSessionContext) =>
    db
      .selectFrom("api_session_certificate")
      .selectAll()
      .where("api_session_certificate.api_session_id", "=", apiSessionId);
  const sessionsOf = ({ apiSessionId }: ApiSessionContext) =>
    db.selectFrom("session").selectAll().where("session.api_session_id", "=", apiSessionId);

  return {
    listProtocols: async () => ({ data: { https: { address: deps.info.apiAddress } } }),

    listCurrentApiSessionCertificates: ({ list, session }) =>
      listed(certificatesOf(session), "api_session_certificate", CLIENT_SESSION_CERTIFICATE_FIELDS, list, (rows) =>
        rows.map(renderSessionCertificate),
      ),
    createCurrentApiSessionCertificate: async ({ body, session }) => {
      const row = await ownSession(deps, session);
      const certificate = await withCsrErrors(() => model.apiSessions.addCertificate(row, body.csr));
      return {
        data: {
          _links: { self: { href: `./current-api-session/certificates/${certificate.id}` } },
          id: certificate.id,
          certificate: certificate.cert_pem,
          cas: deps.ctx.pki.clientBundlePem,
        },
      };
    },
    detailCurrentApiSessionCertificate: async ({ params, session }) => {
      const row = await certificatesOf(session).where("id", "=", params.id).executeTakeFirst();
      if (row === undefined) throw notFound("apiSessionCertificate", params.id);
      return { data: renderSessionCertificate(row) };
    },
    deleteCurrentApiSessionCertificate: ({ params, session }) =>
      model.apiSessions.removeCertificate(session.apiSessionId, params.id),
    listServiceUpdates: async ({ session }) => {
      const identity = await model.identities.get(db, session.identityId);
      const { created_at: since } = await ownSession(deps, session);
      return { data: { lastChangeAt: apiTime(await model.policy.lastChange(identity, since)) } };
    },
    getCurrentIdentityEdgeRouters: async ({ list, session }) => {
      const identity = await model.identities.get(db, session.identityId);
      const verified = db
        .selectFrom("router")
        .selectAll()
        .where("router.kind", "=", "edge")
        .where("router.is_verified", "=", true);
      const ids = identity.is_admin ? undefined : (await model.policy.current()).routersOfIdentity(identity);
      const query = ids === undefined ? verified : verified.where("router.id", "in", ["", ...ids]);
      return listed(query, "router", clientRouterFields(deps.fabric.onlineRouterIds()), list, (rows) =>
        rows.map((row) => ({
          ...baseOf("edge-routers", row),
          ...propertiesOf(row, stateForClients(deps, row.id)),
        })),
      );
    },

    listExternalJwtSigners: ({ list }) =>
      listed(
        db.selectFrom("ext_jwt_signer").selectAll().where("ext_jwt_signer.enabled", "=", true),
        "ext_jwt_signer",
        CLIENT_EXT_JWT_SIGNER_FIELDS,
        list,
        (rows) => rows.map(renderClientSigner),
      ),
    ...postureResponseHandlers(deps),

    listServices: async ({ list, query, session }) => {
      const { identity, viewer } = await caller(deps, session, query.configTypes);
      const condition = roleCondition("service", query);
      if (!identity.is_admin)
        return listGrantedServices(deps, identity, viewer, list, { condition, fields: CLIENT_SERVICE_FIELDS });
      const all = db.selectFrom("service").selectAll();
      const services = condition === undefined ? all : all.where(condition);
      return listed(services, "service", CLIENT_SERVICE_FIELDS, list, (rows) => renderServices(deps, rows, viewer));
    },
    detailService: async ({ params, session }) => {
      const { service, viewer } = await visibleService(deps, session, params.id);
      return { data: only(await renderServices(deps, [service], viewer)) };
    },
    listServiceEdgeRouters: async ({ params, list, session, request }) => {
      await checkSessionToken(deps, session, request.headers["session-token"]);
      const { identity, service } = await visibleService(deps, session, params.id);
      const ids = (await model.policy.current()).routersFor(identity, service.id);
      const query = db
        .selectFrom("router")
        .selectAll()
        .where("router.id", "in", ["", ...ids]);
      const sort = list.sort.length > 0 ? list.sort : CONNECTED_FIRST;
      const fields = clientRouterFields(deps.fabric.onlineRouterIds());
      const routers = await listed(query, "router", fields, { ...list, sort }, (rows) =>
        rows.map((row) => propertiesOf(row, stateForClients(deps, row.id))),
      );
      const { limit, offset } = list;
      const { data: edgeRouters, totalCount = edgeRouters.length } = routers;
      return { data: { edgeRouters: [...edgeRouters] }, pagination: { limit, offset, totalCount } };
    },
    ...ownWhyHandlers(deps),
    updateService: ({ params, body }) => model.services.update(params.id, body),
    patchService: ({ params, body }) => model.services.update(params.id, body),
    deleteService: ({ params }) => model.services.delete(params.id),
    listServiceTerminators: async ({ params, list, session }) => {
      const { service } = await visibleService(deps, session, params.id);
      const query = db.selectFrom("terminator").selectAll().where("terminator.service_id", "=", service.id);
      return listed(query, "terminator", CLIENT_TERMINATOR_FIELDS, list, (rows) =>
        rows.map((row) => ({
          ...baseOf("terminators", row),
          _links: links("terminators", row.id),
          identity: row.instance_id,
          routerId: row.router_id,
          service: ref("services", service.id, service.name),
          serviceId: service.id,
        })),
      );
    },

    listSessions: ({ list, session }) =>
      listed(sessionsOf(session), "session", CLIENT_SESSION_FIELDS, list, async (rows) =>
        (await renderSessions(deps, rows)).map(forClient),
      ),
    createSession: async ({ body, session }) => {
      if (body.serviceId === undefined || body.serviceId === "") {
        throw fieldError("serviceId", "serviceId is required", body.serviceId);
      }
      const identity = await model.identities.get(db, session.identityId);
      const row = await model.sessions.create({ id: session.apiSessionId, kind: session.kind }, identity, {
        serviceId: body.serviceId,
        type: body.type === "Bind" ? "Bind" : "Dial",
        tags: body.tags,
      });
      return { data: forClient(await renderUsableSession(deps, row)) };
    },
    detailSession: async ({ params, session }) => {
      const row = await sessionsOf(session).where("id", "=", params.id).executeTakeFirst();
      if (row === undefined) throw notFound("session", params.id);
      return { data: forClient(await renderUsableSession(deps, await model.sessions.renewed(row))) };
    },
    deleteSession: ({ params, session }) => model.sessions.delete(params.id, session.apiSessionId),
  };
}

/** A client may show the token of its session for a service. @throws ApiError 401 when the token belongs to another API session */
async function checkSessionToken(
  deps: ApiDependencies,
  { apiSessionId }: ApiSessionContext,
  token: string | undefined,
): Promise<void> {
  if (token === undefined || token === "") return;
  if (await deps.model.sessions.hasToken(apiSessionId, token)) return;
  throw unauthorized("the session-token is none of this API session");
}

/** @throws ApiError 404 when the caller may not see the service */
async function visibleService(deps: ApiDependencies, session: ApiSessionContext, id: string) {
  const { identity, viewer } = await caller(deps, session);
  const service = await deps.model.services.get(deps.ctx.store.db, id);
  if (!identity.is_admin && permissionsOn(viewer.grants, service).length === 0) throw notFound("service", id);
  return { identity, service, viewer };
}

function forClient<T extends { servicePolicies: unknown }>({ servicePolicies: _, ...rest }: T) {
  return rest;
}
