import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { TestAuthority } from "@sallyport/wire/testing";

export interface Asked {
  readonly method: string;
  /** Below the base of the Management API. */
  readonly path: string;
  readonly token: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

export interface Said {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Undefined: the connection is cut. */
type Answer = (asked: Asked) => Said | undefined | Promise<Said | undefined>;

/** The answer of an error, as controllers write it. */
export const refusal = (status: number, code: string, headers: Record<string, string> = {}): Said => ({
  status,
  headers,
  body: { error: { code, message: code.toLowerCase(), requestId: "r" }, meta: {} },
});

export const answer = (data: unknown, meta: object = {}): Said => ({ status: 200, body: { data, meta } });

/** The data of an accepted login. */
export const session = (token: string, authQueries: readonly object[] = []): Said =>
  answer({ token, authQueries, identity: { id: "i", name: "operator" } });

/** An HTTPS server that says what a test wants of a Management API: for faults that real controllers don't have on demand. */
export class FakeController {
  readonly asked: Asked[] = [];
  /** What it says of itself, by itself; undefined: the test says it. */
  version: object | undefined = {
    version: "v1.6.20",
    capabilities: [],
    apiVersions: { "edge-management": { v1: {} } },
  };
  readonly url: string;
  readonly ca: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, ca: string) {
    this.#server = server;
    this.ca = ca;
    this.url = `https://localhost:${(server.address() as AddressInfo).port}`;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /** @param uri URI names of its certificate */
  static async start(say: Answer, authority?: TestAuthority, uri: readonly string[] = []): Promise<FakeController> {
    const signer = authority ?? (await TestAuthority.create());
    const { certPem, keyPem } = await signer.issue({ dns: ["localhost"], ip: ["127.0.0.1"], uri });
    const server = createServer({ cert: certPem, key: keyPem }, (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", async () => {
        const text = Buffer.concat(chunks).toString();
        const { headers } = request;
        const asked: Asked = {
          method: request.method ?? "",
          path: (request.url ?? "").replace("/edge/management/v1", ""),
          token: headers["zt-session"] as string | undefined,
          authorization: headers.authorization,
          body: text === "" ? undefined : JSON.parse(text),
        };
        const own = asked.path === "/version" && controller.version;
        if (!own) controller.asked.push(asked);
        const said = own ? answer(own) : await say(asked);
        if (said === undefined) {
          request.socket.destroy();
          return;
        }
        response.writeHead(said.status, { "content-type": "application/json", ...said.headers });
        response.end(JSON.stringify(said.body ?? { data: {}, meta: {} }));
      });
    });
    server.listen(0, "localhost");
    await once(server, "listening");
    const controller = new FakeController(server, signer.certPem);
    return controller;
  }

  /** The paths that were asked for, with their methods, logouts left out. */
  get log(): string[] {
    return this.asked.filter(({ method }) => method !== "DELETE").map(({ method, path }) => `${method} ${path}`);
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
