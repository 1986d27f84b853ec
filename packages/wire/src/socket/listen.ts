import { once } from "node:events";
import type { ListenOptions, Server } from "node:net";

/**
 * Listens, and from then on gives `onError` each connection that could not be accepted: without a listener for `error` it would end the process.
 * @throws the system's error, for example `EADDRINUSE`
 */
export async function listen(server: Server, at: ListenOptions, onError: (error: Error) => void): Promise<void> {
  server.listen(at);
  await once(server, "listening");
  server.on("error", onError);
}
