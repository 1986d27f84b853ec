import { request } from "node:https";
import { isIP } from "node:net";
import type { TLSSocket } from "node:tls";
import { fingerprint, parseAddress } from "@sallyport/wire";
import type { KnownReplica } from "../replicas/replica-port.ts";
import { MEMBER_PATH } from "./readiness.ts";

const LIMIT_MS = 1_000;

/**
 * Asks the other controllers, as they were last known, whether one of them is a member. It works without the database: who has a lease is not known then, so
 * {@link ReplicaCalls} has no channel.
 */
export async function isAnyMember(others: readonly KnownReplica[], limitMs = LIMIT_MS): Promise<boolean> {
  const answers = others.map(async (other) => {
    if (!(await isMember(other, limitMs))) throw new Error("no member");
    return true;
  });
  return await Promise.any(answers).catch(() => false);
}

/** Only the process itself counts: what answers under another certificate at its address does not. */
function isMember({ apiAddress, fingerprint: expected }: KnownReplica, limitMs: number): Promise<boolean> {
  const { host, port } = parseAddress(`tls:${apiAddress}`);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const asked = request({
    ...{ host, port, path: MEMBER_PATH, agent: false, rejectUnauthorized: false, ALPNProtocols: ["http/1.1"] },
    ...(isIP(host) === 0 && { servername: host }),
    signal: AbortSignal.timeout(limitMs),
  });
  asked.once("response", (response) => {
    const certificate = (response.socket as TLSSocket).getPeerX509Certificate();
    resolve(response.statusCode === 200 && certificate !== undefined && fingerprint(certificate) === expected);
    response.destroy();
  });
  asked.once("error", () => resolve(false));
  asked.end();
  return promise;
}
