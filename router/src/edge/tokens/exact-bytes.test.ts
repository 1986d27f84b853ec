import { BaseHeader, EDGE_ALPN, EdgeHeader, EdgeType, Headers, type Message } from "@sallyport/wire";
import { RawChannelPeer } from "@sallyport/wire/testing/raw-channel-peer";
import { afterEach, beforeEach, expect, test } from "vitest";
import { check, member } from "../../access/testing/test-model.ts";
import { TestNetwork, type TestRouter, type TokenClient } from "../../testing/test-network.ts";
import { TestSdk } from "../../testing/test-sdk.ts";

/** What access tokens bring to the wire, byte for byte (docs/protocol/edge.md). */

let network: TestNetwork;
let router: TestRouter;
let alice: TokenClient;
const peers: RawChannelPeer[] = [];
const hosts: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  router = await network.addRouter("r1", { edge: { lookupApiSessionTimeoutMs: 200 } });
  alice = await network.tokenClient("alice");
  await network.grant("web", "Dial", "alice");
});

afterEach(async () => {
  for (const peer of peers.splice(0)) peer.destroy();
  for (const host of hosts.splice(0)) host.close();
  await network.close();
});

async function connected({ identity, token }: Pick<TokenClient, "identity" | "token">): Promise<RawChannelPeer> {
  const peer = await RawChannelPeer.connect(router.port.port, identity, { ALPNProtocols: [EDGE_ALPN] });
  peers.push(peer);
  peer.hello("raw", new Headers().setString(EdgeHeader.SessionToken, token));
  await peer.message(({ headers }) => headers.has(BaseHeader.ResultSuccess));
  return peer;
}

const hexOf = (text: string): string => Buffer.from(text).toString("hex");
const u32 = (value: number): string => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes.toString("hex");
};
/** An entry of headers, or its key and length alone. */
const header = (key: string, value: string): string => `${key}${u32(value.length / 2)}${value}`;
const frame = (type: string, sequence: string, headers: string, body = ""): Buffer =>
  Buffer.from(`0306090c${type}${sequence}${u32(headers.length / 2)}${u32(body.length / 2)}${headers}${body}`, "hex");

const UPDATE_TOKEN = "83ed0000";
const UPDATE_SUCCESS = "81ed0000";
const UPDATE_FAILURE = "82ed0000";
const CONNECT_V2 = "86ed0000";
const STATE_CONNECTED = "70ed0000";
const STATE_CLOSED = "71ed0000";
const REPLY_FOR_7 = "010000000400000007000000";
const CONN_5 = "e80300000400000005000000";
const SERVICE = "0c040000";
const IDENTIFIER_TYPE = "0d040000";
const CODE = "f6030000";
const ERROR = "09040000";

/** Type, and headers by key, of what comes back, without the number that the router counts with. */
function seen({ contentType, headers, body }: Message): object {
  const entries = [...headers.entries()].map(([key, value]) => header(u32(key), Buffer.from(value).toString("hex")));
  return { type: u32(contentType), headers: entries.sort(), body: body.toString("hex") };
}

async function answerTo(peer: RawChannelPeer, request: Buffer): Promise<object> {
  peer.write(request);
  return seen(await peer.message(({ headers }) => headers.getI32(BaseHeader.ReplyFor) === 7));
}

test("UpdateToken and its success", async () => {
  const peer = await connected(alice);
  const next = await network.key.sign({ ...alice.claims, jti: "next" });
  const from = peer.bytes.length;
  await answerTo(peer, frame(UPDATE_TOKEN, "07000000", "", hexOf(next)));
  const answer = peer.bytes.subarray(from);
  const sequence = answer.subarray(8, 12).toString("hex");
  expect(answer.toString("hex")).toBe(frame(UPDATE_SUCCESS, sequence, REPLY_FOR_7).toString("hex"));
});

test.each<[string, number, string, () => Promise<string> | string]>([
  ["what is no token", 2, "invalid token, could not be parsed", () => "eyJh.e30.c2ln"],
  ["an empty body", 2, "invalid token, could not be parsed", () => ""],
  [
    "a token that expired",
    2,
    "invalid token, invalid signature",
    () => network.key.sign({ ...alice.claims, exp: Number(alice.claims.iat) - 600 }),
  ],
  [
    "a token of another session",
    2,
    "invalid token, API session id does not match",
    () => network.key.sign({ ...alice.claims, z_asid: "other" }),
  ],
])("UpdateToken with %s, its failure, and the end of the channel", async (_name, code, text, make) => {
  const peer = await connected(alice);
  const answer = await answerTo(peer, frame(UPDATE_TOKEN, "07000000", "", hexOf(await make())));
  expect(answer).toEqual({
    type: UPDATE_FAILURE,
    headers: [
      REPLY_FOR_7,
      header(ERROR, hexOf(`{"message":"${text}","code":${code},"retryHint":2}`)),
      header(CODE, u32(code)),
    ].sort(),
    body: hexOf(`code: ${code}, message: ${text}`),
  });
  await peer.closed;
});

async function hosting(service: string): Promise<void> {
  const bob = await network.tokenClient("bob");
  await network.grant(service, "Bind", "bob");
  const host = await TestSdk.connect(router.port.port, bob);
  hosts.push(host);
  await host.bind(await network.serviceToken(bob, service, "Bind"));
}

test.each([
  ["id", "web", "00"],
  ["name", "name of web", "01"],
])("a dial by the %s of a service: ConnectV2 and StateConnected", async (_name, service, type) => {
  await hosting("web");
  const peer = await connected(alice);
  const request = header(SERVICE, hexOf(service)) + header(IDENTIFIER_TYPE, type);
  const answer = await answerTo(peer, frame(CONNECT_V2, "07000000", CONN_5 + request));
  const [circuitId = ""] = [...network.circuits.keys()];
  const headers = [CONN_5, REPLY_FOR_7, header("02040000", hexOf(circuitId))].sort();
  expect(answer).toEqual({ type: STATE_CONNECTED, headers, body: "" });
});

const ofWeb = header(SERVICE, hexOf("web"));

test.each<[string, string, string, string[]]>([
  ["no connection id", ofWeb, "connId not set, required", []],
  ["no service", CONN_5, "service header not set, required", [CONN_5]],
  ["an empty service", CONN_5 + header(SERVICE, ""), "service header not set, required", [CONN_5]],
  [
    "an unknown name",
    CONN_5 + header(SERVICE, hexOf("none")) + header(IDENTIFIER_TYPE, "01"),
    "service not found",
    [CONN_5, header(CODE, "06000000"), header(ERROR, hexOf('{"message":"service not found","code":6,"retryHint":3}'))],
  ],
  [
    "no policy",
    CONN_5 + header(SERVICE, hexOf("theirs")),
    "access denied: no policy grants it",
    [
      CONN_5,
      header(CODE, "0e000000"),
      header(ERROR, hexOf('{"message":"access denied: no policy grants it","code":14,"retryHint":2}')),
    ],
  ],
  [
    "posture checks that fail",
    CONN_5 + header(SERVICE, hexOf("strict")),
    "access denied: posture checks fail",
    [
      CONN_5,
      header(CODE, "0f000000"),
      header(
        ERROR,
        hexOf(
          '{"message":"access denied: posture checks fail","code":15,"retryHint":0,"failingPostureCheckIds":["c1","c2"]}',
        ),
      ),
    ],
  ],
])("ConnectV2 with %s: StateClosed", async (_name, headers, text, answered) => {
  await network.grant("theirs", "Dial", "bob");
  await network.grant("strict", "Dial", "alice");
  for (const id of ["c2", "c1"]) await network.model.put(check(id, { case: "domains", value: { domains: ["corp"] } }));
  await network.model.put(member("Dial-strict", "check", ["c2", "c1"]));
  const peer = await connected(alice);
  const answer = await answerTo(peer, frame(CONNECT_V2, "07000000", headers));
  expect(answer).toEqual({ type: STATE_CLOSED, headers: [REPLY_FOR_7, ...answered].sort(), body: hexOf(text) });
  expect(router.control.serviceDials).toEqual([]);
});

test("ConnectV2 on a channel with an opaque session: StateClosed without a code", async () => {
  const peer = await connected(await network.client("dave"));
  const answer = await answerTo(peer, frame(CONNECT_V2, "07000000", CONN_5 + ofWeb));
  const body = hexOf("connect-v2 requires an OIDC API session");
  expect(answer).toEqual({ type: STATE_CLOSED, headers: [CONN_5, REPLY_FOR_7].sort(), body });
});

test("ConnectV2 without a controller: StateClosed without a code", async () => {
  router.control.takesServiceCircuits = false;
  router.control.connected = false;
  const peer = await connected(alice);
  const answer = await answerTo(peer, frame(CONNECT_V2, "07000000", CONN_5 + ofWeb));
  const body = hexOf("no controller available, cannot create circuit");
  expect(answer).toEqual({ type: STATE_CLOSED, headers: [CONN_5, REPLY_FOR_7].sort(), body });
});

test("requests of every kind without a connection id are answered", async () => {
  const peer = await connected(alice);
  for (const type of [EdgeType.Connect, EdgeType.Bind]) {
    expect(await answerTo(peer, frame(u32(type), "07000000", ""))).toEqual({
      ...{ type: STATE_CLOSED, headers: [REPLY_FOR_7] },
      body: hexOf("connId not set, required"),
    });
  }
});
