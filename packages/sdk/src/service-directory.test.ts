import { ApiError } from "@sallyport/api/client";
import { silentLogger } from "@sallyport/wire";
import { beforeEach, describe, expect, it } from "vitest";
import type { ApiSession } from "./api-session.ts";
import { NO_ROUTERS } from "./router-address.ts";
import { ServiceDirectory } from "./service-directory.ts";

const service = { id: "svc", name: "svc", encryptionRequired: false, permissions: ["Dial"], config: {} };

/** Routers that the controller has online, by name: their port. */
let online: Readonly<Record<string, number>>;
let isGone: boolean;
/** The token in the controller's answers. */
let shown: string;
let services: ServiceDirectory;
/** The controller has no router for the service; what it answers when it is asked why. */
let refusal: { readonly why?: unknown } | undefined;

beforeEach(() => {
  online = { eu: 1, us: 2 };
  isGone = false;
  shown = "token";
  refusal = undefined;
  const edgeRouters = () =>
    Object.entries(online).map(([name, port]) => ({
      name,
      supportedProtocols: { tls: `tls://${name}.example:${port}` },
    }));
  const orGone = () => {
    if (isGone) throw Object.assign(Object.create(ApiError.prototype), { status: 404 });
  };
  const detail = async () => {
    orGone();
    return { data: { id: "1", token: shown, edgeRouters: edgeRouters() } };
  };
  const createSession = async () => {
    if (refusal === undefined) return await detail();
    throw new ApiError(400, "NO_EDGE_ROUTERS_AVAILABLE", "No edge routers are assigned");
  };
  const explainOwnAccess = async () => {
    if (refusal?.why === undefined) throw new ApiError(404, "NOT_FOUND", "no such operation");
    return { data: refusal.why };
  };
  const listServiceEdgeRouters = async () => {
    orGone();
    return { data: { edgeRouters: edgeRouters().map((router) => ({ ...router, isOnline: router.name !== "asia" })) } };
  };
  const listServices = async () => ({ data: [], meta: { pagination: { limit: 10, offset: 0, totalCount: 0 } } });
  const listServiceUpdates = async () => ({ data: { lastChangeAt: "now" } });
  const api = {
    ...{ createSession, explainOwnAccess, detailSession: detail },
    ...{ listServiceEdgeRouters, listServices, listServiceUpdates },
  };
  const session = { call: (ask: (with_: unknown) => unknown) => ask(api) } as unknown as ApiSession;
  services = new ServiceDirectory({ session, log: silentLogger });
});

const addresses = async (): Promise<string[]> =>
  (await services.dialSession(service)).routers.map(({ address }) => address).toSorted();

describe("sessions for dialling that are brought up to date", () => {
  it("know a router by its new address only, and one that is away as it was", async () => {
    expect(await addresses()).toEqual(["tls:eu.example:1", "tls:us.example:2"]);
    online = { eu: 11, asia: 3 };
    expect(await addresses()).toEqual(["tls:eu.example:1", "tls:us.example:2"]);
    await services.refreshDialSessions();
    expect(await addresses()).toEqual(["tls:asia.example:3", "tls:eu.example:11", "tls:us.example:2"]);
  });

  it("keep the token that they were made with: OpenZiti 2.x shows another one afterwards", async () => {
    const made = await services.dialSession(service);
    expect(made.token).toBe("token");
    shown = "1";
    online = { eu: 11 };
    await services.refreshDialSessions();
    const located = await services.dialSession(service);
    expect(located.token).toBe("token");
    online = { eu: 12 };
    const renewed = await services.renewDialSession(service, located);
    expect([renewed.token, renewed.routers]).toEqual(["token", [{ name: "eu", address: "tls:eu.example:12" }]]);
    shown = "another token";
    expect((await services.renewDialSession(service, renewed, true)).token).toBe("another token");
  });

  it("stay as they are when the controller does not have them any more: a dial finds out", async () => {
    await addresses();
    isGone = true;
    await services.refreshDialSessions();
    expect(await addresses()).toEqual(["tls:eu.example:1", "tls:us.example:2"]);
  });
});

describe("routers for dials without a session", () => {
  const known = () =>
    services
      .routersOf(service)
      ?.map(({ address }) => address)
      .toSorted();

  beforeEach(async () => {
    online = { eu: 1, asia: 3 };
    expect(known()).toBeUndefined();
    await services.learnRouters(service);
  });

  it("are asked for once, also by dials that come together, and again when the answer was a failure or came too late", async () => {
    services.reset();
    const learning = services.learnRouters(service);
    expect(known()).toEqual([]);
    await learning;
    expect(known()).toEqual(["tls:eu.example:1"]);
    services.reset();
    const late = services.learnRouters(service);
    services.reset();
    await late;
    expect(known()).toBeUndefined();
    isGone = true;
    await expect(services.learnRouters(service)).rejects.toThrow();
    expect(known()).toBeUndefined();
  });

  it("are those that are online", () => {
    expect(known()).toEqual(["tls:eu.example:1"]);
  });

  it.for([
    ["routers have moved", () => services.refreshDialSessions()],
    ["the session is another one", () => services.reset()],
    ["the identity no longer has the service", () => services.poll()],
  ] as const)("are forgotten when %s", async ([, happen]) => {
    await happen();
    expect(known()).toBeUndefined();
  });
});

describe("where no edge router may be used", () => {
  it.each([
    [
      "the controller's reason",
      { allowed: false, firstProblem: { message: "no edge router policy" } },
      "no edge router policy",
    ],
    [
      "what to look at, when it has come about meanwhile",
      { allowed: true, firstProblem: { message: "not hosted" } },
      NO_ROUTERS,
    ],
    ["what to look at, on a controller that cannot tell", undefined, NO_ROUTERS],
  ])("the error says %s", async (_, why, text) => {
    refusal = { why };
    await expect(services.dialSession(service)).rejects.toMatchObject({
      code: "NO_ROUTERS",
      message: `no edge router for svc: ${text}`,
    });
    refusal = undefined;
    expect(await addresses()).toHaveLength(2);
  });
});
