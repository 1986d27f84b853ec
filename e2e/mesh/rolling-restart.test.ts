import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { Callers } from "./callers.ts";

const folder = makeScratch("rolling");
let network: Network;
let server: Server;
let client: Context;
let serviceId: string;

/** One request over a connection of its own; never tried again. */
async function get(): Promise<string> {
  const socket = await client.dial("web", { timeoutMs: 20_000 });
  return new Promise((resolve, reject) => {
    const asked = request({ path: "/", createConnection: () => socket, agent: undefined }, (answer) => {
      let text = "";
      answer.on("data", (chunk) => (text += String(chunk)));
      answer.on("end", () => resolve(text));
      answer.on("error", reject);
    });
    asked.on("error", reject);
    asked.end();
  });
}

async function getAll(): Promise<void> {
  const text = await get();
  if (text.length !== 20_000) throw new Error(`an answer of ${text.length} bytes`);
}

const precedences = async (): Promise<string[]> =>
  (await network.management.listServiceTerminators({ params: { id: serviceId } })).data
    .map(({ precedence }) => String(precedence))
    .toSorted();

beforeAll(async () => {
  server = createServer((_incoming, outgoing) => {
    // Long enough for a router to be told to stop in the middle.
    outgoing.write("x".repeat(10_000));
    setTimeout(() => outgoing.end("y".repeat(10_000)), 30);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  network = await startNetwork(folder);
  const declared = await declareService(network, {
    name: "web",
    isEncrypted: false,
    hostRouters: ["r1", "r2"],
    clientRouters: ["r1", "r2"],
  });
  serviceId = declared.id;
  const { data: routers } = await network.management.listEdgeRouters();
  for (const router of routers) {
    const address = `tcp:127.0.0.1:${(server.address() as AddressInfo).port}`;
    await network.management.createTerminator({
      body: { service: serviceId, router: router.id, binding: "transport", address },
    });
  }
  client = await Context.load(declared.clientFile, { refreshIntervalMs: 500 });
  await eventually("the service can be dialled", () => get().then(() => true), 60_000);
}, 120_000);

afterAll(async () => {
  await client?.close();
  await network?.stop();
  server?.close();
  removeScratch(folder);
});

describe("a router that is restarted while it is used", { timeout: 120_000 }, () => {
  it.each(["r1", "r2"])("%s: no request on a new connection is lost, and its terminators come back", async (name) => {
    const load = new Callers(4, getAll);
    await load.more(20);
    expect(await network.stopProgram(name)).toBe(0);
    expect(await precedences()).toEqual(["default", "failed"]);
    await load.more(20);
    await network.startRouter(name);
    await eventually("its terminator counts again", async () => !(await precedences()).includes("failed"));
    await load.more(20);
    await load.stop();
    expect(load.failures).toEqual([]);
  });
});
