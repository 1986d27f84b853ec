/** For whom a router may ask for circuits and terminators: what it says counts only as far as a session proves it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { DenialCode } from "../../fabric/ports.ts";

let c: TestController;
let router = "";
let other = "";
let service = "";
const people = new Map<string, { id: string; token: string; session: string }>();

beforeAll(async () => {
  c = await startTestController();
  router = await c.make("edge-routers", { name: "r" });
  other = await c.make("edge-routers", { name: "other" });
  service = await c.make("services", { name: "svc", encryptionRequired: false });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", ...all, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...all, serviceRoles: ["#all"] });
  const roles = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"] };
  await c.make("service-policies", { name: "dial", type: "Dial", ...roles });
  for (const name of ["alice", "mallory"]) {
    const id = await c.make("identities", { name, type: "Default", isAdmin: false });
    await c.make("authenticators", { identityId: id, method: "updb", username: name, password: "correct horse" });
    const token = await c.login(name, "correct horse");
    const made = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId: service } });
    people.set(name, { id, token, session: made.json.data.token });
  }
});
afterAll(() => c.close());

const of = (name: string) => people.get(name)!;
const dial = (sessionToken: string, apiSessionToken = "") =>
  c.fabricModel.authorizeDial({ sessionToken, apiSessionToken, routerId: router, checksPosture: false });

describe("GHSA-7868-235p-7497: whose circuit it is follows from the session, for each circuit:", () => {
  it("a session is its owner's, whichever router presents it", async () => {
    for (const { id, session, token } of people.values()) {
      expect(await dial(session, token)).toMatchObject({ identityId: id });
      expect(await dial(session)).toMatchObject({ identityId: id });
    }
  });

  it("it counts with its own API session and with no other", async () => {
    expect(await dial(of("alice").session, of("mallory").token)).toEqual({ denied: DenialCode.InvalidApiSession });
  });

  it.each(["", "alice", "00000000-0000-4000-8000-000000000000", "' OR true --"])("%j is no session", async (token) => {
    expect(await dial(token)).toMatchObject({ denied: DenialCode.InvalidSession });
    expect(await dial(token, of("alice").token)).toMatchObject({ denied: DenialCode.InvalidSession });
  });

  it("the token of an API session is no session, nor is an id", async () => {
    const { token, id } = of("alice");
    for (const each of [token, id]) expect(await dial(each)).toMatchObject({ denied: DenialCode.InvalidSession });
  });

  it("it ends with its API session", async () => {
    const { token, session } = of("mallory");
    expect((await c.call("DELETE", "/edge/client/v1/current-api-session", { token })).status).toBe(200);
    expect(await dial(session)).toMatchObject({ denied: DenialCode.InvalidSession });
    expect(await dial(session, token)).toMatchObject({ denied: DenialCode.InvalidSession });
  });
});

describe("#4243: a token in the form of a JWT where there is none is an error:", () => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const jwt = `${part({ alg: "ES256", kid: "k" })}.${part({ sub: "alice", jti: "x", z_t: "s" })}.${"A".repeat(86)}`;

  it.each([
    ["a token", jwt],
    ["an unsigned one", `${part({ alg: "none" })}.${part({ sub: "alice" })}.`],
    ["only its beginning", "eyJhbGciOiJFUzI1NiJ9"],
    ["dots", ".."],
  ])("%s", async (_what, token) => {
    const claim = { sessionToken: token, apiSessionToken: token, routerId: router, checksPosture: false };
    expect(await c.fabricModel.authorizeDial(claim)).toMatchObject({ denied: DenialCode.InvalidSession });
    expect(await c.fabricModel.authorizeBind(claim)).toMatchObject({ denied: DenialCode.InvalidSession });
    const { session } = of("alice");
    expect(await dial(session, token)).toEqual({ denied: DenialCode.InvalidApiSession });
    expect(await c.fabricModel.touchApiSessions([token])).toEqual([token]);
    expect(await c.fabricModel.unknownSessions([token])).toMatchObject([{ token }]);
    const answer = await c.call("GET", "/edge/client/v1/current-identity", { token });
    expect(answer.status).toBe(401);
  });
});

describe("#4237: a terminator is its router's:", () => {
  it("no other one makes, changes or removes it", async () => {
    await c.make("service-policies", {
      ...{ name: "hosting", type: "Bind", semantic: "AnyOf" },
      ...{ identityRoles: [`@${of("alice").id}`], serviceRoles: [`@${service}`] },
    });
    const hosted = (routerId: string) =>
      c.fabricModel.createTerminator({
        ...{ id: "hosted", serviceId: service, routerId, binding: "edge", address: "hosted", instanceId: "" },
        ...{ cost: 0, precedence: "default", peerData: new Map(), hostId: of("alice").id },
      });
    expect(await hosted(router)).toMatchObject({ outcome: "created" });
    expect(await hosted(other)).toMatchObject({ outcome: "conflict" });
    expect(await c.fabricModel.deleteTerminators(other, ["hosted"])).toEqual([]);
    expect(await c.fabricModel.findTerminator("hosted")).toMatchObject({ routerId: router, cost: 0 });
    expect(await c.fabricModel.deleteTerminators(router, ["hosted"])).toEqual(["hosted"]);
  });
});
