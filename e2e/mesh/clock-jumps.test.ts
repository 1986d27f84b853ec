import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { type Disturbance, exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import type { LoginKind } from "../network/login/logins.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const ROOT = join(import.meta.dirname, "..", "..");
/** Without an answer for so long a router gives up a link or its controller. */
const UNRESPONSIVE_MS = 5_000;
const heartbeats = `heartbeats: { sendInterval: 200ms, checkInterval: 50ms, closeUnresponsiveTimeout: ${UNRESPONSIVE_MS}ms }`;

/** A network of such routers with an echo, for the tests of a `describe`. */
function jumpingNetwork(login: LoginKind) {
  const folder = makeScratch(`clock-jumps-${login}`);
  const contexts: Context[] = [];
  let network: Network;
  let client: Context;

  const dial = (): Promise<EdgeConnection> => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });
  const echo = async (length: number): Promise<true> => {
    await exchange(await dial(), 2, length);
    return true;
  };

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), {
      login,
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
    await eventually("a first echo", () => echo(1000));
  });

  afterAll(async () => {
    await Promise.all(contexts.map((context) => context.close()));
    await network?.stop();
    removeScratch(folder);
  });

  return {
    dial,
    echo,
    async signal(signal: NodeJS.Signals): Promise<void> {
      const jumped = network.routers.map((router) => router.nextLine(/the clock has jumped/));
      for (const router of network.routers) router.signal(signal);
      await Promise.all(jumped);
    },
    /** A timer on the system clock sees a day of silence at the next look, or does not look for a day. */
    silence: (): Promise<void> => delay(UNRESPONSIVE_MS + 1_000),
    /** Rejects with the line of a router that gives up a link or its controller. */
    givenUp(): Promise<never> {
      const lost = /link closed|connected to the controller|heartbeat/;
      const noticed = network.routers.map((router) =>
        router.nextLine(lost).then(
          (line) => Promise.reject(new Error(line)),
          () => new Promise<never>(() => {}),
        ),
      );
      const first = Promise.race(noticed);
      for (const each of [...noticed, first]) each.catch(() => {});
      return first;
    },
    areRunning: (): boolean => network.routers.every((router) => router.isRunning),
  };
}

describe("routers whose system clocks jump, by a day and by two", () => {
  const jumping = jumpingNetwork("legacy");

  it("carry on: no link and no controller is given up, no circuit ends, and dials work", async () => {
    const givenUp = jumping.givenUp();
    const jump: Disturbance = async () => {
      await jumping.signal("SIGHUP");
      await Promise.race([jumping.silence(), givenUp]);
      await jumping.echo(MIB);
    };
    await exchangeUnder(await jumping.dial(), 3, 24 * MIB, [jump, jump, jump]);
    expect(jumping.areRunning()).toBe(true);
  });
});

// Routers judge access tokens by their own clocks (docs/oidc.md, "Several controllers, and clocks").
describe("routers whose system clocks jump, with clients that log in by OIDC", () => {
  const jumping = jumpingNetwork("oidc");

  it("give up no link and no controller; circuits end, and dials work again when the clocks are right", async () => {
    const givenUp = jumping.givenUp();
    const connection = await jumping.dial();
    const ended = new Promise<Error | undefined>((resolve) => connection.once("error", resolve).once("close", resolve));
    connection.resume();
    for (let jump = 0; jump < 2; jump++) {
      await jumping.signal("SIGHUP");
      await Promise.race([jumping.silence(), givenUp]);
      await expect(jumping.dial()).rejects.toThrow();
    }
    expect(await ended).toBeInstanceOf(Error);
    await jumping.signal("SIGUSR2");
    await Promise.race([eventually("an echo", () => jumping.echo(MIB), 60_000), givenUp]);
    expect(jumping.areRunning()).toBe(true);
  });
});
