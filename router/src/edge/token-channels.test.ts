import { EdgeHeader, EdgeType, Headers, hasCapability, type Message, RouterCapability } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { identity, member, revocation, TestKey } from "../access/testing/test-model.ts";
import { TestNetwork, type TestRouter, type TokenClient } from "../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  router = await network.addRouter("r1", { edge: { lookupApiSessionTimeoutMs: 200 } });
});

afterEach(async () => {
  for (const one of sdks.splice(0)) one.close();
  await network.close();
});

async function connected(client: Pick<TokenClient, "identity" | "token">): Promise<TestSdk> {
  const sdk = await TestSdk.connect(router.port.port, client);
  sdks.push(sdk);
  return sdk;
}

/** What a refusal says to programs. */
function structured({ headers }: Message): { code: number; retryHint: number; failingPostureCheckIds?: string[] } {
  const error = JSON.parse(headers.getString(EdgeHeader.StructuredError) ?? "{}");
  expect(error).not.toHaveProperty("cause");
  expect(headers.getU32(EdgeHeader.ErrorCode)).toBe(error.code);
  return error;
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
  expect(mask(all)?.toString("hex")).toBe("66");
  expect(all.channel.result.getBool(EdgeHeader.SupportsPostureChecks)).toBe(true);
  router.control.takesServiceCircuits = false;
  expect(hasCapability(mask(await connected(client)), RouterCapability.ConnectV2)).toBe(false);
  network.model.hasModel = false;
  const none = await connected(client);
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
  const refusal = async (token: string) => structured((await near.requestConnect(token)).answer);
  expect(await refusal(await network.serviceToken(bob, "web", "Dial"))).toMatchObject({ code: 3, retryHint: 2 });
  expect(await refusal(await network.serviceToken(alice, "web", "Bind"))).toMatchObject({ code: 4 });
  expect(await refusal(network.session("web", "Dial"))).toMatchObject({ code: 6 });
  await network.grant("other", "Dial", "bob");
  expect(await refusal(await network.serviceToken(alice, "other", "Dial"))).toMatchObject({ code: 14, retryHint: 3 });
  const bound = await near.requestBind(await network.serviceToken(alice, "web", "Bind"));
  expect(structured(bound.answer)).toMatchObject({ code: 14 });
  expect(structured((await near.requestBind("web")).answer)).toMatchObject({ code: 3 });
});

test("a policy that comes just after the dial still counts", async () => {
  const { near, bob, far } = await pair();
  await far.bind(await network.serviceToken(bob, "web", "Bind"), { listenerId: "l1", connId: 77 }).catch(() => {});
  const carol = await network.tokenClient("carol");
  const late = await connected(carol);
  const dial = late.connect(await network.serviceToken(carol, "web", "Dial"));
  await network.model.put(member("Dial-web", "identity", ["carol"]));
  await dial;
  expect(near.closed).toEqual([]);
});

test("circuits and listeners end with the access that they exist by, the channel stays", async () => {
  const { alice, near, far, bindId, accepted } = await pair();
  const connection = await near.connect(await network.serviceToken(alice, "web", "Dial"));
  const { connection: other } = await accepted;
  await network.model.remove(member("Dial-web", "identity", ["alice"], true));
  await network.model.put(member("Dial-web", "identity", ["alice"], false));
  expect(await connection.whenClosed()).toBe("access denied: no policy grants it");
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
  expect(structured(answer)).toEqual({ message: text, code, retryHint: 2 });
  expect(answer.body.toString()).toBe(`code: ${code}, message: ${text}`);
  await sdk.channel.closed;
});

test("a channel without an access token cannot get one", async () => {
  const sdk = await connected(await network.client("alice"));
  const answer = await update(sdk, (await network.tokenClient("alice")).token);
  expect(structured(answer)).toMatchObject({ code: 12 });
  await sdk.channel.closed;
});

function byService(sdk: TestSdk, connId: number, headers: Headers): Promise<Message> {
  return sdk.channel.request({ contentType: EdgeType.ConnectV2, headers: headers.setU32(EdgeHeader.ConnId, connId) });
}

test.each<[string, Headers]>([
  ["id", new Headers().setString(EdgeHeader.ServiceId, "web")],
  ["name", new Headers().setString(EdgeHeader.ServiceId, "name of web").setByte(EdgeHeader.ServiceIdentifierType, 1)],
])("a dial by the %s of a service needs no session", async (_name, headers) => {
  const { alice, near, accepted } = await pair();
  const answer = await byService(near, 5, headers.setString(EdgeHeader.CallerId, "me"));
  expect(answer.contentType).toBe(EdgeType.StateConnected);
  expect((await accepted).dial.headers.getString(EdgeHeader.CallerId)).toBe("me");
  expect(router.control.serviceDials).toMatchObject([
    {
      serviceId: "web",
      identityId: "alice",
      apiSessionToken: alice.token,
      fingerprints: expect.arrayContaining([alice.identity.leafFingerprint]),
    },
  ]);
});

test("dials by service are refused by code", async () => {
  const { near } = await pair();
  const wanted = (id: string, type = 0) =>
    new Headers().setString(EdgeHeader.ServiceId, id).setByte(EdgeHeader.ServiceIdentifierType, type);
  expect((await byService(near, 1, new Headers())).body.toString()).toBe("service header not set, required");
  expect(structured(await byService(near, 2, wanted("nothing", 1)))).toMatchObject({ code: 6 });
  expect(structured(await byService(near, 3, wanted("name of web", 0)))).toMatchObject({ code: 6 });
  await network.grant("other", "Dial", "bob");
  expect(structured(await byService(near, 4, wanted("other")))).toMatchObject({ code: 14 });
  const opaque = await connected(await network.client("dave"));
  const answer = await byService(opaque, 1, wanted("web"));
  expect(answer.body.toString()).toBe("connect-v2 requires an OIDC API session");
});
