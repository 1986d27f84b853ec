import { EdgeHeader, EdgeType, Headers, lineBounds } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
let log: RecordingLogger;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  log = new RecordingLogger();
  network = await TestNetwork.create(log);
  router = await network.addRouter("r1", { edge: { maxListeners: 3 } });
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

test("a session token of a length that none has is refused without asking anybody", async () => {
  const sdk = await client("alice");
  const token = "x".repeat(100_000);
  for (const { answer } of [await sdk.requestConnect(token), await sdk.requestBind(token)]) {
    expect([answer.contentType, answer.body.toString()]).toEqual([EdgeType.StateClosed, "Invalid Session"]);
  }
  expect(router.edge.bindings).toBe(0);
});

test("SDKs that are not admitted, over and over, leave a few lines in the log", async () => {
  const stranger = { ...(await network.client("stranger")), token: "" };
  for (let i = 0; i < 12; i++) await (await TestSdk.connect(router.port.port, stranger)).channel.closed;
  expect(log.entries.filter(({ level, msg }) => level !== "debug" && msg === "SDK not admitted")).toHaveLength(
    lineBounds.perReason,
  );
});
