import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { expect } from "vitest";
import { pseudoRandom, sendPseudoRandom } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

export const KIB = 1024;
export const MIB = 1024 * KIB;
/** Idle circuits are looked for this often, so that the test sees what becomes of one. */
export const IDLE_MS = 1_000;

/** What the host does with a connection is asked for with the bytes that come along with the dial. */
export type Behaviour = "echo" | "host-first" | "flood" | "silent" | "drain" | "hang-up";

/** A network with two routers, and services whose hosts behave as each dial asks. All parts of `bytes.test.ts` share it. */
export class BytesScene {
  readonly folder = makeScratch("bytes");
  network!: Network;
  /** Connections that hosts hold, by what they were asked to do. */
  readonly hosted = new Map<EdgeConnection, Behaviour>();
  readonly #services = new Map<string, DeclaredService>();
  readonly #contexts: Context[] = [];

  async start(): Promise<void> {
    this.network = await startNetwork(this.folder, {
      logLevel: "debug",
      routerLines: `forwarder:\n  idleTxInterval: ${IDLE_MS}\n  idleCircuitTimeout: ${IDLE_MS}\n`,
    });
    for (const name of ["secret", "plain", "web", "unhosted", "churn", "slow"]) {
      this.#services.set(name, await declareService(this.network, { name, isEncrypted: name !== "plain" }));
    }
    await this.host("secret");
    await this.host("plain");
  }

  async stop(): Promise<void> {
    for (const context of this.#contexts) await context.close();
    await this.network?.stop();
    removeScratch(this.folder);
  }

  service(name: string): DeclaredService {
    return this.#services.get(name) ?? expect.fail(`no service ${name}`);
  }

  async load(file: string): Promise<Context> {
    const context = await Context.load(file);
    this.#contexts.push(context);
    return context;
  }

  async host(name: string): Promise<{ context: Context; server: ServiceListener }> {
    const context = await this.load(this.service(name).hostFile);
    const server = await context.listen(name, { allowHalfOpen: true });
    server.on("connection", (connection) => {
      const behaviour = connection.appData?.toString() as Behaviour;
      this.hosted.set(connection, behaviour);
      connection.once("close", () => this.hosted.delete(connection));
      connection.on("error", () => {});
      serve(connection, behaviour);
    });
    return { context, server };
  }

  async dial(context: Context, name: string, behaviour: Behaviour, signal?: AbortSignal): Promise<EdgeConnection> {
    return await context.dial(name, {
      appData: Buffer.from(behaviour),
      allowHalfOpen: true,
      ...(signal && { signal }),
    });
  }

  /** The host's end of a connection, once it is there. */
  async hostEnd(behaviour: Behaviour): Promise<EdgeConnection> {
    return await eventually(
      `a hosted connection that is ${behaviour}`,
      () => [...this.hosted].find(([, asked]) => asked === behaviour)?.at(0) as EdgeConnection | undefined,
    );
  }

  /** Ids of the circuits that the controller has made and not removed, as its log tells. */
  openCircuits(): string[] {
    const open = new Set<string>();
    for (const line of readFileSync(join(this.folder, "controller.log"), "utf8").split("\n")) {
      if (!/"msg":"circuit-(created|removed)"/.test(line)) continue;
      const { circuitId, msg } = JSON.parse(line) as { circuitId: string; msg: string };
      if (msg === "circuit-created") open.add(circuitId);
      else open.delete(circuitId);
    }
    return [...open];
  }
}

function serve(connection: EdgeConnection, behaviour: Behaviour): void {
  switch (behaviour) {
    case "echo":
      connection.pipe(connection);
      break;
    case "host-first":
      void sendPseudoRandom(connection, 7, 32 * MIB);
      break;
    case "flood":
      void (async () => {
        for (const chunk of pseudoRandom(3, 64 * MIB)) {
          if (!connection.write(chunk)) await once(connection, "drain");
        }
        connection.end();
      })().catch(() => {});
      break;
    case "silent":
      break;
    case "drain":
      connection.resume();
      connection.once("end", () => connection.end());
      break;
    case "hang-up":
      connection.end("goodbye");
      connection.once("finish", () => connection.destroy());
      break;
  }
}
