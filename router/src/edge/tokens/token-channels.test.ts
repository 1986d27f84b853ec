import { MAX_POSTURE_BYTES } from "@sallyport/posture";
import {
  EdgeHeader,
  EdgeType,
  Headers,
  hasCapability,
  type Message,
  RouterCapability,
  TerminatorResult,
} from "@sallyport/wire";
import { expect, test } from "vitest";
import { check, identity, member, revocation, TestKey } from "../../access/testing/test-model.ts";
import { routerPerTest } from "../../testing/router-per-test.ts";
import type { TestNetwork, TestRouter, TokenClient } from "../../testing/test-network.ts";
import { type StructuredError, structuredError, type TestConnection, type TestSdk } from "../../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
const connected = routerPerTest(
  (...started) => {
    [network, router] = started;
  },
  { lookupApiSessionTimeoutMs: 200 },
);

/** What a refusal says to programs. */
async function refusal(request: Promise<{ answer: Message }>): Promise<StructuredError | undefined> {
  const { answer } = await request;
  expect(answer.contentType).toBe(EdgeType.StateClosed);
  return structuredError(answer);
}

/** A host of `web`, and a client that may dial it. */
async function pair() {
  const [alice, bob] = [await network.tokenClient("alice"), await network.tokenClient("bob")];
  await network.grant("web", "Dial", "alice");
  await network.grant("web", "Bind", "bob");
  const [near, far] = [await connected(alice), await connected(bob)];
  const bindToken = await network.serviceToken(bob, "web", "Bind");
  const bindId = await far.bind(bindToken, { listenerId: "l1" });
  const accepted = Promise.withResolvers<{ connection: TestConnection; dial: Message }>();
  far.onConnection = (connection, dial) => accepted.resolve({ connection, dial });
  return { alice, bob, near, far, bindId, bindToken, accepted: accepted.promise };
}

test("a dial between two bearers of access tokens: the host learns who dials", async () => {
  const { alice, near, accepted } = await pair();
  const connection = await near.connect(await network.serviceToken(alice, "web", "Dial"));
  const { connection: other, dial } = await accepted;
  expect(dial.headers.getString(EdgeHeader.DialerIdentityId)).toBe("alice");
  expect(dial.headers.getString(EdgeHeader.DialerIdentityName)).toBe("name of alice");
  connection.send(Buffer.from("hello"));
  await other.whenReceived(5);
});

test("a router says what it can do, and only what it can do now", async () => {
  const mask = (sdk: TestSdk) => sdk.channel.result.get(EdgeHeader.RouterCapabilities);
  const client = await network.tokenClient("alice");
  const all = await connected(client);
  expect(mask(all)?.toString("hex")).toBe("76");
  expect(all.channel.result.getBool(EdgeHeader.SupportsPostureChecks)).toBe(true);
  router.control.takesServiceCircuits = false;
  expect(hasCapability(mask(await connected(client)), RouterCapability.ConnectV2)).toBe(false);
  router.control.takesServiceCircuits = true;
  network.model.hasModel = false;
  // Its token is good only because a data model is here when it is admitted.
  expect(mask(await connected(client))?.toString("hex")).toBe("76");
  const none = await connected(await network.client("dave"));
  expect(mask(none)?.toString("hex")).toBe("42");
  expect(none.channel.result.has(EdgeHeader.SupportsPostureChecks)).toBe(false);
});

test.each<[string, (client: TokenClient) => Promise<Pick<TokenClient, "identity" | "token">>]>([
  [
    "of another key",
    async ({ identity: own, claims }) => ({ identity: own, token: await new TestKey("k2").sign(claims) }),
  ],
  [
    "that expired",
    async ({ identity: own, claims }) => ({
      identity: own,
      token: await network.key.sign({ ...claims, exp: Math.floor(Date.now() / 1000) - 31 }),
    }),
  ],
  [
    "for another purpose",
    async ({ identity: own, claims }) => ({
      identity: own,
      token: await network.key.sign({ ...claims, z_t: "r" }),
    }),
  ],
  ["with another certificate", async ({ token }) => ({ identity: await network.authority.identity("mallory"), token })],
  [
    "of a revoked session",
    async (client) => {
      await network.model.put(revocation("s-alice", "API_SESSION", Date.now() + 60_000));
      return client;
    },
  ],
  [
    "of a disabled identity",
    async (client) => {
      await network.model.put(identity("alice", true));
      return client;
    },
  ],
])("an access token %s opens no channel, and no message says why", async (_name, spoil) => {
  const sdk = await connected(await spoil(await network.tokenClient("alice")));
  await sdk.channel.closed;
  expect(sdk.messages).toEqual([]);
  expect(router.edge.channels).toBe(0);
});

test("a service token is good for its own session, service and purpose only", async () => {
  const { alice, bob, near } = await pair();
  await network.grant("other", "Dial", "bob");
  const dial = async (token: string) => refusal(near.requestConnect(token));
  const bind = async (token: string) => refusal(near.requestBind(token));
  const answers = await Promise.all([
    dial(await network.serviceToken(bob, "web", "Dial")),
    dial(await network.serviceToken(alice, "web", "Bind")),
    dial(network.session("web", "Dial")),
    dial(await network.serviceToken(alice, "other", "Dial")),
    bind(await network.serviceToken(alice, "web", "Bind")),
    bind("web"),
  ]);
  expect(answers).toMatchObject([
    { code: 3, message: "Invalid Session", retryHint: 2 },
    { code: 4 },
    { code: 6, message: "service not found", retryHint: 3 },
    { code: 14, retryHint: 2 },
    { code: 14 },
    { code: 3 },
  ]);
});

test("a policy that comes just after the dial still counts", async () => {
  await pair();
  const carol = await network.tokenClient("carol");
  const late = await connected(carol);
  const dial = late.connect(await network.serviceToken(carol, "web", "Dial"));
  await network.model.put(member("Dial-web", "identity", ["carol"]));
  await dial;
});

test("circuits and listeners end with the access that they exist by, the channel stays", async () => {
  const { alice, near, far, bindId, accepted } = await pair();
  const connection = await near.connect(await network.serviceToken(alice, "web", "Dial"));
  const { connection: other } = await accepted;
  await network.model.put(member("Dial-web", "identity", ["alice"], false));
  expect(await connection.whenClosed()).toBe("access denied: no policy grants it");
  expect(near.closed).toMatchObject([{ error: { code: 14, retryHint: 2 } }]);
  await other.whenClosed();
  await network.model.put(member("Bind-web", "identity", ["bob"], false));
  expect(await far.whenStateClosed(bindId)).toBe("access denied: no policy grants it");
  expect(router.edge.bindings).toBe(0);
  expect(router.edge.channels).toBe(2);
});

test.each<[string, () => Promise<void>]>([
  ["the token is revoked", async () => network.model.put(revocation("j", "JTI", Date.now() + 60_000))],
  ["the session is revoked", async () => network.model.put(revocation("s-alice", "API_SESSION", Date.now() + 60_000))],
  [
    "the identity is revoked",
    async () => network.model.put(revocation("alice", "IDENTITY", Date.now() + 60_000, Date.now() + 1_000)),
  ],
  ["the identity is disabled", async () => network.model.put(identity("alice", true))],
  ["the identity is deleted", async () => network.model.remove(identity("alice"))],
])("the channel ends when %s", async (_name, end) => {
  const sdk = await connected(await network.tokenClient("alice", { jti: "j" }));
  await expect.poll(() => router.edge.channels).toBe(1);
  await end();
  await sdk.channel.closed;
});

test("the channel ends with its token", async () => {
  const sdk = await connected(await network.tokenClient("alice", { exp: Math.floor(Date.now() / 1000) - 29 }));
  await sdk.channel.closed;
});

const update = (sdk: TestSdk, token: string) =>
  sdk.channel.request({ contentType: EdgeType.UpdateToken, body: Buffer.from(token) });

test("a new token takes the place of the old one on every channel of the session, and terminators are kept by it", async () => {
  const { bob, far, bindToken } = await pair();
  const second = await connected(bob);
  await expect.poll(() => router.edge.channels).toBe(3);
  const next = await network.key.sign({ ...bob.claims, jti: "next" });
  const answer = await update(second, next);
  expect(answer.contentType).toBe(EdgeType.UpdateTokenSuccess);
  expect([...answer.headers.entries()].map(([key]) => key)).toEqual([1]);
  expect(router.control.renewals).toMatchObject([{ sessionToken: bindToken, apiSessionToken: next }]);
  await network.model.put(revocation(String(bob.claims.jti), "JTI", Date.now() + 60_000));
  await network.model.put(revocation("next", "JTI", Date.now() + 60_000));
  await Promise.all([far.channel.closed, second.channel.closed]);
});

test.each<[string, number, string, (client: TokenClient) => Promise<string> | string]>([
  ["no token", 2, "invalid token, could not be parsed", () => "no token"],
  ["a token of another key", 2, "invalid token, invalid signature", ({ claims }) => new TestKey("k2").sign(claims)],
  ["a refresh token", 2, "invalid token, invalid signature", ({ claims }) => network.key.sign({ ...claims, z_t: "r" })],
  ["an expired token", 2, "invalid token, invalid signature", ({ claims }) => network.key.sign({ ...claims, exp: 1 })],
  [
    "a token of another session",
    2,
    "invalid token, API session id does not match",
    ({ claims }) => network.key.sign({ ...claims, z_asid: "other" }),
  ],
])("%s does not refresh a channel, and ends it", async (_name, code, text, make) => {
  const client = await network.tokenClient("alice");
  const sdk = await connected(client);
  const answer = await update(sdk, await make(client));
  expect(answer.contentType).toBe(EdgeType.UpdateTokenFailure);
  expect(structuredError(answer)).toEqual({ message: text, code, retryHint: 2 });
  expect(answer.body.toString()).toBe(`code: ${code}, message: ${text}`);
  await sdk.channel.closed;
});

test("a channel without an access token cannot get one", async () => {
  const sdk = await connected(await network.client("alice"));
  const answer = await update(sdk, (await network.tokenClient("alice")).token);
  expect(structuredError(answer)).toMatchObject({ code: 12 });
  await sdk.channel.closed;
});

test.each([
  ["id", "web", false],
  ["name", "name of web", true],
])("a dial by the %s of a service needs no session", async (_name, service, byName) => {
  const { alice, near, accepted } = await pair();
  const headers = new Headers().setString(EdgeHeader.CallerId, "me").setByte(EdgeHeader.CryptoMethod, 0);
  const connection = await near.connectService(service, { byName, headers });
  const { dial, connection: other } = await accepted;
  expect(dial.headers.getString(EdgeHeader.CallerId)).toBe("me");
  expect(dial.headers.getString(EdgeHeader.DialerIdentityId)).toBe("alice");
  expect(dial.headers.has(EdgeHeader.CryptoMethod)).toBe(false);
  const { token: apiSessionToken, identity: certificate } = alice;
  const fingerprints = expect.arrayContaining([certificate.leafFingerprint]);
  expect(router.control.serviceDials).toMatchObject([
    { serviceId: "web", identityId: "alice", apiSessionToken, fingerprints },
  ]);
  other.send(Buffer.from("hello"));
  await connection.whenReceived(5);
  await network.model.put(member("Dial-web", "identity", ["alice"], false));
  await connection.whenClosed();
});

test("Connect may name a service instead of a token", async () => {
  const { near } = await pair();
  await near.connect("web");
  expect(router.control.serviceDials).toMatchObject([{ serviceId: "web" }]);
});

test("dials by service are refused by code", async () => {
  const { near } = await pair();
  await network.grant("other", "Dial", "bob");
  const answers = await Promise.all([
    refusal(near.requestService("nothing", { byName: true })),
    refusal(near.requestService("name of web")),
    refusal(near.requestService("other")),
  ]);
  expect(answers).toMatchObject([{ code: 6 }, { code: 6 }, { code: 14 }]);
  expect((await near.requestService("")).answer.body.toString()).toBe("service header not set, required");
  const opaque = await connected(await network.client("dave"));
  const { answer } = await opaque.requestService("web");
  expect(answer.body.toString()).toBe("connect-v2 requires an OIDC API session");
  expect(router.control.serviceDials).toEqual([]);
});

test("access that is lost while the circuit is built ends the dial, and the circuit is taken down", async () => {
  const { near } = await pair();
  const answered = Promise.withResolvers<void>();
  router.control.circuitAnswered = answered.promise;
  const dial = refusal(near.requestService("web"));
  await expect.poll(() => network.circuits.size).toBe(1);
  await network.model.put(member("Dial-web", "identity", ["alice"], false));
  answered.resolve();
  expect(await dial).toMatchObject({ code: 14 });
  const [circuitId] = [...network.circuits.keys()];
  expect(network.faults.map(({ ids }) => ids)).toContainEqual([circuitId]);
});

test("posture decides about dials, and about circuits that are open", async () => {
  const { near } = await pair();
  await network.model.put(check("c1", { case: "domains", value: { domains: ["corp"] } }));
  await network.model.put(member("Dial-web", "check", ["c1"]));
  const failing = { code: 15, retryHint: 0, failingPostureCheckIds: ["c1"] };
  expect(await refusal(near.requestService("web"))).toMatchObject(failing);
  near.report({ type: { case: "domain", value: { name: "corp" } } });
  const connection = await near.connectService("web");
  near.channel.send({ contentType: EdgeType.PostureResponse, body: Buffer.from([0xff]) });
  near.channel.send({ contentType: EdgeType.PostureResponse, body: Buffer.alloc(MAX_POSTURE_BYTES + 1) });
  const second = await near.connectService("web");
  near.report({ type: { case: "domain", value: { name: "elsewhere" } } });
  await connection.whenClosed();
  await second.whenClosed();
  expect(near.closed.map(({ error }) => error)).toMatchObject([failing, failing]);
});

test("a circuit ends when time alone makes its posture fail", async () => {
  const { bob } = await pair();
  await network.model.put(check("mfa", { case: "mfa", value: { timeoutSeconds: 2n } }));
  await network.model.put(member("Dial-web", "check", ["mfa"]), member("Dial-web", "identity", ["bob"]));
  // Later than now counts as now.
  const passed = { amr: ["password", "totp"], auth_time: Math.ceil(Date.now() / 1000) + 5, z_asid: "another" };
  const token = await network.key.sign({ ...bob.claims, ...passed });
  const sdk = await connected({ identity: bob.identity, token });
  await (await sdk.connectService("web")).whenClosed();
  expect(sdk.closed).toMatchObject([{ error: { code: 15, failingPostureCheckIds: ["mfa"] } }]);
});

test("a refused terminator ends its listener by code", async () => {
  const { bob, far } = await pair();
  const outcome = {
    result: TerminatorResult.FailedOther,
    message: "invalid cost",
    errorCode: 10,
    retryHint: 3 as const,
  };
  router.control.terminatorOutcomes.push(outcome);
  const { connId } = await far.requestBind(await network.serviceToken(bob, "web", "Bind"));
  expect(await far.whenStateClosed(connId)).toBe("invalid cost");
  expect(far.closed).toMatchObject([{ error: { code: 10, message: "invalid cost", retryHint: 3 } }]);
});

test("a session whose removal names its id ends what its token made, also below an opaque API session", async () => {
  const { alice, near, accepted } = await pair();
  const opaque = await connected(await network.client("dave"));
  const connections = [
    await near.connect(await network.serviceToken(alice, "web", "Dial", { jti: "x1" })),
    await opaque.connect(await network.serviceToken(alice, "web", "Dial", { jti: "x2", z_leg: true })),
  ];
  await accepted;
  for (const id of ["x1", "x2"]) router.control.removeSession(id);
  for (const connection of connections) expect(await connection.whenClosed()).toBe("session ended");
});

test("so many requests of one channel may wait, dials and binds together", async () => {
  const { alice } = await pair();
  const small = await network.addRouter("r2", { edge: { maxConnecting: 2 } });
  const sdk = await connected(alice, { at: small });
  await network.grant("theirs", "Dial", "bob");
  const waiting = [
    sdk.requestService("theirs"),
    sdk.requestBind(await network.serviceToken(alice, "theirs", "Bind"), { connId: 90 }),
  ];
  for (const connId of [91, 92]) {
    const refused = connId === 91 ? sdk.requestConnect("web", { connId }) : sdk.requestBind("ey", { connId });
    expect((await refused).answer.body.toString()).toBe("2 requests of this client are waiting; try again later");
  }
  for (const request of waiting) expect(await refusal(request)).toMatchObject({ code: 14 });
});

test("what an SDK sends before its token can be verified is not lost", async () => {
  const patient = await network.addRouter("r3", { edge: { lookupApiSessionTimeoutMs: 20_000 } });
  const { claims, identity: certificate } = await network.tokenClient("alice");
  await network.grant("web", "Dial", "alice");
  await network.model.put(check("c1", { case: "domains", value: { domains: ["corp"] } }));
  await network.model.put(member("Dial-web", "check", ["c1"]));
  const late = new TestKey("late");
  const early = await connected({ identity: certificate, token: await late.sign(claims) }, { at: patient });
  early.report({ type: { case: "domain", value: { name: "corp" } } });
  const dial = early.requestService("web");
  await network.model.put(late.event);
  // It passed posture: what is missing is a host.
  expect((await dial).answer.body.toString()).toBe("service web has no terminators");
});

test("the flow control of a dial by service may be the SDK's", async () => {
  const { near } = await pair();
  const { answer } = await near.requestService("web", {
    headers: new Headers().setBool(EdgeHeader.UseXgressToSdk, true),
  });
  expect(answer.contentType).toBe(EdgeType.StateConnected);
  expect(answer.headers.getBool(EdgeHeader.UseXgressToSdk)).toBe(true);
  expect(answer.headers.getString(EdgeHeader.XgressCtrlId)).toBe("ctrl");
  expect(answer.headers.has(EdgeHeader.XgressAddress)).toBe(true);
});
