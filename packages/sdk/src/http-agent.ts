import { Agent, type AgentOptions, type ClientRequestArgs } from "node:http";
import type { Duplex } from "node:stream";
import type { EdgeConnection } from "./connection.ts";

/**
 * Lets `node:http` and everything built on it reach services: the host name of the URL is the name of the service.
 *
 * ```ts
 * http.get("http://my-service/path", { agent: context.httpAgent() }, (response) => …);
 * ```
 */
export class ServiceAgent extends Agent {
  readonly #dial: (host: string) => Promise<EdgeConnection>;

  /** @param dial connects to the service that a host name stands for */
  constructor(dial: (host: string) => Promise<EdgeConnection>, options: AgentOptions = {}) {
    super({ keepAlive: true, ...options });
    this.#dial = dial;
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    const host = options.host ?? options.hostname ?? "";
    this.#dial(host).then(
      (connection) => callback?.(null, connection),
      // On failure the agent looks at the error only.
      (error: Error) => (callback as ((error: Error) => void) | undefined)?.(error),
    );
    return undefined;
  }
}
