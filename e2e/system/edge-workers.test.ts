import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type IdentityFile } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { withEdgeWorkers } from "../network/edge-workers.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const CLIENTS = 6;
const halfOpen = { allowHalfOpen: true };

describe("routers whose SDKs are served by threads", { timeout: 120_000 }, () => {
  const folder = makeScratch("edge-workers");
  const contexts: Context[] = [];
  let network: Network;

  beforeAll(async () => {
    const ports = await freePorts(2);
    network = await startNetwork(join(folder, "network"), {
      routerSettings: (name, text) => withEdgeWorkers(text, ports[name === "r1" ? 0 : 1] ?? 0, 2),
    });
    const declared = await declareService(network, { name: "echo" });
    const host = await Context.load(declared.hostFile);
    contexts.push(host);
    const listener = await host.listen("echo", halfOpen);
    listener.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.pipe(socket);
    });
    const clientFile: IdentityFile = JSON.parse(readFileSync(declared.clientFile, "utf8"));
    for (let i = 0; i < CLIENTS; i++) contexts.push(await Context.load(clientFile));
  }, 180_000);

  afterAll(async () => {
    for (const context of contexts) await context.close();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  it("carries many circuits of several clients, megabytes both ways", async () => {
    const [, ...clients] = contexts;
    const dialled = clients.flatMap((client) => Array.from({ length: 10 }, () => client.dial("echo", halfOpen)));
    const sockets = await Promise.all(dialled);
    await Promise.all(sockets.map((socket, index) => exchange(socket, index, MIB)));
  });

  it("stops with its threads", async () => {
    expect(await network.stopProgram("r1")).toBe(0);
  });
});
