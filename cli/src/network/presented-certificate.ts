/** The certificate that a controller presents, whether it is trusted or not. */
import type { X509Certificate } from "node:crypto";
import { connect, type TLSSocket } from "node:tls";
import { CommandError, ExitStatus } from "../errors.ts";

const TIMEOUT_MS = 15_000;

export interface Presented {
  readonly leaf: X509Certificate;
  /** The authorities of this system vouch for it. */
  readonly isTrusted: boolean;
}

/** @throws CommandError `Unreachable` */
export async function presentedCertificate(url: URL, signal: AbortSignal): Promise<Presented> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const ended = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket: TLSSocket = connect(
    { host, port: Number(url.port || 443), servername: /^[\d.]+$|:/.test(host) ? "" : host, rejectUnauthorized: false },
    resolve,
  );
  socket.once("error", reject);
  const stop = (): void => reject(new Error("it does not answer"));
  ended.addEventListener("abort", stop, { once: true });
  try {
    await promise;
    const leaf = socket.getPeerX509Certificate();
    if (leaf === undefined) throw new Error("it presents no certificate");
    return { leaf, isTrusted: socket.authorized };
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = error as NodeJS.ErrnoException;
    const reason =
      code === "ECONNREFUSED" ? "no program listens there; is the controller running, and is the port right?" : message;
    throw new CommandError(`cannot reach ${url.origin}: ${reason}`, ExitStatus.Unreachable, { cause: error });
  } finally {
    ended.removeEventListener("abort", stop);
    socket.destroy();
  }
}
