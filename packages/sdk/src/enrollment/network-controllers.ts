import { announcedOidc, listAll } from "@sallyport/api/client";
import type { Identity } from "@sallyport/wire";
import { originsOf } from "../controller-set.ts";
import { clientOf } from "../login/login.ts";

/**
 * The controllers of a network by their addresses, that of the enrollment first; empty when there is one only, or when it does not say. Also empty
 * where no login by OIDC is announced: with a file that names several, programs of OpenZiti log in by nothing else.
 */
export async function networkControllers(issuer: URL, identity: Identity, signal?: AbortSignal): Promise<string[]> {
  const options = signal === undefined ? {} : { signal };
  const api = clientOf(issuer.origin, identity.caPem, identity);
  try {
    const { data: version } = await api.listVersion({}, options);
    const isOneOfSeveral = version.capabilities?.includes("HA_CONTROLLER") === true;
    if (!isOneOfSeveral || announcedOidc(version) === undefined) return [];
    const { data } = await api.authenticate({ query: { method: "cert" }, body: {} }, options);
    api.setToken(data.token);
    const listed = await listAll((query) => api.listControllers({ query }, options));
    await api.deleteCurrentAPISession({}, options);
    const all = [...new Set([issuer.origin, ...originsOf(listed)])];
    return all.length > 1 ? all : [];
  } catch {
    // The identity is enrolled, and its program learns the others after its login.
    signal?.throwIfAborted();
    return [];
  } finally {
    api.close();
  }
}
