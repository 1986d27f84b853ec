import { PeerData } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

/** A network of its own for each test, in which `laptop` of this number dials `web` of it. */
interface Own {
  readonly tag: string;
  readonly laptop: string;
  readonly backend: string;
  readonly web: string;
  readonly router: string;
  readonly dial: string;
  readonly bind: string;
  readonly identityRouters: string;
  readonly serviceRouters: string;
}
let own: Own;
let count = 0;

beforeEach(async () => {
  const tag = `why${++count}`;
  const identity = (name: string) =>
    c.make("identities", { name: `${name}-${tag}`, type: "User", isAdmin: false, roleAttributes: [`${name}-${tag}`] });
  const laptop = await identity("laptop");
  await c.make("authenticators", {
    method: "updb",
    identityId: laptop,
    username: `laptop-${tag}`,
    password: "correct horse",
  });
  const backend = await identity("backend");
  const web = await c.make("services", { name: `web-${tag}`, encryptionRequired: true, roleAttributes: [tag] });
  const router = await c.make("edge-routers", { name: `router-${tag}`, roleAttributes: [tag] });
  const policy = (name: string, type: "Dial" | "Bind", who: string) =>
    c.make("service-policies", {
      ...{
        name: `${name}-${tag}`,
        type,
        semantic: "AnyOf",
        identityRoles: [`#${who}-${tag}`],
        serviceRoles: [`#${tag}`],
      },
    });
  own = {
    ...{ tag, laptop, backend, web, router },
    dial: await policy("dial", "Dial", "laptop"),
    bind: await policy("bind", "Bind", "backend"),
    identityRouters: await c.make("edge-router-policies", {
      ...{ name: `erp-${tag}`, semantic: "AnyOf", identityRoles: [`#laptop-${tag}`], edgeRouterRoles: [`#${tag}`] },
    }),
    serviceRouters: await c.make("service-edge-router-policies", {
      ...{ name: `serp-${tag}`, semantic: "AnyOf", serviceRoles: [`#${tag}`], edgeRouterRoles: [`#${tag}`] },
    }),
  };
  online(router);
  await host({});
  await c.login(`laptop-${tag}`, "correct horse");
});

function online(id: string): void {
  c.online.set(id, {
    ...{ isOnline: true, hostname: "r", syncStatus: "SYNC_DONE" },
    supportedProtocols: { tls: "tls://r:3022" },
  });
}

async function host({ routerId = own.router, key = true, instanceId = "" }): Promise<void> {
  const outcome = await c.fabricModel.createTerminator({
    ...{ serviceId: own.web, routerId, binding: "edge", address: "a", instanceId, cost: 0, precedence: "default" },
    peerData: new Map(key ? [[PeerData.PublicKey, Buffer.from("key")]] : []),
    hostId: own.backend,
  });
  expect(outcome.outcome).toBe("created");
}

const endHosting = () => sql`DELETE FROM terminator WHERE service_id = ${own.web}`.execute(c.ctx.store.db);

async function why(type: "dial" | "bind" = "dial", identity = own.laptop, service = own.web) {
  const answer = await c.admin("GET", `/identities/${identity}/why/${service}?type=${type}`);
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.json.data;
}

it("says yes to an identity whose dial works, by ids and by names", async () => {
  const byId = await why();
  expect([byId.allowed, byId.firstProblem]).toEqual([true, undefined]);
  expect(byId).toMatchObject({
    type: "Dial",
    identity: { entity: "identities", id: own.laptop, name: `laptop-${own.tag}` },
    service: { entity: "services", id: own.web, name: `web-${own.tag}` },
    lastFailedDials: [],
  });
  const byName = await why("dial", `laptop-${own.tag}`, `web-${own.tag}`);
  expect(byName.checks).toEqual(byId.checks);
  expect((await why("bind", own.backend)).checks.at(-2)).toMatchObject({ check: "hosting", status: "ok" });
});

it("takes what the answer says to create, and then says yes", async () => {
  await c.admin("DELETE", `/service-policies/${own.dial}`);
  const { firstProblem } = await why();
  expect(firstProblem).toMatchObject({ code: "NO_SERVICE_POLICY" });
  const [, , kind, name, ...options] = firstProblem.remedies[0].command.split(" ");
  expect(kind).toBe("service-policy");
  const pairs = Array.from({ length: options.length / 2 }, (_, at) => options.slice(at * 2, at * 2 + 2));
  const body = Object.fromEntries(
    pairs.map(([option, value]) => {
      const field = option.slice(2).replaceAll(/-([a-z])/g, (_: string, letter: string) => letter.toUpperCase());
      const text = value.replaceAll("'", "");
      return [field, field.endsWith("Roles") ? text.split(",") : text];
    }),
  );
  await c.make("service-policies", { name, ...body });
  expect((await why()).allowed).toBe(true);
});

const ways: [string, string, () => Promise<unknown>][] = [
  [
    "the identity is disabled",
    "IDENTITY_DISABLED",
    () => c.admin("POST", `/identities/${own.laptop}/disable`, { durationMinutes: 0 }),
  ],
  [
    "the identity has another attribute",
    "IDENTITY_NOT_SELECTED",
    () => c.admin("PATCH", `/identities/${own.laptop}`, { roleAttributes: ["other"] }),
  ],
  [
    "the service has another attribute",
    "SERVICE_NOT_SELECTED",
    () => c.admin("PATCH", `/services/${own.web}`, { roleAttributes: [] }),
  ],
  [
    "the policy has the other type",
    "OTHER_TYPE_ONLY",
    async () => {
      await c.admin("DELETE", `/service-policies/${own.dial}`);
      await c.admin("PATCH", `/service-policies/${own.bind}`, { identityRoles: [`#laptop-${own.tag}`] });
    },
  ],
  [
    "a posture check fails",
    "POSTURE_NOT_REPORTED",
    async () => {
      await c.make("posture-checks", {
        name: `os-${own.tag}`,
        typeId: "OS",
        operatingSystems: [{ type: "Linux" }],
        roleAttributes: [own.tag],
      });
      await c.admin("PATCH", `/service-policies/${own.dial}`, { postureCheckRoles: [`#${own.tag}`] });
    },
  ],
  [
    "no edge router policy is left",
    "NO_EDGE_ROUTER_POLICY",
    () => c.admin("DELETE", `/edge-router-policies/${own.identityRouters}`),
  ],
  [
    "the edge router policy selects no router",
    "EDGE_ROUTER_POLICY_EMPTY",
    () => c.admin("PATCH", `/edge-router-policies/${own.identityRouters}`, { edgeRouterRoles: ["#none"] }),
  ],
  [
    "no service edge router policy is left",
    "NO_SERVICE_EDGE_ROUTER_POLICY",
    () => c.admin("DELETE", `/service-edge-router-policies/${own.serviceRouters}`),
  ],
  [
    "the router is disabled",
    "EDGE_ROUTERS_DISABLED",
    () => c.admin("PATCH", `/edge-routers/${own.router}`, { disabled: true }),
  ],
  [
    "the two have different routers",
    "NO_COMMON_EDGE_ROUTER",
    async () => {
      await c.make("edge-routers", { name: `elsewhere-${own.tag}`, roleAttributes: [`elsewhere-${own.tag}`] });
      await c.admin("PATCH", `/service-edge-router-policies/${own.serviceRouters}`, {
        edgeRouterRoles: [`#elsewhere-${own.tag}`],
      });
    },
  ],
  ["the router is offline", "EDGE_ROUTER_OFFLINE", async () => c.online.delete(own.router)],
  [
    "the router has no listener for applications",
    "NO_EDGE_LISTENER",
    async () =>
      c.online.set(own.router, { isOnline: true, hostname: "r", supportedProtocols: {}, syncStatus: "SYNC_DONE" }),
  ],
  ["the host has gone", "NOT_HOSTED", endHosting],
  [
    "no policy lets an identity host",
    "NO_BIND_POLICY",
    async () => {
      await c.admin("DELETE", `/service-policies/${own.bind}`);
      await endHosting();
    },
  ],
  [
    "the policy of hosts selects no identity",
    "NO_IDENTITY_MAY_HOST",
    async () => {
      await c.admin("PATCH", `/service-policies/${own.bind}`, { identityRoles: ["#none"] });
      await endHosting();
    },
  ],
  [
    "only instances are hosted",
    "INSTANCE_ID_NEEDED",
    async () => {
      await endHosting();
      await host({ instanceId: "printer" });
    },
  ],
  [
    "the host does not encrypt",
    "HOST_DOES_NOT_ENCRYPT",
    async () => {
      await endHosting();
      await host({ key: false });
    },
  ],
  [
    "the router of the host has no link",
    "NO_PATH",
    async () => {
      const far = await c.make("edge-routers", { name: `far-${own.tag}`, roleAttributes: [] });
      online(far);
      await endHosting();
      await host({ routerId: far });
    },
  ],
  [
    "the router of the host is offline",
    "HOST_ROUTERS_OFFLINE",
    async () => {
      const far = await c.make("edge-routers", { name: `far-${own.tag}`, roleAttributes: [] });
      await endHosting();
      await host({ routerId: far });
    },
  ],
  [
    "the auth policy wants a one-time code",
    "SECOND_FACTOR_NOT_ENROLLED",
    async () => {
      const policy = (await c.admin("GET", "/auth-policies/default")).json.data;
      const { primary } = policy;
      const secondary = { requireTotp: true, requireExtJwtSigner: null };
      const id = await c.make("auth-policies", { name: `totp-${own.tag}`, primary, secondary });
      await c.admin("PATCH", `/identities/${own.laptop}`, { authPolicyId: id });
      await c.login(`laptop-${own.tag}`, "correct horse");
    },
  ],
];

it.each(ways)("when %s: %s", async (_, code, breakIt) => {
  await breakIt();
  const { allowed, firstProblem } = await why();
  expect([allowed, firstProblem?.code, firstProblem?.message]).toEqual([false, code, firstProblem?.message]);
});

it("says what the device reported, when, and what the check wants", async () => {
  await c.make("posture-checks", {
    name: `os-${own.tag}`,
    typeId: "OS",
    operatingSystems: [{ type: "Linux", versions: [] }],
    roleAttributes: [own.tag],
  });
  await c.admin("PATCH", `/service-policies/${own.dial}`, { postureCheckRoles: [`#${own.tag}`] });
  const token = await c.login(`laptop-${own.tag}`, "correct horse");
  const report = (type: string) =>
    c.call("POST", "/edge/client/v1/posture-response", {
      token,
      body: { typeId: "OS", id: "x", type, version: "10.0.0" },
    });
  expect((await report("Windows")).status).toBe(201);
  const { checks, firstProblem } = await why();
  expect(firstProblem.code).toBe("POSTURE_DIFFERS");
  const posture = checks.find(({ check }: { check: string }) => check === "posture");
  const [part] = posture.checks;
  expect(part.details).toMatchObject({
    typeId: "OS",
    actual: { type: "Windows", version: "10.0.0" },
    expected: [{ type: "Linux" }],
  });
  expect(Math.abs(Date.parse(part.details.reportedAt) - Date.now())).toBeLessThan(60_000);
  expect((await report("Linux")).status).toBe(201);
  expect((await why()).allowed).toBe(true);
});

it("judges a tunneling router by its own router, and without posture", async () => {
  const id = await c.make("edge-routers", {
    name: `tunneler-${own.tag}`,
    roleAttributes: [own.tag],
    isTunnelerEnabled: true,
  });
  await c.admin("PATCH", `/service-policies/${own.dial}`, { identityRoles: [`@${id}`] });
  expect((await why("dial", id)).firstProblem).toMatchObject({ code: "EDGE_ROUTER_OFFLINE" });
  c.online.set(id, { isOnline: true, hostname: "r", supportedProtocols: {}, syncStatus: "SYNC_DONE" });
  expect((await why("dial", id)).firstProblem).toMatchObject({ code: "NO_PATH" });
  await c.make("posture-checks", { name: `mfa-${own.tag}`, typeId: "MFA", roleAttributes: [own.tag] });
  await c.admin("PATCH", `/service-policies/${own.dial}`, { postureCheckRoles: [`#${own.tag}`] });
  expect((await why("dial", id)).firstProblem).toMatchObject({ code: "POSTURE_NOT_FOR_ROUTERS" });
});

it("warns of an identity that is not logged in, or has not enrolled", async () => {
  await sql`DELETE FROM api_session WHERE identity_id = ${own.laptop}`.execute(c.ctx.store.db);
  expect(await why()).toMatchObject({ allowed: true, firstProblem: { code: "NOT_LOGGED_IN" } });
  const id = await c.make("identities", {
    ...{
      name: `new-${own.tag}`,
      type: "User",
      isAdmin: false,
      roleAttributes: [`laptop-${own.tag}`],
      enrollment: { ott: true },
    },
  });
  expect(await why("dial", id)).toMatchObject({ allowed: false, firstProblem: { code: "NOT_ENROLLED" } });
  c.clock.offsetMs = c.ctx.settings.identityEnrollmentMs + 60_000;
  try {
    expect(await why("dial", id)).toMatchObject({ allowed: false, firstProblem: { code: "ENROLLMENT_EXPIRED" } });
  } finally {
    c.clock.offsetMs = 0;
  }
});

it("has the last failures of the identity and the service, by code and time, and none of others", async () => {
  const token = await c.login(`laptop-${own.tag}`, "correct horse");
  const session = () =>
    c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId: own.web, type: "Dial" } });
  await c.admin("DELETE", `/edge-router-policies/${own.identityRouters}`);
  expect((await session()).status).toBe(400);
  expect((await session()).status).toBe(400);
  await c.admin("DELETE", `/service-policies/${own.dial}`);
  expect((await session()).status).toBe(404);
  const { lastFailedDials } = await why();
  expect(lastFailedDials).toMatchObject([
    { code: "ACCESS_DENIED", count: 1 },
    { code: "NO_EDGE_ROUTERS_AVAILABLE", count: 2 },
  ]);
  expect(Math.abs(Date.parse(lastFailedDials[0].at) - Date.now())).toBeLessThan(60_000);
  expect((await why("bind")).lastFailedDials).toEqual([]);
  expect((await why("dial", own.backend)).lastFailedDials).toEqual([]);
});

it("names the failure at the host when nothing else is in the way, until a dial succeeds", async () => {
  const failure = {
    serviceId: own.web,
    type: "Dial",
    code: "ROUTER_ERR_CONN_REFUSED",
    message: "connect ECONNREFUSED",
  } as const;
  c.model.failedDials.add(own.laptop, { ...failure, routerId: own.router });
  expect(await why()).toMatchObject({
    allowed: true,
    firstProblem: { check: "recent-dials", code: "ROUTER_ERR_CONN_REFUSED" },
    lastFailedDials: [{ routerId: own.router, count: 1 }],
  });
  c.model.failedDials.succeeded(own.laptop, own.web);
  expect((await why()).firstProblem).toBeUndefined();
  await c.admin("DELETE", `/identities/${own.laptop}`);
  await vi.waitFor(() => expect(c.model.failedDials.of(own.laptop, own.web, "Dial").failed).toEqual([]), {
    timeout: 10_000,
  });
});

it("refuses unknown identities, services and types, and callers who are no administrators", async () => {
  const status = async (path: string) => (await c.admin("GET", path)).status;
  expect(await status(`/identities/nope/why/${own.web}`)).toBe(404);
  expect(await status(`/identities/${own.laptop}/why/nope`)).toBe(404);
  expect(await status(`/identities/${own.laptop}/why/${own.web}?type=both`)).toBe(400);
  const token = await c.login(`laptop-${own.tag}`, "correct horse");
  const path = `/edge/management/v1/identities/${own.laptop}/why/${own.web}`;
  expect((await c.call("GET", path, { token })).status).toBe(401);
});

describe("the identity itself", () => {
  const ask = async (service: string, type = "dial") => {
    const token = await c.login(`laptop-${own.tag}`, "correct horse");
    return c.call("GET", `/edge/client/v1/services/${service}/why?type=${type}`, { token });
  };

  it("gets the same verdict by id and by name, without names of others and commands", async () => {
    const { data } = (await ask(own.web)).json;
    expect([data.allowed, data.firstProblem]).toEqual([true, undefined]);
    expect((await ask(`web-${own.tag}`)).json.data.checks).toEqual(data.checks);
    await endHosting();
    const unhosted = await ask(own.web);
    expect(unhosted.json.data).toMatchObject({ allowed: false, firstProblem: { code: "NOT_HOSTED" } });
    const foreign = [
      own.backend,
      `backend-${own.tag}`,
      own.dial,
      own.bind,
      `dial-${own.tag}`,
      `serp-${own.tag}`,
      "sallyport ",
    ];
    expect(foreign.filter((each) => unhosted.text.includes(each))).toEqual([]);
  });

  it("learns which of the two router policies is missing", async () => {
    await c.admin("DELETE", `/edge-router-policies/${own.identityRouters}`);
    expect((await ask(own.web)).json.data.firstProblem.code).toBe("NO_EDGE_ROUTER_POLICY");
    await c.make("edge-router-policies", {
      ...{ name: `again-${own.tag}`, semantic: "AnyOf", identityRoles: ["#all"], edgeRouterRoles: ["#all"] },
    });
    await c.admin("DELETE", `/service-edge-router-policies/${own.serviceRouters}`);
    expect((await ask(own.web)).json.data.firstProblem.code).toBe("NO_SERVICE_EDGE_ROUTER_POLICY");
  });

  it("is told the same of a service that it may not see as of one that does not exist", async () => {
    await c.admin("DELETE", `/service-policies/${own.dial}`);
    const told = async (service: string) => {
      const { status, json } = await ask(service);
      const { requestId: _, ...error } = json.error;
      return { status, error: JSON.parse(JSON.stringify(error).replaceAll(service, "SERVICE")) };
    };
    const unknown = await told("nothing-of-that-name");
    expect(unknown.status).toBe(404);
    expect(await told(own.web)).toEqual(unknown);
    expect(await told(`web-${own.tag}`)).toEqual(unknown);
  });

  it("is judged by the API session that asks", async () => {
    await c.make("posture-checks", { name: `mfa-${own.tag}`, typeId: "MFA", roleAttributes: [own.tag] });
    await c.admin("PATCH", `/service-policies/${own.dial}`, { postureCheckRoles: [`#${own.tag}`] });
    const passed = await c.login(`laptop-${own.tag}`, "correct horse");
    const { data: session } = (await c.call("GET", "/edge/client/v1/current-api-session", { token: passed })).json;
    await c.model.posture.passedMfa(own.laptop, session.id, c.ctx.now());
    const path = `/edge/client/v1/services/${own.web}/why`;
    expect((await c.call("GET", path, { token: passed })).json.data.allowed).toBe(true);
    expect((await why()).allowed).toBe(true);
    expect((await ask(own.web)).json.data).toMatchObject({
      ...{ allowed: false, firstProblem: { code: "POSTURE_NOT_REPORTED" } },
    });
  });

  it("needs a complete login", async () => {
    expect((await c.call("GET", `/edge/client/v1/services/${own.web}/why`)).status).toBe(401);
  });
});
