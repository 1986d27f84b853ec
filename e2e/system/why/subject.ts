/** A network with one service, one identity that dials it and one that hosts it: what the ways to break it work on. */
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { type ApiClient, createClient } from "@sallyport/api/client";
import { Context } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import type { Program } from "../../network/program.ts";
import {
  allow,
  type ConfiguredService,
  declareConfigured,
  declareIdentity,
  startTunneler,
  type TunnelIdentity,
} from "../../network/tunneler.ts";

/** `laptop` dials `web` through `r1`; `backend` hosts it on `r2`, for a server of this machine. */
export class Subject {
  readonly folder: string;
  readonly network: Network;
  readonly fabric: ApiClient<"fabric">;
  readonly service: ConfiguredService;
  readonly laptop: TunnelIdentity;
  readonly port: number;
  readonly #backend: TunnelIdentity;
  #server: Server | undefined;
  #host: Program | undefined;

  private constructor(parts: {
    readonly folder: string;
    readonly network: Network;
    readonly fabric: ApiClient<"fabric">;
    readonly service: ConfiguredService;
    readonly laptop: TunnelIdentity;
    readonly backend: TunnelIdentity;
    readonly port: number;
  }) {
    this.folder = parts.folder;
    this.network = parts.network;
    this.fabric = parts.fabric;
    this.service = parts.service;
    this.laptop = parts.laptop;
    this.#backend = parts.backend;
    this.port = parts.port;
  }

  /** Starts it in a folder; resolves when a dial works. */
  static async start(folder: string): Promise<Subject> {
    const network = await startNetwork(folder);
    const port = await freePort();
    const fabric = createClient("fabric", {
      baseUrl: `https://localhost:${network.port}`,
      tls: { rejectUnauthorized: false },
    });
    const login = { username: "admin", password: network.adminPassword };
    const session = await network.management.authenticate({ query: { method: "password" }, body: login });
    fabric.setToken(session.data.token);
    const web = { address: "127.0.0.1", port, protocol: "tcp" };
    const service = await declareConfigured(network, { name: "web", roles: ["web"], configs: { "host.v1": web } });
    const laptop = await declareIdentity(network, "laptop", "r1");
    const backend = await declareIdentity(network, "backend", "r2");
    const subject = new Subject({ folder, network, fabric, service, laptop, backend, port });
    await subject.startServer();
    await subject.letDial();
    await allow(network, "Bind", "backend", "web");
    await subject.letServiceUseRouters("#all");
    await subject.startHost();
    await subject.works();
    return subject;
  }

  async stop(): Promise<void> {
    await this.#host?.stop();
    this.#server?.close();
    this.fabric.close();
    await this.network.stop();
  }

  async startServer(): Promise<void> {
    this.#server = createServer((socket) => void socket.on("error", () => {}).end("hello"));
    this.#server.listen(this.port, "127.0.0.1");
    await once(this.#server, "listening");
  }

  async stopServer(): Promise<void> {
    const server = this.#server;
    if (server === undefined) throw new Error("the server does not run");
    server.close();
    await once(server, "close");
  }

  async startHost(): Promise<void> {
    this.#host = startTunneler(this.folder, "host", "host", "-i", this.#backend.file);
    await eventually("the service is hosted", async () => {
      const filter = `service = "${this.service.id}"`;
      const { data } = await this.network.management.listTerminators({ query: { filter } });
      return data.length > 0;
    });
  }

  async stopHost(): Promise<void> {
    await this.#host?.stop();
    this.#host = undefined;
  }

  letDial(): Promise<unknown> {
    return allow(this.network, "Dial", "laptop", "web");
  }

  letServiceUseRouters(role: string): Promise<unknown> {
    return this.network.management.createServiceEdgeRouterPolicy({
      body: { name: "web", semantic: "AnyOf", serviceRoles: ["#web"], edgeRouterRoles: [role] },
    });
  }

  /** A program that starts, dials, and reads what the server says. */
  async dial(): Promise<string> {
    const context = await Context.load(this.laptop.file);
    try {
      const socket = await context.dial("web", { timeoutMs: 5_000 });
      let text = "";
      socket.on("data", (chunk) => (text += String(chunk)));
      await Promise.race([once(socket, "end"), once(socket, "close")]);
      return text;
    } finally {
      await context.close();
    }
  }

  async works(): Promise<void> {
    await eventually("a dial", async () => (await this.dial()) === "hello", 60_000);
  }

  /** @returns what the SDK says of a dial that fails */
  async fails(): Promise<string> {
    return await eventually("no dial works", async () =>
      this.dial().then(
        (text) => text !== "hello" && `the server said ${text}`,
        (error: Error) => error.message,
      ),
    );
  }

  async why() {
    const params = { id: "laptop", serviceId: "web" };
    return (await this.network.management.explainAccess({ params })).data;
  }

  /** What the host is told about hosting. */
  async whyBind() {
    const params = { id: "backend", serviceId: "web" };
    return (await this.network.management.explainAccess({ params, query: { type: "bind" } })).data;
  }
}
