import type { ApiSessionRow } from "../model/session/api-sessions.ts";
import type { ApiDependencies } from "./dependencies.ts";

/** Tells the connected routers of a session of which no factor is open. Its owner hears of it afterwards, so that no dial comes too early. */
export function announce({ fabric }: Pick<ApiDependencies, "fabric">, row: ApiSessionRow): Promise<void> {
  const { id, token, identity_id: identityId, cert_fingerprints: certFingerprints } = row;
  return fabric.announceApiSession({ id, token, identityId, certFingerprints });
}
