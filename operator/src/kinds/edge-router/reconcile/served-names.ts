import { connect } from "node:tls";
import { namesIn } from "../plan/observed.ts";

/** Asks a pod which hosts its certificate is for; undefined when it does not answer. */
export type NameProbe = (host: string, port: number, signal: AbortSignal) => Promise<readonly string[] | undefined>;

const PATIENCE_MS = 3_000;

/**
 * By a handshake and nothing else. Nobody is trusted by it: a wrong answer would let a router advertise a name too early, which those who dial it
 * refuse, as they would a wrong certificate.
 */
export const servedNames: NameProbe = (host, port, signal) =>
  new Promise((resolve) => {
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: PATIENCE_MS });
    const end = (names?: readonly string[]): void => {
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      resolve(names);
    };
    const onAbort = (): void => end();
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("secureConnect", () => end(namesIn(socket.getPeerX509Certificate()?.subjectAltName)));
    socket.once("timeout", () => end());
    // A pod that can't be reached tells nothing: the address stays what it is.
    socket.once("error", () => end());
  });
