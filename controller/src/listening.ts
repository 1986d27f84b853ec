import { formatHostPort, type HostPort } from "@sallyport/wire";

/** An address of the configuration that cannot be listened on. The message names the setting. */
export class ListenError extends Error {
  override name = "ListenError";
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there: stop it, or choose another port",
  EACCES: "the system does not allow it: choose a port from 1024 on, or give the program the right",
  EADDRNOTAVAIL: "this machine has no such address: choose one of its own, or leave the host empty for all",
  ENOTFOUND: "the name is not known: choose an address of this machine",
};

/** Begins to listen on an address of the configuration. @throws ListenError */
export async function listening<T>(setting: string, at: HostPort, file: string, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen();
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    const reason = REASONS[code] ?? message;
    throw new ListenError(`cannot listen on ${formatHostPort(at)} (${setting} in ${file}): ${reason}`, {
      cause: error,
    });
  }
}
