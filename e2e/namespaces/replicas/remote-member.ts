import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import type { Network } from "../../network/network.ts";
import type { MemberPlace } from "../../network/replica-network.ts";
import { CONTROLLER_MAIN } from "../../network/replicas.ts";
import type { Fault, Host, Site } from "../network-namespace.ts";

const ID = "c3";
/** Of this namespace, of the controller for programs, and of the controller for the test, which is never cut off. */
const [HERE, THERE, FOR_TEST] = ["192.0.2.1", "192.0.2.2", "192.0.2.6"] as const;

/** From whom a controller can be cut off. */
export type Cut = "the database" | "the routers" | "the other controllers";
export const CUTS: readonly Cut[] = ["the database", "the routers", "the other controllers"];

/**
 * A controller in a network namespace of its own. Relays on both sides of its cable make it reachable as `localhost`, as everything else is. Each kind of
 * traffic passes the cable at an address and port of its own, so that a packet filter can drop it alone.
 */
export class RemoteMember {
  readonly #box: Host;
  readonly #database: Server;
  readonly #ports: { readonly api: number; readonly ctrl: number; readonly calls: readonly number[] };
  readonly place: MemberPlace;

  private constructor(
    box: Host,
    database: Server,
    place: MemberPlace,
    ports: { readonly api: number; readonly ctrl: number; readonly calls: readonly number[] },
  ) {
    this.#box = box;
    this.#database = database;
    this.place = place;
    this.#ports = ports;
  }

  static async make(site: Site, network: Network, others: readonly MemberPlace[]): Promise<RemoteMember> {
    const [here, box] = [site.here(), await site.host(ID)];
    await site.cable(here, `${HERE}/24`, box, [`${THERE}/24`, `${FOR_TEST}/24`]);
    const [api = 0, ctrl = 0, forTest = 0, ...calls] = await freePorts(3 + others.length);
    const relay = (at: Host, from: readonly [string, number], to: readonly [string, number]) =>
      at.delayProxy({ host: from[0], port: from[1], targetHost: to[0], targetPort: to[1], delayMs: 0 });
    await relay(here, ["127.0.0.1", api], [THERE, api]);
    await relay(here, ["127.0.0.1", ctrl], [THERE, ctrl]);
    await relay(here, ["127.0.0.1", forTest], [FOR_TEST, api]);
    for (const [i, { apiPort }] of others.entries()) {
      const port = calls[i] ?? 0;
      await relay(here, [HERE, port], ["127.0.0.1", apiPort]);
      await relay(box, ["127.0.0.1", apiPort], [HERE, port]);
    }
    const settings = readFileSync(network.controllerFile, "utf8");
    const socket = decodeURIComponent(/[?&]host=([^&\s"']+)/.exec(settings)?.[1] ?? "");
    const database = await databaseRelay(join(socket, ".s.PGSQL.5432"));
    const port = (database.address() as { port: number }).port;
    const url = urlOf({ host: HERE, port, user: "sallyport", database: "sallyport" });
    const file = join(network.folder, "controller", `${ID}.yml`);
    const own = settings.replace(/^( +url: ).*$/m, (_, key: string) => `${key}${url}`);
    if (own === settings) throw new Error("the controller's file does not hold the URL of the database");
    writeFileSync(file, own, { mode: 0o600 });
    const start = async () => {
      const program = box.start({
        name: ID,
        command: process.execPath,
        args: [CONTROLLER_MAIN, "run", file],
        env: {
          SALLYPORT_REPLICA_ID: ID,
          SALLYPORT_REPLICA_API_BIND: `0.0.0.0:${api}`,
          SALLYPORT_REPLICA_API_ADVERTISE: `localhost:${api}`,
          SALLYPORT_REPLICA_CTRL_BIND: `0.0.0.0:${ctrl}`,
          SALLYPORT_REPLICA_CTRL_ADVERTISE: `localhost:${ctrl}`,
        },
        logFile: join(network.folder, `${ID}.log`),
      });
      await program.line(/controller ready/);
      return program;
    };
    return new RemoteMember(box, database, { id: ID, apiPort: forTest, start }, { api, ctrl, calls });
  }

  /** Packets of this kind are dropped from now on, silently for both sides, until the fault ends. */
  async cut(from: Cut): Promise<Fault> {
    const { api, ctrl, calls } = this.#ports;
    const port = (this.#database.address() as { port: number }).port;
    const matches = {
      "the database": [{ protocol: "tcp", port }],
      "the routers": [{ protocol: "tcp", port: ctrl }],
      "the other controllers": [
        { protocol: "tcp", port: api, address: THERE },
        ...calls.map((port) => ({ protocol: "tcp", port }) as const),
      ],
    } as const;
    const losses: Fault[] = [];
    for (const match of matches[from]) losses.push(await this.#box.lose(match));
    return {
      end: async () => {
        for (const loss of losses) await loss.end();
      },
    };
  }

  close(): void {
    this.#database.close();
  }
}

/** A TCP port of this namespace that leads to the socket of a PostgreSQL. */
async function databaseRelay(path: string): Promise<Server> {
  const server = createServer((near) => {
    const far = connect({ path });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on("error", () => undefined);
      one.once("close", () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, HERE, resolve));
  return server;
}
