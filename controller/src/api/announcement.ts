import type { ApiSessionRow } from "../model/session/api-sessions.ts";
import type { ApiDependencies } from "./dependencies.ts";

/** Announces a fully authenticated session to the connected routers. The login is answered afterwards, so that no dial comes too early. */
export function announce({ fabric }: Pick<ApiDependencies, "fabric">, row: ApiSessionRow): Promise<void> {
  const { id, token, identity_id: identityId, cert_fingerprints: certFingerprints } = row;
  return fabric.announceApiSession({ id, token, identityId, certFingerprints });
}
