import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import pg from "pg";
import { startPeerController } from "../../e2e/network/openziti/peer-network.ts";
import { Program } from "../../e2e/network/program.ts";
import { residentMiB } from "../dataplane/usage.ts";
import { LoadClient } from "./http-client.ts";
import { processTree, sharedMiB, treeCpuSeconds } from "./processes.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PASSWORD = "correct-horse-battery";
/** As in the first line of the program: it is run by its source file here. */
const NODE_OPTIONS_OF_THE_PROGRAM = ["--max-semi-space-size=16", "--heap-growing-percent=50"];
/** Further options of Node for our controller, for example `--cpu-prof --cpu-prof-dir=/somewhere`. */
const NODE_OPTIONS_OF_OURS = process.env.SALLYPORT_BENCH_NODE_OPTIONS?.split(" ") ?? [];

/** A controller that is measured. */
export interface Side {
  readonly label: "ours" | "peer";
  readonly client: LoadClient;
  /** CPU seconds so far, the database included. */
  cpuSeconds(): number;
  /** Resident MiB of the controller alone, and of its database with shared pages counted once; 0 where it has none of its own. */
  memory(): { readonly controller: number; readonly database: number };
  stop(): Promise<void>;
}

/** How late the event loop was, and the memory of the process in bytes. */
export interface LoopProbe {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** CPU time of the main thread between two turns. */
  readonly cpuP99Ms: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly rss: number;
}

export interface OwnSide extends Side {
  readonly label: "ours";
  readonly port: number;
  /** A connection to the embedded database; the caller ends it. */
  database(): Promise<pg.Client>;
  /** Delay of the event loop since the last call. */
  probe(): Promise<LoopProbe>;
  /** Stops the controller and starts it again; resolves with the milliseconds from its start to the first request it answered. */
  restart(): Promise<number>;
}

/** Our controller with an embedded database, as its programs are run by hand. */
export async function startOwn(
  folder: string,
  /** Makes the controller's file from what `init` wrote. */
  settings: (text: string) => string = (text) => text,
): Promise<OwnSide> {
  mkdirSync(folder, { recursive: true });
  // As root, the database runs under another user, who must be able to pass; otherwise its folder would lie elsewhere.
  chmodSync(folder, 0o711);
  const port = await freePort();
  const file = join(folder, "controller.yml");
  const start = (name: string, options: readonly string[], ...args: string[]): Program =>
    new Program({
      name,
      command: process.execPath,
      args: [...options, join(ROOT, "controller", "src", "main.ts"), ...args],
      env: {
        SALLYPORT_ADMIN_USERNAME: "admin",
        SALLYPORT_ADMIN_PASSWORD: PASSWORD,
        SALLYPORT_LOG_LEVEL: "info",
      },
      logFile: join(folder, `${name}.log`),
    });
  const init = start("init", [], "init", "--dir", folder, "--host", "localhost", "--api-port", String(port));
  if ((await init.exited) !== 0) throw new Error(`init failed\n${init.tail.join("\n")}`);
  writeFileSync(file, settings(readFileSync(file, "utf8")));

  let controller: Program | undefined;
  let client = new LoadClient(port);
  const run = async (): Promise<number> => {
    const began = performance.now();
    controller = start(
      "controller",
      [...NODE_OPTIONS_OF_THE_PROGRAM, ...NODE_OPTIONS_OF_OURS, "--import", join(import.meta.dirname, "loop-probe.ts")],
      "run",
      file,
    );
    client.close();
    client = new LoadClient(port);
    await controller.ready("its first answer", async () => {
      const answer = await client.ask({ method: "GET", path: "/edge/client/v1/version" });
      return answer.status === 200;
    });
    const took = performance.now() - began;
    await client.login("admin", PASSWORD);
    return took;
  };
  await run();
  const running = (): Program => {
    if (controller === undefined) throw new Error("the controller does not run");
    return controller;
  };
  const dataFolder = resolve(folder, /^ {2}dir: "?([^"\n]+)"?$/m.exec(readFileSync(file, "utf8"))?.[1] ?? "database");
  return {
    label: "ours",
    port,
    get client() {
      return client;
    },
    cpuSeconds: () => treeCpuSeconds(processTree(running().pid)),
    memory: () => ({
      controller: residentMiB(running().pid),
      database: sharedMiB(processTree(running().pid).slice(1)),
    }),
    async database() {
      const host = readFileSync(join(dataFolder, "postmaster.pid"), "utf8").split("\n")[4]?.trim() ?? "";
      const connection = new pg.Client({ host, user: "sallyport", database: "sallyport" });
      await connection.connect();
      return connection;
    },
    async probe() {
      const program = running();
      program.tail.length = 0;
      program.signal("SIGUSR2");
      const line = await program.line(/"loopProbe"/);
      return (JSON.parse(line) as { loopProbe: LoopProbe }).loopProbe;
    },
    async restart() {
      client.close();
      await running().stop(30_000);
      return await run();
    },
    async stop() {
      client.close();
      await running().stop(30_000);
    },
  };
}

/** OpenZiti's controller; its database is a file in its own memory. */
export async function startPeer(binary: string, folder: string): Promise<Side> {
  const { controller, port } = await startPeerController(binary, folder);
  const client = new LoadClient(port);
  await client.login("admin", "admin");
  return {
    label: "peer",
    client,
    cpuSeconds: () => treeCpuSeconds([controller.pid]),
    memory: () => ({ controller: residentMiB(controller.pid), database: 0 }),
    async stop() {
      client.close();
      await controller.stop();
    },
  };
}
