/** The caller of a request: as a viewer of services, and its API session. */
import { unauthorized } from "@sallyport/api";
import type { ApiSessionContext } from "../http/context.ts";
import type { IdentityRow } from "../model/identity/identities.ts";
import type { ApiSessionRow } from "../model/session/api-sessions.ts";
import type { ApiDependencies } from "./dependencies.ts";
import { postureLens } from "./render/posture.ts";
import type { Viewer } from "./render/service.ts";

/** The caller as a viewer of services. Config types of the request take precedence over those of the login. */
export async function caller(
  deps: ApiDependencies,
  session: ApiSessionContext,
  configTypes?: readonly string[],
): Promise<{ identity: IdentityRow; viewer: Viewer }> {
  const { db } = deps.ctx.store;
  const identity = await deps.model.identities.get(db, session.identityId);
  const asked = splitAtCommas(configTypes);
  return {
    identity,
    viewer: {
      identityId: identity.id,
      grants: await deps.model.policy.grantsOf(identity),
      configTypes: asked.length > 0 ? asked : session.configTypes,
      postureQueries: await postureLens(deps, identity, session.apiSessionId),
    },
  };
}

/** The row of the caller's session. @throws ApiError 401 when it ended while the request was under way */
export async function ownSession(deps: ApiDependencies, session: ApiSessionContext): Promise<ApiSessionRow> {
  const row = await deps.model.apiSessions.find(deps.ctx.store.db, session.apiSessionId);
  if (row === undefined) throw unauthorized("the session ended while the request was under way");
  return row;
}

/** Config types, as repeated parameters or as one with commas. */
export function splitAtCommas(values: readonly string[] | undefined): string[] {
  return (values ?? []).flatMap((value) => value.split(",")).filter((value) => value !== "");
}

/**
 * Announces a fully authenticated session to the connected routers, before the login is answered, so that no dial comes too early. Access tokens prove
 * themselves to routers.
 */
export async function announce({ fabric }: Pick<ApiDependencies, "fabric">, row: ApiSessionRow): Promise<void> {
  if (row.kind === "oidc") return;
  const { id, token, identity_id: identityId, cert_fingerprints: certFingerprints } = row;
  await fabric.announceApiSession({ id, token, identityId, certFingerprints });
}
