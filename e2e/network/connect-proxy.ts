import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { Duplex } from "node:stream";

/** An HTTP proxy that opens tunnels to this machine for those who know its password. Names that end in `.invalid` are this machine, too. */
export class ConnectProxy {
  static readonly username = "router";
  static readonly password = "let me: out";
  /** `host:port` of every tunnel that was asked for, as it was asked. */
  readonly asked: string[] = [];
  /** Refuses every client. */
  isClosed = false;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();

  private constructor(server: Server) {
    this.#server = server;
    server.on("connect", (request, client) => this.#open(request.url ?? "", request.headers, client));
  }

  static async start(): Promise<ConnectProxy> {
    const server = createServer((_request, response) => response.writeHead(405).end());
    const proxy = new ConnectProxy(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get tunnels(): number {
    return this.#sockets.size / 2;
  }

  /** Cuts every tunnel there is. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  #open(authority: string, headers: { "proxy-authorization"?: string | undefined }, client: Duplex): void {
    client.on("error", () => client.destroy());
    this.asked.push(authority);
    const secret = Buffer.from(`${ConnectProxy.username}:${ConnectProxy.password}`).toString("base64");
    if (this.isClosed || headers["proxy-authorization"] !== `Basic ${secret}`) {
      client.end("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    const [host = "", port = ""] = authority.split(/:(?=\d+$)/);
    const target = connect({ host: host.endsWith(".invalid") ? "127.0.0.1" : host, port: Number(port) });
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      this.#sockets.add(one);
      one.once("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
    target.on("error", () => client.destroy());
    target.once("connect", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      client.pipe(target).pipe(client);
    });
  }
}
