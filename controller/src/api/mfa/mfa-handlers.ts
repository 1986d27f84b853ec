import { apiTime, type mfaAdministration, type mfaOperations, notFound } from "@sallyport/api";
import QRCode from "qrcode";
import type { ApiHandlers, ApiSessionContext, RequestInfo } from "../../http/context.ts";
import type { MfaStatus } from "../../model/identity/mfa.ts";
import { announce } from "../caller.ts";
import type { ApiDependencies } from "../dependencies.ts";
import type { Links } from "../render/base.ts";

const SELF = "./current-identity/mfa";
/** 256 pixels: the fraction is cut off, and keeps the division into modules from ending at 255.999…. */
const QR_WIDTH = 256.5;

/** One-time codes of the caller. */
export function mfaHandlers(deps: ApiDependencies): ApiHandlers<typeof mfaOperations> {
  const { model } = deps;
  const { db } = deps.ctx.store;

  const status = async ({ identityId }: ApiSessionContext): Promise<MfaStatus> => {
    const found = await model.mfa.status(await model.identities.get(db, identityId));
    if (found === undefined) throw notFound("mfa", identityId, "identity");
    return found;
  };

  /** The session is fully authenticated now. */
  const complete = async ({ apiSessionId, identityId }: ApiSessionContext) => {
    const row = await model.apiSessions.completeMfa(apiSessionId);
    await model.posture.passedMfa(identityId, apiSessionId, row.mfa_passed_at ?? deps.ctx.now());
    await announce(deps, row);
  };

  return {
    authenticateMfa: async ({ body, session }) => {
      await model.mfa.pass(session.identityId, body.code, { apiSessionId: session.apiSessionId, allowRecovery: true });
      await complete(session);
    },
    detailMfa: async ({ session }) => {
      const found = await status(session);
      return {
        data: {
          ...base(found),
          isVerified: found.isVerified,
          provisioningUrl: found.pending?.provisioningUrl,
          recoveryCodes: found.pending === undefined ? null : [...found.pending.recoveryCodes],
        },
      };
    },
    enrollMfa: async ({ session }) => ({
      data: { _links: { self: { href: SELF } }, id: await model.mfa.start(session.identityId) },
    }),
    deleteMfa: async ({ session, request }) => {
      await model.mfa.disable(session.identityId, session.apiSessionId, codeHeader(request) ?? "");
      await model.posture.forgetMfa(session.identityId);
    },
    detailMfaQrCode: async ({ session }) => {
      const { pending } = await status(session);
      if (pending === undefined) throw notFound("mfa", session.identityId, "unverified identity");
      const options = { type: "png", width: QR_WIDTH, errorCorrectionLevel: "M" } as const;
      return { body: await QRCode.toBuffer(pending.provisioningUrl, options) };
    },
    detailMfaRecoveryCodes: async ({ session, body, request }) => {
      const code = codeHeader(request) ?? body.code ?? "";
      const found = await model.mfa.recoveryCodes(session.identityId, session.apiSessionId, code);
      return { data: { ...base(found), recoveryCodes: found.codes } };
    },
    createMfaRecoveryCodes: ({ session, body }) =>
      model.mfa.renewRecoveryCodes(session.identityId, session.apiSessionId, body.code),
    verifyMfa: async ({ session, body }) => {
      await model.mfa.verify(session.identityId, session.apiSessionId, body.code);
      await complete(session);
    },
  };
}

/** One-time codes of others. */
export function mfaAdministrationHandlers({ model }: ApiDependencies): ApiHandlers<typeof mfaAdministration> {
  return {
    removeIdentityMfa: async ({ params }) => {
      await model.mfa.remove(params.id);
      await model.posture.forgetMfa(params.id);
    },
  };
}

function codeHeader({ headers }: RequestInfo): string | undefined {
  return headers["mfa-validation-code"];
}

function base(found: MfaStatus) {
  return {
    _links: linksOf(found.isVerified),
    createdAt: apiTime(found.createdAt),
    id: found.id,
    tags: {},
    updatedAt: apiTime(found.updatedAt),
  };
}

function linksOf(isVerified: boolean): Links {
  const further: Links = isVerified
    ? { "recovery-codes": { href: `${SELF}/recovery-codes` } }
    : { verify: { href: `${SELF}/verify` }, qr: { href: `${SELF}/qr-code` } };
  return { self: { href: SELF }, "current-identity": { href: "./current-identity" }, ...further };
}
