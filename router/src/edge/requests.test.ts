import {
  BaseHeader,
  BaseType,
  dialUnderlay,
  EdgeHeader,
  EdgeType,
  FaultSubject,
  Headers,
  type Message,
  PeerData,
  TerminatorResult,
} from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
let sdk: TestSdk;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  router = await network.addRouter("r1", { edge: { lookupApiSessionTimeoutMs: 200 } });
  sdk = await client("alice");
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

async function refusal(request: Promise<{ connId: number; answer: Message }>): Promise<string> {
  const { connId, answer } = await request;
  expect(answer.contentType).toBe(EdgeType.StateClosed);
  expect(answer.headers.getU32(EdgeHeader.ConnId)).toBe(connId);
  return answer.body.toString();
}

test("a channel whose token is unknown is closed after the lookup time, without a message", async () => {
  const { identity } = await network.client("mallory");
  const stranger = await TestSdk.connect(router.port.port, { identity, token: "nobody" });
  await stranger.channel.closed;
  expect(stranger.messages).toEqual([]);
});

test("a certificate that is not the session's is refused", async () => {
  const { token } = await network.client("alice");
  const { identity } = await network.client("mallory");
  const thief = await TestSdk.connect(router.port.port, { identity, token });
  await thief.channel.closed;
});

test("a session that reaches the router after its SDK is waited for", async () => {
  const patient = await network.addRouter("r2", { edge: { lookupApiSessionTimeoutMs: 20_000 } });
  const late = await network.client("late");
  network.apiSessions.delete(late.token);
  const early = await TestSdk.connect(patient.port.port, late);
  sdks.push(early);
  network.apiSessions.set(late.token, late.session);
  expect(await refusal(early.requestConnect("none"))).toBe("Invalid Session");
});

test("a group of connections is one SDK, whichever of them carries a message", async () => {
  const headers = new Headers()
    .setBool(BaseHeader.IsGrouped, true)
    .setString(BaseHeader.Type, "edge.default")
    .setBool(BaseHeader.IsFirstGroupConnection, true);
  const grouped = await TestSdk.connect(router.port.port, await network.client("carol"), { headers });
  sdks.push(grouped);
  expect(grouped.channel.isGrouped).toBe(true);
  await dialUnderlay(grouped.channel, { type: "edge.control" });
  await grouped.bind(network.session("web", "Bind"));
  const accepted = Promise.withResolvers<TestConnection>();
  grouped.onConnection = (connection) => accepted.resolve(connection);
  const near = await sdk.connect(network.session("web", "Dial"));
  const far = await accepted.promise;
  near.send(Buffer.from("to a group"));
  await far.whenReceived(10);
  far.send(Buffer.from("from a group"));
  await near.whenReceived(12);
  const about = new Headers().setU32(EdgeHeader.ConnId, 1);
  const control = grouped.channel.underlays.find((underlay) => underlay.type === "edge.control");
  grouped.channel.send({ contentType: EdgeType.StateClosed, headers: about }, control);
  await expect.poll(() => router.edge.bindings).toBe(0);
});

test("dials are refused with the texts clients know", async () => {
  expect(await refusal(sdk.requestConnect("no-such-session"))).toBe("Invalid Session");
  expect(await refusal(sdk.requestConnect(network.session("web", "Bind")))).toBe("incorrect session type");
  expect(await refusal(sdk.requestConnect(network.session("web", "Dial")))).toBe("service web has no terminators");
  const removed = network.session("web", "Dial");
  router.control.removeSession(removed);
  expect(await refusal(sdk.requestConnect(removed))).toBe("Invalid Session");
  router.control.connected = false;
  expect(await refusal(sdk.requestConnect(network.session("web", "Dial")))).toBe(
    "no controller available, cannot create circuit",
  );
  expect(await refusal(sdk.requestBind(network.session("web", "Bind")))).toBe(
    "no controller available, cannot create terminator",
  );
});

test("connection id 0 is a connection like any other, and cannot be used twice", async () => {
  await sdk.bind(network.session("web", "Bind"));
  const near = await sdk.connect(network.session("web", "Dial"), { connId: 0 });
  expect(near.connId).toBe(0);
  const again = await sdk.requestConnect(network.session("web", "Dial"), { connId: 0 });
  expect(again.answer.contentType).toBe(EdgeType.StateClosed);
});

test("the dial carries what the hosting side needs and keeps the crypto method to itself", async () => {
  const hoster = await client("bob");
  const key = Buffer.alloc(32, 7);
  const bound = network.session("web", "Bind");
  const headers = new Headers()
    .set(EdgeHeader.PublicKey, key)
    .setBool(EdgeHeader.RouterProvidedConnId, true)
    .setBool(EdgeHeader.SupportsBindSuccess, true);
  const bind = await hoster.requestBind(bound, { headers });
  expect(bind.answer.headers.getBool(EdgeHeader.RouterProvidedConnId)).toBe(true);
  expect((await hoster.nextMessage()).contentType).toBe(EdgeType.BindSuccess);
  const dialed = Promise.withResolvers<Message>();
  hoster.onConnection = (_, dial) => dialed.resolve(dial);
  const { answer } = await sdk.requestConnect(network.session("web", "Dial"), {
    headers: new Headers()
      .set(EdgeHeader.PublicKey, Buffer.alloc(32, 9))
      .setString(EdgeHeader.CallerId, "alice")
      .setByte(EdgeHeader.CryptoMethod, 0)
      .setString(EdgeHeader.AppData, "{}")
      .setString(EdgeHeader.ConnectionMarker, "marker12")
      .setBool(EdgeHeader.RouterProvidedConnId, true),
  });
  expect(answer.contentType).toBe(EdgeType.StateConnected);
  expect(answer.headers.get(EdgeHeader.PublicKey)).toEqual(key);
  expect(answer.headers.getBool(EdgeHeader.RouterProvidedConnId)).toBe(true);
  const dial = await dialed.promise;
  expect(dial.body.toString()).toBe(bound);
  expect(dial.headers.getU32(EdgeHeader.ConnId)).toBe(bind.connId);
  expect(dial.headers.getU32(EdgeHeader.RouterProvidedConnId)).toBe(0x8000_0000);
  expect(dial.headers.getString(EdgeHeader.CallerId)).toBe("alice");
  expect(dial.headers.getString(EdgeHeader.AppData)).toBe("{}");
  expect(dial.headers.getString(EdgeHeader.ConnectionMarker)).toBe("marker12");
  expect(dial.headers.getString(EdgeHeader.CircuitId)).toBe(answer.headers.getString(EdgeHeader.CircuitId));
  expect(dial.headers.has(EdgeHeader.CryptoMethod)).toBe(false);
});

test("the stickiness token changes its number on the way to the controller and back", async () => {
  const seen: Buffer[] = [];
  const create = network.createCircuit.bind(network);
  network.createCircuit = async (routerId, request) => {
    seen.push(request.peerData.get(PeerData.StickinessToken) as Buffer);
    const circuit = await create(routerId, request);
    circuit.peerData.set(PeerData.StickinessToken, Buffer.from("next"));
    return circuit;
  };
  await (await client("bob")).bind(network.session("web", "Bind"));
  const { answer } = await sdk.requestConnect(network.session("web", "Dial"), {
    headers: new Headers().setString(EdgeHeader.StickinessToken, "first"),
  });
  expect(seen.map(String)).toEqual(["first"]);
  expect(answer.headers.getString(EdgeHeader.StickinessToken)).toBe("next");
});

test("a circuit that comes to be after its client gave up is taken down", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const create = network.createCircuit.bind(network);
  network.createCircuit = async (routerId, request) => {
    asked.resolve();
    await answer.promise;
    return await create(routerId, request);
  };
  await (await client("bob")).bind(network.session("web", "Bind"));
  sdk.requestConnect(network.session("web", "Dial"), { connId: 7 }).catch(() => {});
  await asked.promise;
  sdk.channel.send({ contentType: EdgeType.StateClosed, headers: new Headers().setU32(EdgeHeader.ConnId, 7) });
  // The router has read it when it answers what came behind it.
  await sdk.channel.request({ contentType: BaseType.Ping });
  answer.resolve();
  const told = () => network.faults.filter(({ subject }) => subject === FaultSubject.IngressFault);
  await expect.poll(told).toMatchObject([{ ids: [expect.any(String)] }]);
});

test("a hosting application that refuses, or vanishes during the dial, fails it with a reason", async () => {
  const hoster = await client("bob");
  const bindId = await hoster.bind(network.session("web", "Bind"));
  hoster.answerDial = { refuse: "too busy" };
  expect(await refusal(sdk.requestConnect(network.session("web", "Dial")))).toContain("too busy");
  hoster.answerDial = "silence";
  const dial = sdk.requestConnect(network.session("web", "Dial"));
  await expect.poll(() => router.forwarder.hasEgress("edge")).toBe(true);
  const unbind = new Headers().setU32(EdgeHeader.ConnId, bindId);
  setTimeout(() => hoster.channel.send({ contentType: EdgeType.StateClosed, headers: unbind }), 20);
  expect(await refusal(dial)).toContain("went away");
});

test("a client that chooses connection ids itself gets its go-ahead before data flows", async () => {
  const hoster = await client("bob");
  hoster.answerDial = "legacy";
  await hoster.bind(network.session("web", "Bind"), { routerIds: false });
  const accepted = Promise.withResolvers<TestConnection>();
  hoster.onConnection = (connection) => accepted.resolve(connection);
  const near = await sdk.connect(network.session("web", "Dial"));
  const far = await accepted.promise;
  near.send(Buffer.from("hello"));
  await far.whenReceived(5);
  far.send(Buffer.from("good day"));
  await near.whenReceived(8);
});

test("a listener that comes back over another channel keeps its terminator", async () => {
  const first = await client("bob");
  const second = await client("bob");
  const token = network.session("web", "Bind");
  const oldId = await first.bind(token, { listenerId: "L1" });
  const [terminator] = [...network.terminators.keys()];
  await second.bind(token, { listenerId: "L1" });
  expect(await first.whenStateClosed(oldId)).toContain("taken over");
  expect([...network.terminators.keys()]).toEqual([terminator]);
  first.close();
  await first.channel.closed;
  const accepted = Promise.withResolvers<TestConnection>();
  second.onConnection = (connection) => accepted.resolve(connection);
  await sdk.connect(network.session("web", "Dial"));
  await accepted.promise;
  expect(router.control.removedTerminators).toEqual([]);
});

test("a dial that waits for a listener goes on to the one that takes it over, whose terminator does not count as gone", async () => {
  const first = await client("bob");
  const second = await client("bob");
  const token = network.session("web", "Bind");
  first.answerDial = "silence";
  await first.bind(token, { listenerId: "L1" });
  const dial = sdk.connect(network.session("web", "Dial"));
  await expect.poll(() => [...router.forwarder.ends()].length).toBeGreaterThan(0);
  const accepted = Promise.withResolvers<TestConnection>();
  second.onConnection = (connection) => accepted.resolve(connection);
  await second.bind(token, { listenerId: "L1" });
  (await dial).send(Buffer.from("hello"));
  await (await accepted.promise).whenReceived(5);
});

test("the same bind twice on one channel succeeds and makes one terminator", async () => {
  const hoster = await client("bob");
  const token = network.session("web", "Bind");
  await hoster.bind(token, { listenerId: "L1", connId: 9 });
  await hoster.bind(token, { listenerId: "L1", connId: 9 });
  expect(network.terminators.size).toBe(1);
  expect(hoster.closed).toEqual([]);
});

test("refused terminators end the listener with the controller's words", async () => {
  const hoster = await client("bob");
  const invalid = await hoster.requestBind("no-such-session");
  expect(await hoster.whenStateClosed(invalid.connId)).toBe("Invalid Session");
  router.control.terminatorOutcomes.push({ result: TerminatorResult.FailedOther, message: "invalid cost 70000" });
  const refused = await hoster.requestBind(network.session("web", "Bind"));
  expect(await hoster.whenStateClosed(refused.connId)).toBe("invalid cost 70000");
  const token = network.session("web", "Bind");
  const bindId = await hoster.bind(token);
  const [id] = [...network.terminators.keys()];
  router.control.loseTerminator(id as string, {
    terminatorId: id as string,
    result: TerminatorResult.FailedInvalidSession,
    message: "invalid session",
  });
  expect(await hoster.whenStateClosed(bindId)).toBe("Invalid Session");
});

test("unbind is answered, removes the terminator, and updates and health events reach the controller before", async () => {
  const hoster = await client("bob");
  const bindId = await hoster.bind(network.session("web", "Bind"));
  const about = (): Headers => new Headers().setU32(EdgeHeader.ConnId, bindId);
  hoster.channel.send({
    contentType: EdgeType.UpdateBind,
    headers: about().setU16(EdgeHeader.Cost, 12).setByte(EdgeHeader.Precedence, 2),
  });
  hoster.channel.send({ contentType: EdgeType.HealthEvent, headers: about().setBool(EdgeHeader.HealthStatus, true) });
  const answer = await hoster.channel.request({ contentType: EdgeType.Unbind, headers: about() });
  expect(answer.contentType).toBe(EdgeType.StateClosed);
  expect(router.control.updates).toMatchObject([{ cost: 12, precedence: 2 }]);
  expect(router.control.healthEvents).toMatchObject([{ checkPassed: true }]);
  expect(router.control.removedTerminators.length).toBe(1);
  expect(router.edge.bindings).toBe(0);
});

test("a removed session ends its connections and listeners, a removed API session its channel", async () => {
  const hoster = await client("bob");
  const bindToken = network.session("web", "Bind");
  const bindId = await hoster.bind(bindToken);
  const dialToken = network.session("web", "Dial");
  const near = await sdk.connect(dialToken);
  expect([...(router.control.tokens?.sessionTokens() ?? [])].sort()).toEqual([bindToken, dialToken].sort());
  router.control.removeSession(dialToken);
  expect(await near.whenClosed()).toBe("session ended");
  router.control.removeSession(bindToken);
  expect(await hoster.whenStateClosed(bindId)).toBe("session ended");
  expect(hoster.closed).toMatchObject([{}, { error: { code: 3, message: "session ended", retryHint: 2 } }]);
  // Its program is told at once, and more slowly when it tries the same again.
  const binds = [hoster.requestBind(bindToken), hoster.requestBind(bindToken)].map((bind) => refusal(bind));
  const started = performance.now();
  expect(await Promise.all(binds)).toEqual(["Invalid Session", "Invalid Session"]);
  expect(performance.now() - started).toBeGreaterThan(500);
  const session = [...network.apiSessions.values()].find((s) => s.identityId === "alice");
  router.control.removeApiSession(session as NonNullable<typeof session>);
  await sdk.channel.closed;
  await expect.poll(() => router.edge.channels).toBe(1);
  expect(router.control.online.size).toBe(1);
});

test("a lost channel ends the other side of its circuits and removes its terminators", async () => {
  const hoster = await client("bob");
  await hoster.bind(network.session("web", "Bind"));
  const near = await sdk.connect(network.session("web", "Dial"));
  hoster.close();
  expect(await near.whenClosed()).not.toBe("");
  await expect.poll(() => router.control.removedTerminators.length).toBe(1);
});

test("an unrouted circuit ends at once, or when it was quiet for the check interval", async () => {
  const hoster = await client("bob");
  await hoster.bind(network.session("web", "Bind"));
  const near = await sdk.connect(network.session("web", "Dial"));
  const [circuitId] = [...network.circuits.keys()];
  network.unroute(circuitId as string, true);
  expect(await near.whenClosed()).toContain("closed by the network");
  const second = await sdk.connect(network.session("web", "Dial"));
  const id = [...network.circuits.keys()][1] as string;
  network.unroute(id, false);
  router.forwarder.scanClosing(performance.now() + 1_000);
  expect(second.closedReason).toBeUndefined();
  router.forwarder.scanClosing(performance.now() + 60_000);
  expect(await second.whenClosed()).toContain("closed by the network");
  expect(router.forwarder.circuitIds()).toEqual([]);
});

test("trace routes are counted at every hop and answered by the last", async () => {
  const hoster = await client("bob");
  await hoster.bind(network.session("web", "Bind"));
  const accepted = Promise.withResolvers<TestConnection>();
  hoster.onConnection = (connection) => accepted.resolve(connection);
  const near = await sdk.connect(network.session("web", "Dial"));
  const ask = (hops: number): Promise<Message> =>
    sdk.channel.request({
      contentType: EdgeType.TraceRoute,
      headers: new Headers()
        .setU32(EdgeHeader.ConnId, near.connId)
        .setU32(EdgeHeader.TraceHopCount, hops)
        .setU64(EdgeHeader.Timestamp, 1_700_000_000_000n),
    });
  expect((await ask(1)).headers.getString(EdgeHeader.TraceHopType)).toBe("xgress/edge");
  const second = await ask(2);
  expect(second.headers.getString(EdgeHeader.TraceHopType)).toBe("xgress/edge");
  expect(second.headers.getU64(EdgeHeader.Timestamp)).toBe(1_700_000_000_000n);
});

test("the controller's question about a terminator is answered from the table, or by the client itself", async () => {
  const hoster = await client("bob");
  const headers = new Headers().setBool(EdgeHeader.SupportsInspect, true).setBool(EdgeHeader.SupportsBindSuccess, true);
  await hoster.requestBind(network.session("web", "Bind"), { headers });
  await hoster.nextMessage();
  const [id] = [...network.terminators.keys()];
  const validate = router.control.validators.get("edge") as NonNullable<
    ReturnType<typeof router.control.validators.get>
  >;
  const query = { id: id as string, binding: "edge", address: id as string };
  hoster.channel.handle(EdgeType.ConnInspectRequest, (message) => {
    const answer = new Headers().setU32(EdgeHeader.ConnId, 1).setByte(EdgeHeader.ConnType, 2);
    hoster.channel.reply(message, { contentType: EdgeType.ConnInspectResponse, headers: answer });
  });
  expect(await validate(query, false)).toMatchObject({ valid: true });
  expect(await validate({ ...query, address: "other" }, false)).toMatchObject({ valid: false, reason: 1 });
  hoster.channel.handle(EdgeType.ConnInspectRequest, (message) => {
    const answer = new Headers().setU32(EdgeHeader.ConnId, 1).setByte(EdgeHeader.ConnType, 0);
    hoster.channel.reply(message, { contentType: EdgeType.ConnInspectResponse, headers: answer });
  });
  expect(await validate(query, true)).toMatchObject({ valid: false, reason: 1 });
  expect(router.edge.bindings).toBe(0);
});
