import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { EdgeChannel } from "./edge-channel.ts";
import { Binding } from "./hosting/binding.ts";
import type { RouterAddress } from "./router-address.ts";
import { RouterPool } from "./router-pool.ts";
import { ControllerOutage, ServiceDialer } from "./service-dialer.ts";
import type { ServiceSession } from "./service-directory.ts";
import { TinyRouter } from "./testing/tiny-router.ts";

const never = new AbortController().signal;
const noTerminators = "service svc has no online terminators for instanceId ";
const stopping = "this router is stopping; dial through another";

let one: TinyRouter;
let other: TinyRouter;
let routers: RouterPool;
/** What the controller has for the next session. */
let listed: RouterAddress[];
let isInMotion: boolean;
let pauses: number;

beforeEach(async () => {
  [one, other] = await Promise.all([TinyRouter.start(), TinyRouter.start()]);
  const login = await one.login("app", [other]);
  routers = new RouterPool({ login, log: silentLogger, onRefused: () => {} });
  listed = [at(one), at(other)];
  isInMotion = false;
  pauses = 0;
  await Promise.all([one, other].map(host));
});

afterEach(async () => {
  await routers.close();
  await Promise.all([one.close(), other.close()]);
});

const at = (router: TinyRouter): RouterAddress => ({ name: "tiny", address: router.address });

/** Hosts the service at a router, by a client of its own. */
async function host(router: TinyRouter): Promise<void> {
  const edge = await router.connect("host");
  await new Promise<void>((established) => {
    new Binding(
      edge,
      { service: "svc", sessionToken: "svc", listenerId: "l", identityName: "host" },
      { established, ended() {}, dialled: (dial) => void dial.accept() },
    );
  });
}

/** Dials with real routers; the session and whether the network is in motion are as the test says. */
async function dial(o: { signal?: AbortSignal } = {}): Promise<string> {
  const session = { login: async () => ({ identityName: "app" }) } as never;
  const sessionOf = (): ServiceSession => ({ id: "1", token: "svc", routers: listed });
  let held = sessionOf();
  const service = { id: "svc", name: "svc", encryptionRequired: false, permissions: ["Dial"], config: {} };
  const services = {
    find: async () => service,
    dialSession: async () => held,
    renewDialSession: async () => {
      held = sessionOf();
      return held;
    },
  };
  const standing = {
    best: (...given: Parameters<RouterPool["best"]>) => routers.best(...given),
    leaves: (edge: EdgeChannel) => routers.leaves(edge),
    get isInMotion() {
      return isInMotion || routers.isInMotion;
    },
  };
  const log = { ...silentLogger, debug: () => pauses++ };
  const dialer = new ServiceDialer({ session, services, routers: standing, log });
  const signal = o.signal === undefined ? never : AbortSignal.any([never, o.signal]);
  const given = { signal, given: o.signal, outage: new ControllerOutage(signal) };
  const connection = await dialer.dial("svc", {
    ...given,
    instance: undefined,
    appData: undefined,
    datagrams: undefined,
  });
  connection.close();
  return "connected";
}

const connectBoth = async (): Promise<void> => {
  await Promise.all(listed.map((router) => routers.connect(router, never)));
};

it("believes a router at once that no host offers the service, in a network that stands still", async () => {
  for (const router of [one, other]) router.refusal = noTerminators;
  await expect(dial()).rejects.toMatchObject({ code: "DIAL_REFUSED", text: noTerminators });
  expect(pauses).toBe(0);
});

it("waits for hosts that are on their way, while routers come and go", async () => {
  isInMotion = true;
  for (const router of [one, other]) router.refusal = noTerminators;
  const dialled = dial();
  await expect.poll(() => pauses).toBeGreaterThan(0);
  for (const router of [one, other]) router.refusal = undefined;
  expect(await dialled).toBe("connected");
});

it("goes by another router when one has no way to a host yet", async () => {
  isInMotion = true;
  await connectBoth();
  const [near] = await Promise.all(listed.map((router) => routers.connect(router, never)));
  Object.assign(near ?? {}, { latencyMs: 0 });
  one.refusal = "no path from router one to a terminator of service svc";
  expect(await dial()).toBe("connected");
  expect(pauses).toBe(1);
});

it("does not wait without end", { timeout: 60_000 }, async () => {
  isInMotion = true;
  for (const router of [one, other]) router.refusal = noTerminators;
  const began = performance.now();
  await expect(dial()).rejects.toMatchObject({ text: noTerminators });
  expect(performance.now() - began).toBeGreaterThan(3_000);
});

it("is given up when the caller says so, with the caller's reason", async () => {
  isInMotion = true;
  for (const router of [one, other]) router.refusal = noTerminators;
  const reason = new Error("no longer wanted");
  const caller = new AbortController();
  setTimeout(() => caller.abort(reason), 300);
  await expect(dial({ signal: caller.signal })).rejects.toBe(reason);
});

it("takes another router than one that says it stops, and knows that routers come and go then", async () => {
  const [near] = await Promise.all(listed.map((router) => routers.connect(router, never)));
  Object.assign(near ?? {}, { latencyMs: 0 });
  one.refusal = stopping;
  expect(await dial()).toBe("connected");
  expect([near?.isPaused, routers.isInMotion]).toEqual([true, true]);
});

it("asks for the routers of now when one is not the session's any more", async () => {
  listed = [at(one)];
  one.refusal = "invalid edge router for session";
  const dialled = dial();
  listed = [at(other)];
  expect(await dialled).toBe("connected");
});
