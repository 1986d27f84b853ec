import { createServer, type Server, type ServerResponse } from "node:http";
import { errorText } from "@sallyport/async";
import { hostPort } from "../config/template.ts";
import { SetupError } from "./identity-files.ts";

export interface ProbeServerOptions {
  readonly host: string;
  readonly port: number;
  /** What has not come about since the start, each in words. */
  readonly pending: () => readonly string[];
}

/**
 * Answers probes over plain HTTP: `/health-checks/live` with 200 as long as the process works, `/health-checks/ready` with 200
 * or 503 and a line for each thing that is missing (docs/tunnel.md, "Probes").
 */
export class ProbeServer {
  readonly #http: Server;

  private constructor(o: ProbeServerOptions) {
    this.#http = createServer((request, response) => {
      const page = new URL(request.url ?? "/", "http://tunnel").pathname;
      if (request.method !== "GET" && request.method !== "HEAD") text(response, 405, ["only GET"]);
      else if (page === "/health-checks/live") text(response, 200, ["live"]);
      else if (page === "/health-checks/ready") {
        const missing = o.pending();
        text(response, missing.length === 0 ? 200 : 503, missing.length === 0 ? ["ready"] : missing);
      } else text(response, 404, ["no such page"]);
    });
  }

  /** @throws SetupError when the port cannot be had */
  static async listen(o: ProbeServerOptions): Promise<ProbeServer> {
    const server = new ProbeServer(o);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.#http.once("error", reject).listen(o.port, o.host, resolve);
    await promise.catch((cause: unknown) => {
      const reason = errorText(cause);
      throw new SetupError(`the address ${hostPort(o.host, o.port)} of --health-address cannot be had: ${reason}`, {
        cause,
      });
    });
    server.#http.off("error", reject);
    return server;
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }
}

function text(response: ServerResponse, code: number, lines: readonly string[]): void {
  const body = `${lines.join("\n")}\n`;
  response
    .writeHead(code, { "content-type": "text/plain; charset=utf-8", "content-length": Buffer.byteLength(body) })
    .end(body);
}
