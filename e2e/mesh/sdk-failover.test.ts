import { join } from "node:path";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const both = ["r1", "r2"];
const halfOpen = { allowHalfOpen: true };

/** Both ends may use both routers; one of them is killed and does not come back. */
describe("a router that is killed", () => {
  const folder = makeScratch("sdk-failover");
  let network: Network;
  let host: Context;
  let client: Context;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    const files = await declareService(network, { name: "echo", hostRouters: both, clientRouters: both });
    host = await Context.load(files.hostFile);
    client = await Context.load(files.clientFile);
    const listener = await host.listen("echo", halfOpen);
    listener.on("connection", (connection) => connection.on("error", () => {}).pipe(connection));
    await eventually("the service is hosted on both routers", () => listener.routers.length === 2);
    await exchange(await client.dial("echo", halfOpen), 1, 100_000);
  });

  afterAll(async () => {
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  });

  it("costs the connections through it, and new ones are made through the other at once", async () => {
    const lost = await client.dial("echo", halfOpen);
    lost.on("error", () => {});
    await network.stopProgram("r1", "SIGKILL");
    const started = performance.now();
    await eventually("a connection through the other router", async () => {
      await exchange(await client.dial("echo", { ...halfOpen, timeoutMs: 5_000 }), 2, 100_000);
      return true;
    });
    // The promise is five seconds on a machine that does nothing else.
    expect(performance.now() - started).toBeLessThan(50_000);
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) => exchange(await client.dial("echo", halfOpen), i, 100_000)),
    );
    lost.destroy();
  });
});
