import { EdgeErrorCode, EdgeHeader, EdgeType, Headers, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EdgeChannel } from "./edge-channel.ts";
import { RouterError, ServiceError } from "./errors.ts";
import { Binding } from "./hosting/binding.ts";
import type { LoginResult } from "./login/login.ts";
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
let kind: LoginResult["kind"];
/** What the controller is asked for, in order. */
let asked: string[];
/** The routers of the service, once they were asked for. */
let learnt: readonly RouterAddress[] | undefined;
/** The controller makes no session any more. */
let isTaken: boolean;

beforeEach(async () => {
  [one, other] = await Promise.all([TinyRouter.start({ connectsByService: true }), TinyRouter.start()]);
  const login = await one.login("app", [other]);
  routers = new RouterPool({ login, log: silentLogger, onRefused: () => {} });
  listed = [at(one), at(other)];
  isInMotion = false;
  pauses = 0;
  kind = "legacy";
  asked = [];
  learnt = undefined;
  isTaken = false;
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
  const session = { login: async () => ({ kind, identityName: "app" }) } as never;
  const sessionOf = (): ServiceSession => ({ id: "1", token: "svc", routers: listed });
  let held = sessionOf();
  const service = { id: "svc", name: "svc", encryptionRequired: false, permissions: ["Dial"], config: {} };
  const services = {
    find: async () => service,
    dialSession: async () => {
      asked.push("session");
      if (isTaken) throw new ServiceError("SERVICE_NOT_AVAILABLE", "no policy gives it any more");
      return held;
    },
    renewDialSession: async () => {
      held = sessionOf();
      return held;
    },
    routersOf: () => learnt,
    noRouters: async () => {
      asked.push("obstacle");
      return new RouterError("NO_ROUTERS", "no edge router for svc: no policy");
    },
    learnRouters: async () => {
      asked.push("routers");
      learnt = listed;
    },
  };
  const standing = {
    best: (...given: Parameters<RouterPool["best"]>) => routers.best(...given),
    connectingByService: () => routers.connectingByService(),
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

describe("with an access token", () => {
  const code = (value: number) => new Headers().setU32(EdgeHeader.ErrorCode, value);
  const connect = (router: RouterAddress) => routers.connect(router, never);

  beforeEach(async () => {
    kind = "oidc";
    listed = [at(one)];
    await connect(at(one));
  });

  it("needs no session where a connected router decides by it, and learns the service's routers behind the first dial", async () => {
    expect(await dial()).toBe("connected");
    expect(await dial()).toBe("connected");
    expect(asked).toEqual(["routers"]);
    expect(one.messages(EdgeType.Connect)).toEqual([]);
    const [first] = one.messages(EdgeType.ConnectV2);
    const { headers, body } = first ?? expect.fail("no dial by service");
    expect([headers.getString(EdgeHeader.ServiceId), headers.getByte(EdgeHeader.ServiceIdentifierType)]).toEqual([
      "svc",
      0,
    ]);
    expect(body).toHaveLength(0);
    expect(headers.getString(EdgeHeader.CallerId)).toBe("app");
  });

  it("asks for a session before any router is connected, and where the best router decides nothing", async () => {
    routers.closeAll();
    listed = [at(other)];
    expect(await dial()).toBe("connected");
    await connect(at(one));
    learnt = [at(other)];
    expect(await dial()).toBe("connected");
    expect(asked).toEqual(["session", "session"]);
    expect(other.messages(EdgeType.Connect)).toHaveLength(2);
  });

  it("asks for a session with the old login, whatever the router can do", async () => {
    kind = "legacy";
    expect(await dial()).toBe("connected");
    expect(asked).toEqual(["session"]);
  });

  const lagging = [
    "InvalidApiSession",
    "InvalidSession",
    "InvalidEdgeRouterForSession",
    "InvalidService",
    "AccessDenied",
  ] as const;
  it.for(lagging)("believes the controller where a router says %s: the session that it makes goes on", async (name) => {
    one.refusal = "no";
    one.refusalHeaders = code(EdgeErrorCode[name]);
    listed = [at(other)];
    expect(await dial()).toBe("connected");
    expect(asked).toEqual(["session"]);
  });

  it("is refused as the controller says, where the permission is gone", async () => {
    one.refusal = "access denied";
    one.refusalHeaders = code(EdgeErrorCode.AccessDenied);
    isTaken = true;
    await expect(dial()).rejects.toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
  });

  it("names the posture checks that fail, and does not try again", async () => {
    isInMotion = true;
    one.refusal = "access denied: posture checks fail";
    const error = { message: one.refusal, code: 15, retryHint: 0, failingPostureCheckIds: ["a", "b"] };
    one.refusalHeaders = code(EdgeErrorCode.PostureCheckFailed).setString(
      EdgeHeader.StructuredError,
      JSON.stringify(error),
    );
    await expect(dial()).rejects.toMatchObject({
      code: "POSTURE_FAILED",
      failingPostureChecks: ["a", "b"],
      message: expect.stringContaining("posture checks fail (a, b)"),
    });
    expect([asked, pauses]).toEqual([[], 0]);
  });

  it.for(["", "{", "null", "[]", '{"failingPostureCheckIds":"a"}', '{"failingPostureCheckIds":[1,{}]}'])(
    "reads a refusal whose structured error is %j",
    async (json) => {
      one.refusal = "posture";
      one.refusalHeaders = code(EdgeErrorCode.PostureCheckFailed).setString(EdgeHeader.StructuredError, json);
      await expect(dial()).rejects.toMatchObject({ code: "POSTURE_FAILED", failingPostureChecks: [] });
    },
  );

  it("waits for hosts as with a session", async () => {
    isInMotion = true;
    one.refusal = noTerminators;
    const dialled = dial();
    await expect.poll(() => pauses).toBeGreaterThan(0);
    one.refusal = undefined;
    expect(await dialled).toBe("connected");
    expect(asked).toEqual(["routers"]);
  });
});

it("says what the controller says of a missing router", async () => {
  listed = [];
  await expect(dial()).rejects.toMatchObject({ code: "NO_ROUTERS", message: "no edge router for svc: no policy" });
});

it("asks for no reason when the network has answered", async () => {
  await dial();
  expect(asked).not.toContain("obstacle");
});
