import type { Socket } from "node:net";
import pg from "pg";

/** How long a server may take to end a connection. */
const END_MS = 2_000;

/** A client that is ended within two seconds: a server that has gone silent does not close its side. */
export class StoreClient extends pg.Client {
  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | undefined {
    // Not earlier: TLS puts another socket in its place.
    const timer = setTimeout(() => socketOf(this).destroy(), END_MS).unref();
    this.once("end", () => clearTimeout(timer));
    if (callback === undefined) return super.end();
    super.end(callback);
    return undefined;
  }
}

/** The socket of a client, which the library's types do not show. */
export function socketOf(client: pg.ClientBase): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** Does a query run on the client? The library's types do not show that, either. */
export function hasQuery(client: pg.ClientBase): boolean {
  return Boolean((client as unknown as { _activeQuery: unknown })._activeQuery);
}
