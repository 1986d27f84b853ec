import type { ApiSessionContext } from "../../http/context.ts";
import type { IdentityRow } from "../../model/identity/identities.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { postureLens } from "../render/posture.ts";
import type { Beholder } from "../render/service.ts";

/** The caller as one who is shown services; config types given with the request win over those of the login. */
export async function caller(
  deps: ApiDependencies,
  session: ApiSessionContext,
  configTypes?: readonly string[],
): Promise<{ identity: IdentityRow; beholder: Beholder }> {
  const { db } = deps.ctx.store;
  const identity = await deps.model.identities.get(db, session.identityId);
  const asked = splitAtCommas(configTypes);
  return {
    identity,
    beholder: {
      identityId: identity.id,
      grants: await deps.model.policy.grantsOf(identity),
      configTypes: asked.length > 0 ? asked : session.configTypes,
      postureQueries: await postureLens(deps, identity, session.apiSessionId),
    },
  };
}

/** Config types as repeated parameters, or as one with commas. */
export function splitAtCommas(values: readonly string[] | undefined): string[] {
  return (values ?? []).flatMap((value) => value.split(",")).filter((value) => value !== "");
}
