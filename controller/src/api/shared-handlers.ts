import { randomUUID } from "node:crypto";
import {
  apiError,
  apiTime,
  BASE_PATHS,
  capability,
  fieldError,
  type MemoryFields,
  routerCapability,
  selectPage,
  type sharedOperations,
} from "@sallyport/api";
import type { z } from "zod";
import { withCsrErrors } from "../auth/client-certificate.ts";
import type { ApiHandlers } from "../http/context.ts";
import { announce, ownSession } from "./caller.ts";
import type { ApiDependencies } from "./dependencies.ts";
import { OWN_AUTHENTICATOR_FIELDS } from "./lists/fields.ts";
import { detail, listed } from "./lists/listing.ts";
import { mfaHandlers } from "./mfa/mfa-handlers.ts";
import { renderControllers } from "./render/controllers.ts";
import { renderOwnAuthenticators } from "./render/credentials.ts";
import { showIdentity } from "./render/identity.ts";
import { renderCurrentApiSession, renderNewApiSession } from "./render/session.ts";
import { specHandlers } from "./system/system-handlers.ts";

const CONTROLLER_FIELDS: MemoryFields<ReturnType<typeof renderControllers>[number]> = {
  id: { type: "string", read: ({ id }) => id },
  createdAt: { type: "datetime", read: ({ createdAt }) => Date.parse(createdAt) },
  updatedAt: { type: "datetime", read: ({ updatedAt }) => Date.parse(updatedAt) },
  tags: { type: "tags", read: ({ tags = {} }) => tags },
  name: { type: "string", read: ({ name }) => name },
  ctrlAddress: { type: "string", read: ({ ctrlAddress = null }) => ctrlAddress },
  certPem: { type: "string", read: ({ certPem }) => certPem },
  fingerprint: { type: "string", read: ({ fingerprint }) => fingerprint },
  isOnline: { type: "boolean", read: ({ isOnline }) => isOnline },
  lastJoinedAt: {
    type: "datetime",
    read: ({ lastJoinedAt }) => (lastJoinedAt === null ? null : Date.parse(lastJoinedAt)),
  },
};

const NETWORK_JWT_FIELDS: MemoryFields<{ readonly name: string; readonly token: string }> = {
  name: { type: "string", read: ({ name }) => name },
};

/** Operations that both APIs have. */
export function sharedHandlers(deps: ApiDependencies): ApiHandlers<typeof sharedOperations> {
  const { model, authentication, info } = deps;
  const { pki, store } = deps.ctx;
  const { db } = store;
  const version = async () => ({ data: versionOf(deps) });
  return {
    ...mfaHandlers(deps),
    ...specHandlers(apiTime(deps.ctx.now()), { oidc: deps.ctx.settings.oidc.enabled }),
    listRoot: version,
    listVersion: version,
    listEnumeratedCapabilities: async () => ({ data: capability.options }),
    listEnumeratedRouterCapabilities: async () => ({ data: routerCapability.options }),
    listWellKnownCas: async () => ({ body: pki.caBundlePkcs7Base64() }),
    listNetworkJWTs: async ({ list }) => {
      const iss = `https://${info.apiAddress}/`;
      const token = pki.signJwt({ iss, sub: iss, aud: ["openziti-enroller"], jti: randomUUID(), em: "network" });
      return {
        ...selectPage([{ name: "default", token }], NETWORK_JWT_FIELDS, list),
        filterableFields: Object.keys(NETWORK_JWT_FIELDS),
      };
    },
    // Clients take an empty list as "one controller".
    listControllers: async ({ list }) => ({
      ...selectPage(isReplicated(deps) ? renderControllers(deps) : [], CONTROLLER_FIELDS, list),
      filterableFields: Object.keys(CONTROLLER_FIELDS),
    }),

    authenticate: async ({ query, body, request }) => {
      const {
        session: row,
        open,
        proof,
      } = await authentication.login({
        method: query.method,
        username: body.username,
        password: body.password,
        peerCertificates: request.peerCertificates,
        proxied: request.proxied,
        bearerTokens: request.bearerTokens,
        remoteIp: request.remoteIp,
        configTypes: body.configTypes,
        envInfo: body.envInfo,
        sdkInfo: body.sdkInfo,
      });
      // Not before the one-time code, if there is one.
      if (!open.totp) await announce(deps, row);
      return {
        data: await renderNewApiSession(deps, row, open.authQueries),
        headers: proof.isExtendRequested ? { "ziti-authenticator-extend-requested": "true" } : {},
      };
    },
    getCurrentAPISession: async ({ session: context, request }) => ({
      data: await renderCurrentApiSession(deps, await ownSession(deps, context), context, request),
    }),
    deleteCurrentAPISession: ({ session: context }) => model.apiSessions.delete(context.apiSessionId),

    createTotpToken: async ({ body, session: { kind, apiSessionId, identityId } }) => {
      const subject = kind === "oidc" ? await model.oidcSessions.subjectOf(apiSessionId) : undefined;
      if (subject === undefined) throw apiError("INVALID_BACKING_TOKEN_TYPE");
      await model.mfa.pass(identityId, body.code, { apiSessionId, allowRecovery: false });
      const at = deps.ctx.now();
      await model.posture.passedMfa(identityId, apiSessionId, at);
      const { token } = deps.ctx.tokens.issuer.totp(subject, at);
      return { data: { token, issuedAt: apiTime(Math.floor(at.getTime() / 1_000) * 1_000) } };
    },

    getCurrentIdentity: async ({ session: context }) => ({ data: await showIdentity(deps, context.identityId) }),
    listCurrentIdentityAuthenticators: ({ list, session: context }) =>
      listed(
        db.selectFrom("authenticator").selectAll().where("authenticator.identity_id", "=", context.identityId),
        "authenticator",
        OWN_AUTHENTICATOR_FIELDS,
        list,
        (rows) => renderOwnAuthenticators(deps, rows),
      ),
    detailCurrentIdentityAuthenticator: async ({ params, session: context }) =>
      detail(deps, renderOwnAuthenticators, await model.authenticators.owned(db, params.id, context.identityId)),
    updateCurrentIdentityAuthenticator: ({ params, body, session: context, request }) =>
      authentication.changeOwn(params.id, context, body, request),
    patchCurrentIdentityAuthenticator: ({ params, body, session: context, request }) =>
      authentication.changeOwn(params.id, context, body, request),
    extendCurrentIdentityAuthenticator: async ({ params, body, session: context, request }) => {
      if (body.clientCertCsr === "") throw apiError("MISSING_OR_INVALID_CSR");
      const { certPem } = await withCsrErrors(() =>
        model.certificateExtensions.extend(params.id, context.identityId, request.peerCertificates, {
          csr: body.clientCertCsr,
          overlaps: body.overlap === true,
        }),
      );
      return { data: { clientCert: certPem, ca: pki.clientBundlePem } };
    },
    extendVerifyCurrentIdentityAuthenticator: ({ params, body, session: context }) => {
      if (body.clientCert === "") throw fieldError("clientCert", "clientCert is required");
      return model.certificateExtensions.confirm(params.id, context.identityId, body.clientCert);
    },
  };
}

/** Clients that know it ask for the list of controllers. */
const HA_CONTROLLER: z.infer<typeof capability> = "HA_CONTROLLER";

/** Clients that know them log in by OIDC, and send a certificate request with the login. */
const OIDC_CAPABILITIES: readonly z.infer<typeof capability>[] = ["OIDC_AUTH", "OIDC_AUTH_WITH_CSR"];

const isReplicated = ({ ctx }: ApiDependencies) => ctx.replicas.replicas().length > 1;

/** The version document: the APIs that the controller serves, and what it can do besides. It follows the settings and the set of controllers. */
function versionOf(deps: ApiDependencies) {
  const { ctx, info } = deps;
  const { enabled } = ctx.settings.oidc;
  const api = (path: string) => ({ v1: { apiBaseUrls: [`https://${info.apiAddress}${path}`], path } });
  return {
    apiVersions: {
      edge: api(BASE_PATHS.client),
      "edge-client": api(BASE_PATHS.client),
      "edge-management": api(BASE_PATHS.management),
      fabric: api(BASE_PATHS.fabric),
      ...(enabled && { "edge-oidc": api("/oidc") }),
    },
    buildDate: info.version.buildDate,
    capabilities: [...(enabled ? OIDC_CAPABILITIES : []), ...(isReplicated(deps) ? [HA_CONTROLLER] : [])],
    revision: info.version.revision,
    runtimeVersion: info.runtimeVersion,
    version: info.version.version,
  };
}
