import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchange, exchangeSome } from "../../network/bytes.ts";
import { Contexts } from "../../network/contexts.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import {
  administrator,
  authorities,
  type DeclaredService,
  declareService,
  fabricAdministrator,
} from "../../network/network.ts";
import { alive, processTree } from "../../network/processes.ts";
import { startWorkers, type WorkersNetwork } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const IDS = ["controller-1", "controller-2"] as const;
const folder = makeScratch("workers");
let database: Awaited<ReturnType<typeof testDatabase>>;
let network: WorkersNetwork;
let fabric: ApiClient<"fabric">;
let echo: DeclaredService;
let ca: string;
const contexts = new Contexts();

beforeAll(async () => {
  database = await testDatabase();
  network = await startWorkers(join(folder, "network"), urlOf(database.connection), IDS.length);
  await network.controller.line(/all workers are ready/);
  fabric = await fabricAdministrator(network.port, network.adminPassword);
  ca = await authorities(network.port);
  echo = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(echo.hostFile), "echo");
}, 240_000);

afterAll(async () => {
  await contexts.close();
  fabric?.close();
  await network?.stop();
  await database?.drop();
  removeScratch(folder);
}, 180_000);

/** Ids of the processes of the workers, by number of the worker. */
function workers(): Map<number, number> {
  const { pid } = network.controller;
  const found = new Map<number, number>();
  for (const child of alive(processTree(pid))) {
    const [, number] = /--worker=(\d+)/.exec(execFileSync("ps", ["-p", `${child}`, "-o", "args="]).toString()) ?? [];
    if (number !== undefined) found.set(Number(number), child);
  }
  return found;
}

/** A figure of each worker, in their order. */
async function figures(name: string): Promise<number[]> {
  const texts = network.metricsPorts.map(async (port) => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
    const values = (await answer.text()).split("\n").filter((line) => line.startsWith(name));
    return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  });
  return Promise.all(texts);
}

/** Asks over a connection of its own. */
async function askOnce(): Promise<void> {
  const client = createClient("client", { baseUrl: `https://localhost:${network.port}`, ca });
  try {
    await client.listVersion();
  } finally {
    client.close();
  }
}

const bothReady = () =>
  eventually(
    "both workers have both routers",
    async () => {
      return (await figures("sallyport_routers_connected")).every((count) => count === 2);
    },
    60_000,
  );

describe("a controller with two workers", { timeout: 300_000 }, () => {
  it("shows both; routers are connected to each, and connections to the shared address reach each", async () => {
    const { data } = await network.management.listControllers();
    expect(data.map(({ id, isOnline, ctrlAddress }) => [id, isOnline, ctrlAddress])).toEqual(
      IDS.map((id, at) => [id, true, `tls:localhost:${network.port + at + 1}`]),
    );
    await bothReady();
    const asked = () => figures('sallyport_http_requests_total{api="client",operation="listVersion"');
    const before = await asked();
    for (let n = 0; n < 64; n++) await askOnce();
    const [one = 0, other = 0] = (await asked()).map((count, at) => count - (before[at] ?? 0));
    expect(one + other).toBe(64);
    // By the hash of the connection: the chance that all reach one of them is nil.
    expect(Math.min(one, other)).toBeGreaterThan(0);
    const ids = (await fabric.inspect({ body: { appRegex: "controller", requestedValues: ["config"] } })).data.values;
    expect(new Set(ids?.map(({ appId }) => appId))).toEqual(new Set(IDS));
  });

  it("says in each line of its log which of them it is", async () => {
    for (const id of IDS) await network.controller.line(new RegExp(`"worker":"${id}".*"controller ready"`));
    network.controller.signal("SIGHUP");
    for (const id of IDS) await network.controller.line(new RegExp(`"worker":"${id}".*certificates and keys again`));
  });

  it("goes on when a worker is killed under load, and has it again: a client that asks twice sees no failure", async () => {
    const client = await contexts.load(echo.clientFile);
    const dial = () => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });
    const open = await eventually("echo can be dialled", dial, 60_000);
    await exchangeSome(open, 1, 10_000);
    let isOver = false;
    let answered = 0;
    const failures: unknown[] = [];
    const sessions = await Promise.all(
      Array.from({ length: 4 }, () => administrator(network.port, network.adminPassword)),
    );
    const load = sessions.map(async (session) => {
      while (!isOver) {
        const ask = () => session.listServices();
        await ask()
          .catch(ask)
          .then(() => answered++)
          .catch((error: unknown) => failures.push(error));
      }
    });
    for (const number of [1, 2]) {
      const pid = workers().get(number) ?? 0;
      expect(pid).toBeGreaterThan(0);
      const again = network.controller.nextLine(new RegExp(`"worker":"controller-${number}".*"controller ready"`));
      const before = answered;
      process.kill(pid, "SIGKILL");
      await network.controller.line(
        new RegExp(`"worker":"controller-${number}".*"signal":"SIGKILL".*starting it again`),
      );
      await exchangeSome(open, 2, 10_000);
      await again;
      await eventually("requests are answered", () => answered > before + 10);
      expect(workers().get(number)).not.toBe(pid);
      await bothReady();
    }
    isOver = true;
    await Promise.all(load);
    for (const session of sessions) session.close();
    expect(failures).toEqual([]);
    await eventually("another connection", async () => {
      await exchange(await dial(), 3, 10_000);
      return true;
    });
    await exchangeSome(open, 4, 10_000);
  });

  it("starts a worker again that hangs", async () => {
    const pid = workers().get(2) ?? 0;
    expect(pid).toBeGreaterThan(0);
    const { controller } = network;
    const killed = controller.nextLine(/"worker":"controller-2".*a worker hangs: killing it/);
    const again = controller.nextLine(/"worker":"controller-2".*"controller ready"/);
    process.kill(pid, "SIGSTOP");
    await killed;
    await again;
    expect(workers().get(2)).not.toBe(pid);
    await bothReady();
  });

  it("stops all with SIGTERM", async () => {
    expect(await stopped(() => network.stopProgram("controller"))).toBe(0);
  });

  it("starts only where all of its addresses are free, and leaves no worker behind otherwise", async () => {
    for (const [port, setting] of [
      [network.port, "api.bind"],
      [network.port + 2, "ctrl.bind of worker 2"],
    ] as const) {
      const other = createServer().listen(port, "127.0.0.1");
      await once(other, "listening");
      const { code, output } = await network.runToEnd("controller", "run", network.controllerFile);
      other.close();
      expect(output).toMatch(
        new RegExp(`cannot listen on .*:${port} \\(${setting} in .*another program listens there`),
      );
      expect(code).toBe(1);
    }
    const { code, output } = await network.runToEnd("controller", "run", network.controllerFile, "--worker=1");
    expect(output).toMatch(/--worker is for processes that run starts itself/);
    expect(code).toBe(2);
  });

  it("leaves no worker behind when the process that started them is killed", async () => {
    await startAgain();
    await stopped(() => network.stopProgram("controller", "SIGKILL"));
  });

  it("stops in order when all processes get SIGTERM, as from systemd", async () => {
    await startAgain();
    const { controller } = network;
    const status = await stopped(async (running) => {
      for (const pid of running) process.kill(pid, "SIGTERM");
      return network.stopProgram("controller");
    });
    expect(status).toBe(0);
    expect(controller.tail.filter((line) => line.includes('"controller stopped"'))).toHaveLength(2);
  });
});

async function startAgain(): Promise<void> {
  await network.startController();
  await network.controller.line(/all workers are ready/);
  await bothReady();
}

/** What stops it must leave none of its workers. */
async function stopped<T>(stop: (running: readonly number[]) => Promise<T>): Promise<T> {
  const running = [...workers().values()];
  expect(running).toHaveLength(2);
  const result = await stop(running);
  await eventually("the workers have ended", () => alive(running).length === 0, 60_000);
  return result;
}
