import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { type Disturbance, exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const ROOT = join(import.meta.dirname, "..", "..");
/** Without an answer for so long a router gives up a link or its controller. */
const UNRESPONSIVE_MS = 5_000;
const heartbeats = `heartbeats: { sendInterval: 200ms, checkInterval: 50ms, closeUnresponsiveTimeout: ${UNRESPONSIVE_MS}ms }`;

describe("routers whose system clocks jump, by a day and by two", () => {
  const folder = makeScratch("clock-jumps");
  const contexts: Context[] = [];
  let network: Network;
  let client: Context;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), {
      // Access tokens end by the router's clock: a jump ends the circuits below them (docs/oidc.md, "Several controllers, and clocks").
      login: "legacy",
      programFile: (program) =>
        program === "router"
          ? join(ROOT, "e2e", "network", "jumping-router.ts")
          : join(ROOT, "controller", "src", "main.ts"),
      routerSettings: (_name, text) =>
        text.replace(/^( +endpoint: .*)$/m, `$1\n  ${heartbeats}`).replace(/^link:$/m, `link:\n  ${heartbeats}`),
    });
    const service = await declareService(network, { name: "echo" });
    const host = await Context.load(service.hostFile);
    client = await Context.load(service.clientFile);
    contexts.push(host, client);
    await hostEcho(host, "echo");
    await eventually("a first echo", async () => {
      await exchange(await client.dial("echo", { allowHalfOpen: true }), 1, 1000);
      return true;
    });
  });

  afterAll(async () => {
    await Promise.all(contexts.map((context) => context.close()));
    await network?.stop();
    removeScratch(folder);
  });

  it("carry on: no link and no controller is given up, no circuit ends, and dials work", async () => {
    const lost = /link closed|connected to the controller|heartbeat/;
    const noticed = network.routers.map((router) =>
      router.nextLine(lost).then(
        (line) => Promise.reject(new Error(line)),
        () => new Promise<never>(() => {}),
      ),
    );
    for (const each of noticed) each.catch(() => {});
    const jumps: Disturbance = async () => {
      const jumped = network.routers.map((router) => router.nextLine(/the clock has jumped/));
      for (const router of network.routers) router.signal("SIGHUP");
      await Promise.all(jumped);
      // A timer on that clock sees a day of silence at the next look, or does not look for a day.
      await Promise.race([delay(UNRESPONSIVE_MS + 1_000), ...noticed]);
      await exchange(await client.dial("echo", { allowHalfOpen: true }), 2, MIB);
    };
    const connection = await client.dial("echo", { allowHalfOpen: true });
    await exchangeUnder(connection, 3, 24 * MIB, [jumps, jumps, jumps]);
    expect(network.routers.every((router) => router.isRunning)).toBe(true);
  });
});
