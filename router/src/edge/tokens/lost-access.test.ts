import {
  BaseHeader,
  type Channel,
  dialUnderlay,
  EdgeHeader,
  EdgeType,
  Headers,
  type Message,
  type Underlay,
} from "@sallyport/wire";
import { expect, test } from "vitest";
import { check, identity, member, revocation } from "../../access/testing/test-model.ts";
import { routerPerTest } from "../../testing/router-per-test.ts";
import type { TestNetwork, TestRouter, TokenClient } from "../../testing/test-network.ts";
import { structuredError, type TestConnection, type TestSdk } from "../../testing/test-sdk.ts";

/** What bearers of access tokens lose at a router while they use it, and what stays (docs/protocol/edge.md, "Access tokens"). */

let network: TestNetwork;
let router: TestRouter;
const connected = routerPerTest(
  (...started) => {
    [network, router] = started;
  },
  { lookupApiSessionTimeoutMs: 200 },
);

const withFlowControl = (bySdk: boolean): Headers =>
  bySdk ? new Headers().setBool(EdgeHeader.UseXgressToSdk, true) : new Headers();

/** A host of `web` and two clients of it, each with a circuit. */
async function circuits(bySdk: boolean) {
  const clients = await Promise.all(["alice", "carol", "bob"].map((name) => network.tokenClient(name)));
  const [alice, carol, bob] = clients as [TokenClient, TokenClient, TokenClient];
  await network.grant("web", "Dial", "alice", "carol");
  await network.grant("web", "Bind", "bob");
  const [near, other, far] = [await connected(alice), await connected(carol), await connected(bob)];
  const headers = withFlowControl(bySdk).setBool(EdgeHeader.RouterProvidedConnId, true);
  const { connId: bindId } = await far.requestBind(await network.serviceToken(bob, "web", "Bind"), { headers });
  await expect.poll(() => network.terminators.size).toBe(1);
  const dialled = async (sdk: TestSdk) => {
    const { answer, connId } = await sdk.requestService("web", { headers: withFlowControl(bySdk) });
    expect(answer.contentType).toBe(EdgeType.StateConnected);
    return sdk.connections.get(connId) as TestConnection;
  };
  const circuit = await dialled(near);
  return { alice, bob, near, other, far, bindId, circuit, otherCircuit: await dialled(other) };
}

type Way = "policy" | "posture";

/** Takes access away; without a report of the device no check passes. */
async function takeAway(policyId: string, who: string, way: Way): Promise<{ code: number; retryHint: number }> {
  if (way === "policy") {
    await network.model.put(member(policyId, "identity", [who], false));
    return { code: 14, retryHint: 2 };
  }
  await network.model.put(check("c1", { case: "domains", value: { domains: ["corp"] } }));
  await network.model.put(member(policyId, "check", ["c1"]));
  return { code: 15, retryHint: 0 };
}

const WAYS: [Way, string, boolean][] = [
  ["policy", "the router", false],
  ["policy", "the SDK", true],
  ["posture", "the router", false],
  ["posture", "the SDK", true],
];

test.each(WAYS)(
  "a dialler that loses access by %s loses its circuit, with flow control by %s",
  async (way, _, bySdk) => {
    const { near, other, far, circuit, otherCircuit } = await circuits(bySdk);
    if (way === "posture") {
      // The other one's device is as it should be.
      other.report({ type: { case: "domain", value: { name: "corp" } } });
      // Once this is answered the router has the report.
      const headers = new Headers().setU32(EdgeHeader.ConnId, otherCircuit.connId);
      await other.channel.request({ contentType: EdgeType.ConnInspectRequest, headers });
    }
    const expected = await takeAway("Dial-web", "alice", way);
    await circuit.whenClosed();
    expect(near.closed).toMatchObject([{ connId: circuit.connId, error: expected }]);
    await expect
      .poll(() => [...far.connections.values()].filter((each) => each.closedReason === undefined))
      .toHaveLength(1);
    expect(otherCircuit.closedReason).toBeUndefined();
    expect(router.edge.bindings).toBe(1);
    expect(router.edge.channels).toBe(3);
  },
);

test.each(WAYS)(
  "a host that loses access by %s loses listener and circuits, with flow control by %s",
  async (way, _, bySdk) => {
    const { far, bindId, circuit, otherCircuit } = await circuits(bySdk);
    const expected = await takeAway("Bind-web", "bob", way);
    await Promise.all([circuit.whenClosed(), otherCircuit.whenClosed()]);
    await far.whenStateClosed(bindId);
    await expect.poll(() => far.closed).toHaveLength(3);
    for (const { error } of far.closed) expect(error).toMatchObject(expected);
    expect(router.edge.bindings).toBe(0);
    expect(network.terminators.size).toBe(0);
    expect(router.edge.channels).toBe(3);
  },
);

test.each<[string, (client: TokenClient) => Promise<void>]>([
  ["its token is revoked", ({ claims }) => network.model.put(revocation(`${claims.jti}`, "JTI", Date.now() + 60_000))],
  ["its session is revoked", () => network.model.put(revocation("s-alice", "API_SESSION", Date.now() + 60_000))],
  ["its identity is disabled", () => network.model.put(identity("alice", true))],
])("a dial that is on its way when %s ends, and its circuit is taken down", async (_name, end) => {
  const { alice, near, far } = await circuits(false);
  const known = new Set(network.circuits.keys());
  const answered = Promise.withResolvers<void>();
  router.control.circuitAnswered = answered.promise;
  const dial = near.requestService("web").catch((error: unknown) => error);
  await expect.poll(() => network.circuits.size).toBe(known.size + 1);
  await end(alice);
  await near.channel.closed;
  answered.resolve();
  expect(await dial).toBeInstanceOf(Error);
  const made = [...network.circuits.keys()].find((id) => !known.has(id));
  await expect.poll(() => network.faults.map(({ ids }) => ids)).toContainEqual([made]);
  // Its host, which has accepted it already, learns it without them.
  await expect.poll(() => far.connections.size).toBe(1);
});

test("a bind that waits for a policy ends with its channel, and no terminator is made", async () => {
  const dave = await network.tokenClient("dave");
  await network.grant("web", "Bind", "bob");
  const sdk = await connected(dave);
  const bind = sdk.requestBind(await network.serviceToken(dave, "web", "Bind")).catch((error: unknown) => error);
  await expect.poll(() => router.edge.channels).toBe(1);
  await network.model.put(revocation("s-dave", "API_SESSION", Date.now() + 60_000));
  expect(await bind).toBeInstanceOf(Error);
  await network.model.put(member("Bind-web", "identity", ["dave"]));
  const other = await connected(await network.tokenClient("dave", { z_asid: "later" }));
  // Behind whatever the policy could have set free.
  await other.requestService("none", { byName: true });
  expect(router.edge.bindings).toBe(0);
  expect(network.terminators.size).toBe(0);
});

test("channels of the same identity with an opaque session are left alone by tokens, and by what ends them", async () => {
  const alice = await network.tokenClient("alice");
  await network.grant("web", "Bind", "bob");
  const opaque = await network.client("alice");
  const [byToken, byRecord] = [await connected(alice), await connected(opaque)];
  const host = await connected(await network.client("bob"));
  await host.bind(network.session("web", "Bind"));
  const circuit = await byRecord.connect(network.session("web", "Dial"));
  const next = await network.key.sign({ ...alice.claims, jti: "next" });
  const updated = await byToken.channel.request({ contentType: EdgeType.UpdateToken, body: Buffer.from(next) });
  expect(updated.contentType).toBe(EdgeType.UpdateTokenSuccess);
  expect([...(router.control.tokens?.apiSessionTokens() ?? [])]).toContain(opaque.token);
  expect([...(router.control.tokens?.apiSessionTokens() ?? [])]).not.toContain(next);
  await network.model.put(revocation("alice", "IDENTITY", Date.now() + 60_000, Date.now() + 60_000));
  await byToken.channel.closed;
  // Its controller ends it, if it is to end.
  circuit.send(Buffer.from("still here"));
  await expect.poll(() => [...host.connections.values()].map(({ received }) => received)).toEqual([10]);
});

test("a refused new token ends the channel that sent it, and no other of its session", async () => {
  const alice = await network.tokenClient("alice");
  const [one, other] = [await connected(alice), await connected(alice)];
  await expect.poll(() => router.edge.channels).toBe(2);
  const answer = await one.channel.request({ contentType: EdgeType.UpdateToken, body: Buffer.from("none") });
  expect(structuredError(answer)).toMatchObject({ code: 2 });
  await one.channel.closed;
  const again = await other.channel.request({ contentType: EdgeType.UpdateToken, body: Buffer.from(alice.token) });
  expect(again.contentType).toBe(EdgeType.UpdateTokenSuccess);
});

test("a token that was issued after its identity was revoked is admitted, one of the same second is not", async () => {
  const second = Math.floor(Date.now() / 1000);
  await network.model.put(revocation("alice", "IDENTITY", Date.now() + 60_000, second * 1000));
  const late = await connected(await network.tokenClient("alice", { iat: second + 1 }));
  await expect.poll(() => router.edge.channels).toBe(1);
  const early = await connected(await network.tokenClient("alice", { iat: second }));
  await early.channel.closed;
  expect(late.channel.isClosed).toBe(false);
});

test("a device that names no times of waking and unlocking fails no router", async () => {
  const { near } = await circuits(false);
  await network.model.put(
    check("mfa", { case: "mfa", value: { timeoutSeconds: -1n, promptOnWake: true, promptOnUnlock: true } }),
  );
  await network.model.put(member("Dial-web", "check", ["mfa"]));
  near.report({ type: { case: "woken", value: {} } }, { type: { case: "unlocked", value: {} } }, {});
  const { answer } = await near.requestService("web");
  expect(structuredError(answer)).toMatchObject({ code: 15, failingPostureCheckIds: ["mfa"] });
});

/** What an SDK with several connections gets for each of its circuits, in order. */
function watched(channel: Channel): Map<number, { type: number; via: Underlay }[]> {
  const seen = new Map<number, { type: number; via: Underlay }[]>();
  const before = channel.onFrame;
  channel.onFrame = (frame, via) => {
    const b = frame.buffer;
    for (let p = frame.headersStart; p + 8 <= frame.headersEnd; p += 8 + b.readInt32LE(p + 4)) {
      if (b.readInt32LE(p) !== EdgeHeader.ConnId) continue;
      seen.getOrInsertComputed(b.readUInt32LE(p + 8), () => []).push({ type: frame.contentType, via });
    }
    return before?.(frame, via) === true;
  };
  return seen;
}

test("with several connections the answer to a dial comes on that of its data, and before it", async () => {
  const [alice, bob] = [await network.tokenClient("alice"), await network.tokenClient("bob")];
  await network.grant("web", "Dial", "alice");
  await network.grant("web", "Bind", "bob");
  const host = await connected(bob);
  host.onConnection = (connection: TestConnection, _dial: Message) => connection.send(Buffer.from("first"));
  await host.bind(await network.serviceToken(bob, "web", "Bind"));
  const headers = new Headers()
    .setBool(BaseHeader.IsGrouped, true)
    .setString(BaseHeader.Type, "edge.default")
    .setBool(BaseHeader.IsFirstGroupConnection, true);
  const near = await connected(alice, { headers });
  for (const type of ["edge.default", "edge.control"]) await dialUnderlay(near.channel, { type });
  const seen = watched(near.channel);
  const dials = Array.from({ length: 20 }, () => near.connectService("web"));
  for (const dial of dials) await (await dial).whenReceived(5);
  expect(seen.size).toBe(20);
  for (const [first, second] of seen.values()) {
    expect([first?.type, second?.type]).toEqual([EdgeType.StateConnected, EdgeType.Data]);
    expect(first?.via).toBe(second?.via);
    expect(first?.via.type).toBe("edge.default");
  }
  expect(new Set([...seen.values()].map(([first]) => first?.via)).size).toBe(2);
});
