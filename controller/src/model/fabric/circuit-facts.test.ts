import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { DenialCode } from "../../fabric/ports.ts";

let c: TestController;
let n = 0;
let router = "";
let identity = "";
let service = "";
let token = "";
let sessionToken = "";

beforeAll(async () => {
  c = await startTestController();
  router = await c.make("edge-routers", { name: "r", isTunnelerEnabled: false });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", ...all, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...all, serviceRoles: ["#all"] });
  await c.make("service-policies", {
    ...{ name: "dial", type: "Dial", semantic: "AnyOf" },
    ...{ identityRoles: ["#users"], serviceRoles: ["#all"] },
  });
});
afterAll(() => c.close());

beforeEach(async () => {
  n += 1;
  identity = await c.make("identities", { name: `i${n}`, type: "User", isAdmin: false, roleAttributes: ["users"] });
  await c.make("authenticators", { identityId: identity, method: "updb", username: `user-${n}`, password: "password" });
  service = await c.make("services", { name: `s${n}`, encryptionRequired: false });
  token = await c.login(`user-${n}`, "password");
  const answer = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId: service } });
  sessionToken = answer.json.data.token;
});

const dial = () =>
  c.fabricModel.authorizeDial({ sessionToken, apiSessionToken: "", routerId: router, checksPosture: false });

describe("a session that is in use does not expire:", () => {
  afterEach(() => {
    c.clock.offsetMs = 0;
  });
  const minutes = (n: number) => {
    c.clock.offsetMs = n * 60_000;
  };
  const use: Readonly<Record<string, () => Promise<unknown>>> = {
    dial: () => dial(),
    request: () => c.call("GET", "/edge/client/v1/current-api-session", { token }),
    "report of a router": () => c.fabricModel.touchApiSessions([token]),
  };

  it.each(Object.keys(use))("a dial right after the activity of a %s was written is granted", async (kind) => {
    expect(await dial()).toMatchObject({ identityId: identity });
    minutes(29);
    await use[kind]?.();
    await c.model.apiSessions.sweep();
    minutes(31);
    expect(await dial()).toMatchObject({ identityId: identity });
    await c.model.apiSessions.sweep();
    minutes(60);
    expect(await dial()).toMatchObject({ identityId: identity });
    expect((await c.call("GET", "/edge/client/v1/current-api-session", { token })).status).toBe(200);
  });

  it("one that is not has come to its end", async () => {
    expect(await dial()).toMatchObject({ identityId: identity });
    await c.model.apiSessions.flush();
    minutes(31);
    expect(await dial()).toMatchObject({ denied: DenialCode.InvalidApiSession });
    await c.model.apiSessions.sweep();
    expect(await dial()).toMatchObject({ denied: DenialCode.InvalidSession });
  });
});

describe("what is kept about a session does not outlive it: right after", () => {
  it.each<[string, () => Promise<unknown>, number]>([
    [
      "its owner has logged out",
      () => c.call("DELETE", "/edge/client/v1/current-api-session", { token }),
      DenialCode.InvalidSession,
    ],
    ["its identity was deleted", () => c.admin("DELETE", `/identities/${identity}`), DenialCode.InvalidSession],
    ["its service was deleted", () => c.admin("DELETE", `/services/${service}`), DenialCode.InvalidSession],
    [
      "its identity lost the attribute",
      () => c.admin("PATCH", `/identities/${identity}`, { roleAttributes: [] }),
      DenialCode.InvalidSession,
    ],
    [
      "its identity was disabled",
      () => c.admin("POST", `/identities/${identity}/disable`, { durationMinutes: 1 }),
      DenialCode.InvalidSession,
    ],
  ])("%s", async (_, takeAway, code) => {
    for (let again = 0; again < 2; again++) expect(await dial()).toMatchObject({ identityId: identity });
    await takeAway();
    expect(await dial()).toMatchObject({ denied: code });
  });

  it("and its service counts as it is now", async () => {
    expect(await dial()).toMatchObject({ service: { terminatorStrategy: "smartrouting", maxIdleTimeMs: 0 } });
    await c.admin("PATCH", `/services/${service}`, { terminatorStrategy: "sticky", maxIdleTimeMillis: 9 });
    expect(await dial()).toMatchObject({ service: { terminatorStrategy: "sticky", maxIdleTimeMs: 9 } });
  });
});

it("terminators count as they are now, whichever process changed them", async () => {
  const terminators = async () => {
    await dial();
    const found = await c.fabricModel.terminatorsOfService(service);
    return found.map(({ id, cost, precedence }) => ({ id, cost, precedence }));
  };
  expect(await terminators()).toEqual([]);
  await c.make("service-policies", {
    ...{ name: `bind ${n}`, type: "Bind", semantic: "AnyOf" },
    ...{ identityRoles: [`@${identity}`], serviceRoles: [`@${service}`] },
  });
  const plain = { serviceId: service, routerId: router, binding: "edge", instanceId: "", hostId: identity };
  const made = { ...plain, id: `t${n}`, address: "a", cost: 1, precedence: "default", peerData: new Map() } as const;
  await c.fabricModel.createTerminator(made);
  expect(await terminators()).toEqual([{ id: `t${n}`, cost: 1, precedence: "default" }]);
  await c.admin("PATCH", `/terminators/t${n}`, { cost: 7 });
  expect(await terminators()).toEqual([{ id: `t${n}`, cost: 7, precedence: "default" }]);
  await c.fabricModel.quiesceRouter(router);
  expect(await terminators()).toEqual([{ id: `t${n}`, cost: 7, precedence: "failed" }]);
  await c.fabricModel.dequiesceRouter(router);
  // A failed attempt asks again without waiting for the change log.
  await c.fabricModel.updateTerminator(`t${n}`, { precedence: "failed" });
  expect(await c.fabricModel.terminatorsOfService(service)).toMatchObject([{ precedence: "failed" }]);
  // One that its router asked for again has another version, which the change log does not tell: the first repair leaves it, the next one knows.
  const [kept] = await c.fabricModel.terminatorsOfService(service);
  await sql`UPDATE terminator SET cost = cost WHERE id = ${`t${n}`}`.execute(c.ctx.store.db);
  expect(await c.fabricModel.updateTerminator(`t${n}`, { precedence: "default" }, kept!.version)).toBe(false);
  const [now] = await c.fabricModel.terminatorsOfService(service);
  expect(await c.fabricModel.deleteUnchanged(router, [kept!])).toEqual([]);
  expect(await c.fabricModel.deleteUnchanged(router, [now!])).toEqual([`t${n}`]);
  expect(await c.fabricModel.terminatorsOfService(service)).toEqual([]);
});
