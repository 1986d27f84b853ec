import { EdgeHeader, EdgeType, Headers, lineBounds } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestKey } from "../access/testing/test-model.ts";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
let log: RecordingLogger;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  log = new RecordingLogger();
  network = await TestNetwork.create(log);
  router = await network.addRouter("r1", { edge: { maxListeners: 3, maxChannels: 2, maxWaiting: 4 } });
});

afterEach(async () => {
  for (const one of sdks.splice(0)) one.close();
  await network.close();
});

async function client(name: string): Promise<TestSdk> {
  const made = await TestSdk.connect(router.port.port, await network.client(name));
  sdks.push(made);
  return made;
}

test("an SDK has so many listeners and no more, until it gives one up; others are not concerned", async () => {
  for (let i = 1; i <= 5; i++) network.sessions.set(`bind-${i}`, { service: `s-${i}`, type: "Bind" });
  const [greedy, modest] = [await client("greedy"), await client("modest")];
  const first = await greedy.bind("bind-1");
  await greedy.bind("bind-2");
  await greedy.bind("bind-3");
  const { answer } = await greedy.requestBind("bind-4");
  expect([answer.contentType, answer.body.toString()]).toEqual([
    EdgeType.StateClosed,
    "this client has 3 listeners here, which is the most one may have",
  ]);
  await modest.bind("bind-5");
  const closed = greedy.whenStateClosed(first);
  greedy.unbind(first);
  await closed;
  await greedy.bind("bind-4");
});

test("an identity has so many listeners over all of its channels, and so many channels", async () => {
  for (let i = 1; i <= 5; i++) network.sessions.set(`bind-${i}`, { service: `s-${i}`, type: "Bind" });
  const greedy = await network.client("greedy");
  const again = async () => {
    const made = await TestSdk.connect(router.port.port, greedy);
    sdks.push(made);
    return made;
  };
  const [first, second] = [await again(), await again()];
  for (const [sdk, token] of [
    [first, "bind-1"],
    [second, "bind-2"],
    [first, "bind-3"],
  ] as const)
    await sdk.bind(token);
  const { answer } = await second.requestBind("bind-4");
  expect(answer.body.toString()).toBe("this client has 3 listeners here, which is the most one may have");
  await (await again()).channel.closed;
  expect(log.entries.at(-1)?.fields.reason).toContain("has 2 channels here");
  first.close();
  await expect.poll(() => router.edge.channels).toBe(1);
  await (await again()).bind("bind-4");
});

test("a listener whose cost changes without end asks the controller once at a time, for the newest", async () => {
  network.sessions.set("bind-1", { service: "s-1", type: "Bind" });
  const sdk = await client("alice");
  const connId = await sdk.bind("bind-1");
  const answered = Promise.withResolvers<void>();
  router.control.updateAnswered = answered.promise;
  const about = () => new Headers().setU32(EdgeHeader.ConnId, connId);
  sdk.channel.send({ contentType: EdgeType.UpdateBind, headers: about().setByte(EdgeHeader.Precedence, 2) });
  for (let cost = 0; cost < 100; cost++) {
    sdk.channel.send({ contentType: EdgeType.UpdateBind, headers: about().setU16(EdgeHeader.Cost, cost) });
  }
  // Behind the others.
  await sdk.requestBind("unknown".repeat(3_000));
  expect(router.control.updates).toMatchObject([{ precedence: 2 }]);
  answered.resolve();
  await expect.poll(() => router.control.updates.length).toBe(2);
  expect(router.control.updates[1]).toMatchObject({ cost: 99 });
});

test("a bind with a text too long to keep is refused without asking a controller", async () => {
  const sdk = await client("alice");
  network.sessions.set("bind-1", { service: "s-1", type: "Bind" });
  for (const key of [EdgeHeader.ListenerId, EdgeHeader.TerminatorIdentity, EdgeHeader.TerminatorIdentitySecret]) {
    const { answer } = await sdk.requestBind("bind-1", { headers: new Headers().set(key, Buffer.alloc(4_097)) });
    expect([answer.contentType, answer.body.toString()]).toEqual([
      EdgeType.StateClosed,
      `header ${key} is longer than 4096 bytes`,
    ]);
  }
  expect(router.edge.bindings).toBe(0);
});

const ofUnknownKey = (claims: object = {}) => new TestKey("unknown").sign({ ...claims });

test.each([
  ["a session that no controller announces", () => "unknown"],
  ["a key that no controller publishes", () => ofUnknownKey()],
])("channels that wait for %s make room for others, the oldest first", async (_name, token) => {
  const stranger = { ...(await network.client("stranger")), token: await token() };
  const waiting = [
    await TestSdk.connect(router.port.port, stranger),
    await TestSdk.connect(router.port.port, stranger),
  ];
  sdks.push(...waiting);
  const third = await TestSdk.connect(router.port.port, stranger);
  sdks.push(third);
  await waiting[0]?.channel.closed;
  expect(log.entries.at(-1)?.fields.reason).toContain("this one has waited longest");
  expect([waiting[1]?.channel.isClosed, third.channel.isClosed]).toEqual([false, false]);
});

test("what one SDK sends in headers never makes a frame that a link refuses", async () => {
  const second = await network.addRouter("r2");
  const host = await TestSdk.connect(second.port.port, await network.client("host"));
  const dialer = await client("dialer");
  sdks.push(host);
  const link = await network.link(router, second);
  network.sessions.set("bind", { service: "s", type: "Bind" });
  network.sessions.set("dial", { service: "s", type: "Dial" });
  await host.bind("bind");
  const received = Promise.withResolvers<string>();
  host.onConnection = (connection) => {
    connection.onData = (buffer, start, end) => {
      if (end > start) received.resolve(buffer.toString("utf8", start, end));
    };
  };
  const connection = await dialer.connect("dial");
  connection.send(Buffer.alloc(0), undefined, Buffer.alloc(65_500));
  const trace = new Headers()
    .setU32(EdgeHeader.ConnId, connection.connId)
    .set(EdgeHeader.TraceError, Buffer.alloc(65_500, "x"));
  dialer.channel.send({ contentType: EdgeType.TraceRouteResponse, headers: trace });
  connection.send(Buffer.from("still there"));
  expect(await Promise.race([received.promise, link.accepted.closed])).toBe("still there");
});

test("a session token of a length that none has is refused without asking a controller", async () => {
  const sdk = await client("alice");
  const byToken = await TestSdk.connect(router.port.port, await network.tokenClient("bob"));
  sdks.push(byToken);
  const token = "x".repeat(100_000);
  for (const request of [sdk.requestConnect(token), sdk.requestBind(token), byToken.requestConnect(token)]) {
    const { answer } = await request;
    expect([answer.contentType, answer.body.toString()]).toEqual([EdgeType.StateClosed, "Invalid Session"]);
  }
  expect(router.edge.bindings).toBe(0);
});

test("clients that are not admitted, with access tokens of every kind, leave a few lines in the log, and nothing of the tokens", async () => {
  const { identity, claims, token } = await network.tokenClient("alice");
  const [head = "", body = "", signature = ""] = token.split(".");
  const secret = "f00d".repeat(20);
  const long = `ey${"A".repeat(15_900)}`;
  const tokens = [
    `ey${secret}`,
    long,
    `${long.slice(0, 15_000)}.e30.${secret}`,
    `${head}.${Buffer.from(JSON.stringify({ ...claims, sub: secret })).toString("base64url")}.${signature}`,
    `${Buffer.from(`{"alg":"none","kid":"k1","typ":"${secret}"}`).toString("base64url")}.${body}.`,
    `${Buffer.from(`{"alg":"HS256","kid":"k1"}`).toString("base64url")}.${body}.${secret}`,
    `${Buffer.from(`{"alg":"ES256","kid":["${secret}"]}`).toString("base64url")}.${body}.${signature}`,
    await network.key.sign({ ...claims, z_t: secret }),
    await network.key.sign({ ...claims, aud: [secret] }),
    await network.key.sign({ ...claims, jti: "", sub: secret }),
  ];
  for (let i = 0; i < 60; i++) {
    const one = await TestSdk.connect(router.port.port, { identity, token: tokens[i % tokens.length] as string });
    await one.channel.closed;
  }
  expect(router.edge.channels).toBe(0);
  const lines = log.entries.filter(({ level, msg }) => level !== "debug" && msg === "SDK not admitted");
  expect(lines.length).toBeLessThanOrEqual(lineBounds.perMessage);
  const text = JSON.stringify(log.entries);
  for (const part of [secret, long.slice(0, 100), signature, body]) expect(text).not.toContain(part);
});

test("new tokens of one channel are checked one at a time", async () => {
  const alice = await network.tokenClient("alice");
  const one = await TestSdk.connect(router.port.port, alice);
  sdks.push(one);
  const update = async (token: string) =>
    one.channel.request({ contentType: EdgeType.UpdateToken, body: Buffer.from(token) });
  const waits = update(await ofUnknownKey(alice.claims)).catch(() => "gone");
  const answer = await update(alice.token);
  expect(answer.contentType).toBe(EdgeType.UpdateTokenFailure);
  expect(answer.body.toString()).toBe("code: 1, message: another token of this channel is being checked");
  expect(await waits).toBe("gone");
});

test("SDKs that are not admitted, over and over, leave a few lines in the log", async () => {
  const stranger = { ...(await network.client("stranger")), token: "" };
  for (let i = 0; i < 12; i++) await (await TestSdk.connect(router.port.port, stranger)).channel.closed;
  expect(log.entries.filter(({ level, msg }) => level !== "debug" && msg === "SDK not admitted")).toHaveLength(
    lineBounds.perReason,
  );
});
