import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type ServiceListener } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { Callers } from "./callers.ts";

const both = ["r1", "r2"];
const halfOpen = { allowHalfOpen: true };

/** A dial, and bytes there and back. */
const call = async (client: Context, seed: number): Promise<void> =>
  void (await exchange(await client.dial("echo", halfOpen), seed, 1_000));

/** As an upgrade goes: the next router is told to stop as soon as the controller has the one before again. */
describe("two routers that are restarted one after the other", { timeout: 480_000 }, () => {
  const folder = makeScratch("in-turn");
  let network: Network;
  let host: Context;
  let listener: ServiceListener;
  let client: Context;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), { routerLines: "shutdown:\n  drainTimeout: 5s\n" });
    const files = await declareService(network, { name: "echo", hostRouters: both, clientRouters: both });
    host = await Context.load(files.hostFile);
    client = await Context.load(files.clientFile);
    listener = await host.listen("echo", halfOpen);
    listener.on("connection", (connection) => connection.on("error", () => {}).pipe(connection));
    await eventually("the service is hosted on both routers", () => listener.routers.length === 2);
    await exchange(await client.dial("echo", halfOpen), 1, 1_000);
  });

  afterAll(async () => {
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  });

  /** A connection that keeps each router from being done before its time. */
  async function lasting(): Promise<void> {
    const connection = await client.dial("echo", halfOpen);
    connection.on("error", () => {}).write("I stay");
  }

  const isSynced = async (name: string): Promise<boolean> => {
    const { data } = await network.management.listEdgeRouters({ query: { filter: `name = "${name}"` } });
    return data[0]?.isOnline === true && data[0].syncStatus === "SYNC_DONE";
  };

  it("answer every call", async () => {
    const callers = new Callers(2, (seed) => call(client, seed));
    for (const name of [...both, ...both]) {
      await callers.more(20);
      await lasting();
      expect(await network.stopProgram(name)).toBe(0);
      await network.startRouter(name);
      await eventually("the controller has it again", () => isSynced(name), 60_000);
    }
    await callers.more(20);
    await callers.stop();
    expect(callers.failures).toEqual([]);
  });

  it("answer every call while they move to other ports, too", async () => {
    const callers = new Callers(2, (seed) => call(client, seed));
    for (const name of both) {
      await eventually("the service is hosted on both routers", () => listener.routers.length === 2, 300_000);
      await callers.more(20);
      const file = join(network.folder, `${name}.yml`);
      const text = readFileSync(file, "utf8");
      const [from = ""] = /(?<=advertise: localhost:)\d+/.exec(text) ?? [];
      const to = await freePort();
      writeFileSync(file, text.replaceAll(from, String(to)));
      expect(await network.stopProgram(name)).toBe(0);
      await network.startRouter(name);
      await eventually("the host is there", () => listener.routers.some((at) => at.endsWith(`:${to})`)), 300_000);
    }
    await callers.more(20);
    await callers.stop();
    expect(callers.failures).toEqual([]);
  });
});
