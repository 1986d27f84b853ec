import { once } from "node:events";
import {
  EdgeHeader,
  EdgeType,
  FIRST_ROUTER_CONN_ID,
  Headers,
  type Logger,
  Precedence,
  silentLogger,
} from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { ApiSession, IdentityInfo } from "../api-session.ts";
import type { EdgeConnection } from "../circuit/connection.ts";
import { RouterError } from "../errors.ts";
import type { RouterAddress } from "../router-address.ts";
import { RouterPool } from "../router-pool.ts";
import type { ServiceDirectory } from "../service-directory.ts";
import { TinyRouter } from "../testing/tiny-router.ts";
import { type ListenOptions, ServiceListener } from "./service-listener.ts";

let router: TinyRouter;
let routers: RouterPool;
/** What the controller knows of the host. */
let identityInfo: IdentityInfo;

beforeEach(async () => {
  router = await TinyRouter.start();
  identityInfo = {
    ...{ id: "host", name: "host", appData: {} },
    ...{ defaultHostingCost: 0, defaultHostingPrecedence: "default" },
    ...{ serviceHostingCosts: {}, serviceHostingPrecedences: {} },
  };
  const login = await router.login("host");
  routers = new RouterPool({ login, log: silentLogger, onRefused: () => {} });
});

afterEach(async () => {
  routers.close();
  await router.close();
});

/** A listener on a real router connection, with a controller that always says yes. */
function listenerOf(
  options: ListenOptions = {},
  online?: () => boolean,
  listed: RouterAddress[] = [{ name: "tiny", address: router.address }],
  log: Logger = silentLogger,
): ServiceListener {
  const service = { id: "svc", name: "svc", encryptionRequired: false, permissions: ["Bind"], config: {} };
  const session = { id: "1", token: "svc", routers: listed };
  const services = {
    find: async () => service,
    createSession: async () => session,
    refreshSession: async () => ({ ...session, routers: online?.() === false ? [] : [...listed] }),
    noRouters: async () => new RouterError("NO_ROUTERS", "no edge router for svc: no policy"),
  } as unknown as ServiceDirectory;
  const api = {
    login: async () => ({ identityName: "host" }),
    identity: async () => identityInfo,
  } as unknown as ApiSession;
  return new ServiceListener("svc", { session: api, services, routers, log }, options);
}

it("keeps a connection that comes before the application could listen for it", async () => {
  const dial = new Headers()
    .setU32(EdgeHeader.ConnId, 1)
    .setU32(EdgeHeader.RouterProvidedConnId, FIRST_ROUTER_CONN_ID)
    .setString(EdgeHeader.CallerId, "alice");
  // It leaves in one write with the word that the terminator exists, so both arrive in one read.
  const sent = router.asked(EdgeType.Bind).then(() => router.send(0, EdgeType.Dial, dial, Buffer.from("svc")));
  const listener = listenerOf();
  await listener.start();
  const [connection] = (await once(listener, "connection")) as [EdgeConnection];
  await sent;
  expect([connection.callerId, connection.destroyed]).toEqual(["alice", false]);
  connection.destroy();
  await listener.close();
});

it.each([
  { what: "what the options say", options: { cost: 7, precedence: "default" }, offered: [7, undefined] },
  {
    what: "of what they leave out, what the identity has for the service",
    options: { cost: 7 },
    offered: [7, Precedence.Failed],
  },
  { what: "what the identity has for the service", options: {}, offered: [50, Precedence.Failed] },
  { what: "what it has for all services", options: {}, forAll: true, offered: [9, Precedence.Required] },
] as const)("offers cost and precedence: $what", async ({ options, forAll, offered }) => {
  identityInfo = { ...identityInfo, defaultHostingCost: 9, defaultHostingPrecedence: "required" };
  if (forAll !== true) {
    const own = { serviceHostingCosts: { svc: 50 }, serviceHostingPrecedences: { svc: "failed" } } as const;
    identityInfo = { ...identityInfo, ...own };
  }
  const listener = listenerOf(options);
  await listener.start();
  const [bind] = router.messages(EdgeType.Bind);
  expect([bind?.headers.getU16(EdgeHeader.Cost), bind?.headers.getByte(EdgeHeader.Precedence)]).toEqual(offered);
  await listener.close();
});

it("offers the service again as soon as its router is connected, whether the controller has listed it by then or not", async () => {
  let isOnline = true;
  const listener = listenerOf({}, () => isOnline);
  await listener.start();
  // From now on the controller names no router at all.
  isOnline = false;
  const again = once(listener, "listening");
  router.dropAll();
  await again;
  expect(listener.routers).toHaveLength(1);
  await listener.close();
});

it("stays as it is on a router that gets another address, and goes to routers that are new", async () => {
  const other = await TinyRouter.start();
  await routers.close();
  const login = await router.login("host", [other]);
  routers = new RouterPool({ login, log: silentLogger, onRefused: () => {} });
  try {
    const listed = [{ name: "tiny", address: router.address }];
    const listener = listenerOf({}, () => true, listed);
    await listener.start();
    const moved = { name: "tiny", address: router.address.replace("127.0.0.1", "localhost") };
    listed.splice(0, 1, moved, { name: "other", address: other.address });
    const bound = other.asked(EdgeType.Bind);
    listener.lookAgain();
    await bound;
    // What the listener wants of this connection is said before what is asked here.
    const edge = await routers.connect(moved, new AbortController().signal);
    await edge.probe();
    // It would end the one that is there.
    expect(router.messages(EdgeType.Bind)).toHaveLength(1);
    await listener.close();
  } finally {
    await routers.close();
    await other.close();
  }
});

it("offers the service again when its router comes back", async () => {
  const listener = listenerOf();
  await listener.start();
  expect(listener.routers).toHaveLength(1);
  const again = once(listener, "listening");
  router.dropAll();
  await again;
  expect(listener.listening).toBe(true);
  await listener.close();
});

it("does not start once it is closed, and says so to who waits", async () => {
  const listener = listenerOf();
  const starting = listener.start();
  await listener.close();
  await expect(starting).rejects.toMatchObject({ code: "LISTENER_CLOSED" });
  await expect(listenerOf({ maxTerminators: 0 }).start()).rejects.toMatchObject({ code: "OPTION_INVALID" });
});

it("says once why there is no router to host on, and starts when there is one", async () => {
  const told: unknown[] = [];
  const log = { ...silentLogger, warn: (fields: object, text: string) => told.push([fields, text]) };
  const listed: RouterAddress[] = [];
  const listener = listenerOf({}, undefined, listed, log);
  const started = listener.start();
  const reason = "no edge router for svc: no policy";
  await expect.poll(() => told).toEqual([[{ service: "svc", reason }, expect.stringContaining("cannot be hosted")]]);
  listener.lookAgain();
  listed.push({ name: "tiny", address: router.address });
  listener.lookAgain();
  await started;
  expect(told).toHaveLength(1);
  await listener.close();
});
