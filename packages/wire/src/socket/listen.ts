import { once } from "node:events";
import type { ListenOptions, Server } from "node:net";
import { errorText } from "@sallyport/async";

/**
 * Listens, and from then on gives `onError` each connection that could not be accepted: without a listener for `error` it would end the process.
 * @throws the system's error, for example `EADDRINUSE`
 */
export async function listen(server: Server, at: ListenOptions, onError: (error: Error) => void): Promise<void> {
  server.listen(at);
  await once(server, "listening");
  server.on("error", onError);
}

const ADVICE: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there: stop it, or choose another port",
  EACCES: "the system does not allow it: choose a port from 1024 on, or give the program CAP_NET_BIND_SERVICE",
  EADDRNOTAVAIL: "this machine has no such address: choose one of its own, or all addresses",
  ENOTSUP: "this system does not spread connections over several programs: use one worker",
  ENOTFOUND: "the name is not known: choose an address of this machine",
};

/** Why a program cannot listen on an address, and what its user can do; of an unknown error its message. */
export function listenAdvice(error: unknown): string {
  const { code = "" } = error as NodeJS.ErrnoException;
  return ADVICE[code] ?? errorText(error);
}
