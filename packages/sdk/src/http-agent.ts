import { Agent, type AgentOptions, type ClientRequestArgs } from "node:http";
import { Duplex } from "node:stream";
import type { EdgeConnection } from "./circuit/connection.ts";
import { ConnectionClosedError } from "./errors.ts";

/** What `http.Agent` counts its connections with; it has no word for one that is still being made. */
interface Places {
  readonly sockets: Record<string, Duplex[] | undefined>;
  totalSocketCount: number;
  /** Takes a connection out and makes the next that is waited for. */
  removeSocket(socket: Duplex, options: ClientRequestArgs): void;
}

/**
 * Lets `node:http` and everything built on it reach services: the host name of the URL is the name of the service.
 *
 * ```ts
 * http.get("http://my-service/path", { agent: context.httpAgent() }, (response) => …);
 * ```
 */
export class ServiceAgent extends Agent {
  readonly #dial: (host: string, signal: AbortSignal) => Promise<EdgeConnection>;

  /** @param dial connects to the service that a host name stands for; the signal ends it when the agent is destroyed */
  constructor(dial: (host: string, signal: AbortSignal) => Promise<EdgeConnection>, options: AgentOptions = {}) {
    super({ keepAlive: true, ...options });
    this.#dial = dial;
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    const host = options.host ?? options.hostname ?? "";
    const place = this.#takePlace(options);
    const abort = new AbortController();
    // Only destroying the agent closes it.
    place.once("close", () => abort.abort(new ConnectionClosedError(`the agent was destroyed while dialling ${host}`)));
    this.#dial(host, abort.signal).then(
      (connection) => {
        this.#leavePlace(place, options);
        callback?.(null, connection);
      },
      (error: Error) => {
        // On failure the agent looks at the error only.
        (callback as ((error: Error) => void) | undefined)?.(error);
        this.#places.removeSocket(place, options);
      },
    );
    return undefined;
  }

  get #places(): Places {
    return this as unknown as Places;
  }

  /** A dial takes time: until it is done something stands in for the connection, or `maxSockets` would not hold. */
  #takePlace(options: ClientRequestArgs): Duplex {
    const name = this.getName(options);
    const place = new Duplex({ read() {} });
    const taken = this.#places.sockets[name] ?? [];
    this.#places.sockets[name] = taken;
    taken.push(place);
    this.#places.totalSocketCount++;
    return place;
  }

  #leavePlace(place: Duplex, options: ClientRequestArgs): void {
    const taken = this.#places.sockets[this.getName(options)];
    const at = taken?.indexOf(place) ?? -1;
    if (at < 0) return;
    taken?.splice(at, 1);
    this.#places.totalSocketCount--;
  }
}
