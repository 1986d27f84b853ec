import { request } from "node:https";
import { isIP } from "node:net";
import type { TLSSocket } from "node:tls";
import { fingerprint, parseAddress } from "@sallyport/wire";
import type { KnownReplica } from "../replicas/replica-port.ts";
import { MEMBER_PATH } from "./readiness.ts";

const LIMIT_MS = 1_000;

interface Asked {
  /** The other controllers, as they were last known. */
  readonly others: readonly KnownReplica[];
  /** Of the certificate that every controller shows at addresses that they share. */
  readonly networkFingerprint: string;
  readonly limitMs?: number;
}

/**
 * Asks the other controllers whether one of them is a member. It works without the database: who has a lease is not known then, so {@link ReplicaCalls} has no
 * channel. What answers with any other certificate at the address of a controller does not count.
 */
export async function isAnyMember({ others, networkFingerprint, limitMs = LIMIT_MS }: Asked): Promise<boolean> {
  const answers = others.map(async ({ apiAddress, fingerprint: own }) => {
    const answer = await memberPage(apiAddress, limitMs);
    if (answer.status !== 200 || ![own, networkFingerprint].includes(answer.shownBy)) throw new Error("no member");
    return true;
  });
  return await Promise.any(answers).catch(() => false);
}

function memberPage(address: string, limitMs: number): Promise<{ status: number | undefined; shownBy: string }> {
  const { host, port } = parseAddress(`tls:${address}`);
  return new Promise((resolve, reject) => {
    const asked = request({
      ...{ host, port, path: MEMBER_PATH, agent: false, rejectUnauthorized: false, ALPNProtocols: ["http/1.1"] },
      ...(isIP(host) === 0 && { servername: host }),
      signal: AbortSignal.timeout(limitMs),
    });
    asked.once("response", (response) => {
      const certificate = (response.socket as TLSSocket).getPeerX509Certificate();
      resolve({ status: response.statusCode, shownBy: certificate === undefined ? "" : fingerprint(certificate) });
      response.destroy();
    });
    asked.once("error", reject);
    asked.end();
  });
}
