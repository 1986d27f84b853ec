import { connect } from "node:tls";
import {
  BaseHeader,
  CONTROL_ALPN,
  ControlHello,
  ControlType,
  ControlUnderlay,
  ctrlPb,
  decodeControl,
  dialChannel,
  encodeControl,
  encodeMessage,
  Headers,
  type Identity,
  RouterCapability,
} from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { dialHeaders, link } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
beforeEach(async () => {
  net = await TestFabric.start();
});
afterEach(() => net.stop());

const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ""), "hex");

/** The hello of router `r1` of OpenZiti 1.6 (docs/protocol/control.md, "Hello"): headers 10 and 11 are its listeners and metadata. */
const HELLO_1 = hex(`
  0306090c 00000000 ffffffff 63000000 02000000 04000000 22000000 76312e36
  2e32307c 6162637c 32303236 2d30312d 30317c6c 696e7578 7c616d64 36340a00
  00002600 00000a24 0a14746c 733a7231 2e657861 6d706c65 3a313030 38301203
  746c7322 07646566 61756c74 0b000000 03000000 0a010172 31`);

/** The same of OpenZiti 2.1: 9 and 11 ask for a group, and the listeners have a number of their own. */
const HELLO_2 = encodeMessage(
  {
    contentType: 0,
    headers: new Headers()
      .set(BaseHeader.IsGrouped, hex("01"))
      .setString(BaseHeader.Type, "ctrl.default")
      .set(BaseHeader.IsFirstGroupConnection, hex("01"))
      .setString(ControlHello.Version, "v2.1.0|abc|2026-01-01|linux|amd64")
      .set(
        ControlHello.ListenersV2,
        hex("0a240a14746c733a72322e6578616d706c653a31303038301203746c73220764656661756c74"),
      )
      .set(ControlHello.CapabilitiesV2, hex("4000000000000076")),
    body: Buffer.from("r2"),
  },
  -1,
);

/** Sends bytes as a router and resolves when the controller has answered. */
async function sendHello(identity: Identity, hello: Buffer) {
  const socket = connect({
    ...{ host: "127.0.0.1", port: net.port, secureContext: identity.clientContext() },
    ...{ ALPNProtocols: [CONTROL_ALPN], checkServerIdentity: () => undefined },
  });
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  socket.once("data", resolve).once("error", reject);
  socket.write(hello);
  const answer = await promise;
  const end = 20 + answer.readUInt32LE(12);
  return { headers: Headers.decode(answer, 20, end), close: () => socket.destroy() };
}

test("routers of both generations connect to one listener, each by its own header numbers", async () => {
  const one = await sendHello(await net.enroll("r1"), HELLO_1);
  const two = await sendHello(await net.enroll("r2"), HELLO_2);
  await eventually(() => expect(net.fabric.onlineRouterIds().toSorted()).toEqual(["r1", "r2"]));
  for (const id of ["r1", "r2"]) {
    expect(net.fabric.routerState(id)?.linkListeners).toEqual([
      { address: `tls:${id}.example:10080`, protocol: "tls" },
    ]);
  }
  expect(one.headers.getBool(BaseHeader.IsGrouped)).toBeUndefined();
  expect(one.headers.get(BaseHeader.GroupSecret)).toBeUndefined();
  expect(two.headers.getBool(BaseHeader.IsGrouped)).toBe(true);
  expect(two.headers.getString(BaseHeader.Type)).toBe(ControlUnderlay.Default);
  expect(two.headers.get(BaseHeader.GroupSecret)).toHaveLength(16);
  for (const { headers } of [one, two]) {
    expect(headers.get(ControlHello.CapabilitiesV2)).toEqual(headers.get(ControlHello.Capabilities));
  }
  expect(net.fabric.routerState("r1")?.capabilities).toBeUndefined();
  expect(net.fabric.routerState("r2")?.capabilities?.toString("hex")).toBe("4000000000000076");
  one.close();
  two.close();
});

test("a router without the bit for several connections is read by the old numbers, whatever mask it sends", async () => {
  const headers = new Headers()
    .setString(ControlHello.Version, "v1.6.20|abc|2026-01-01|linux|amd64")
    .set(ControlHello.Listeners, encodeControl(ctrlPb.ListenersSchema, { listeners: [{ address: "tls:old:1" }] }))
    .set(ControlHello.ListenersV2, encodeControl(ctrlPb.ListenersSchema, { listeners: [{ address: "tls:new:1" }] }))
    .set(ControlHello.CapabilitiesV2, hex("0c"));
  const channel = await dialChannel({
    ...{ address: `tls:127.0.0.1:${net.port}`, identity: await net.enroll("r1"), alpn: CONTROL_ALPN },
    hello: { idToken: "r1", headers },
  });
  await eventually(() => expect(net.fabric.routerState("r1")?.linkListeners).toMatchObject([{ address: "tls:old:1" }]));
  channel.close();
});

test.each([
  ["are stored", encodeControl(ctrlPb.CtrlChanListenersSchema, { listeners: [{ address: "tls:c:1", groups: ["g"] }] })],
  ["that cannot be read are not", Buffer.of(0xff)],
])("addresses where controllers could dial a router %s", async (_name, value) => {
  const headers = new Headers().set(ControlHello.CtrlChanListeners, value);
  const router = await net.connect("r1", { generation: 2, headers });
  await router.hello();
  await eventually(() => expect(net.model.reports).toHaveLength(1));
  const isReadable = value.length > 1;
  expect(net.model.reports[0]?.ctrlChanListeners).toEqual(isReadable ? { "tls:c:1": ["g"] } : undefined);
});

test.each<[string, readonly number[], string, boolean]>([
  ["a router of OpenZiti 1.6", [], "1.6.20", false],
  ["one of 2.0, which says nothing of posture", [RouterCapability.MultiChannel], "2.0.3", true],
  ["one of before 2.0", [RouterCapability.MultiChannel], "1.7.0", false],
  ["one that says so", [RouterCapability.PostureChecks], "1.6.20", true],
])("posture is left to %s or not", async (_name, capabilities, version, checksPosture) => {
  const claims: boolean[] = [];
  const authorize = net.model.authorizeDial.bind(net.model);
  net.model.authorizeDial = (claim) => {
    claims.push(claim.checksPosture);
    return authorize(claim);
  };
  const router = await net.connect("r1", {
    ...{ generation: 2, capabilities, version: `v${version}|rev|2026-01-01|linux|amd64` },
  });
  await router.request({ contentType: 20218, headers: dialHeaders() });
  expect(claims).toEqual([checksPosture]);
});

describe("further connections of a router", () => {
  let router: ScriptedRouter;
  beforeEach(async () => {
    router = await net.connect("r1", { generation: 2 });
  });

  /** Dials a connection that claims to belong to the group of the router. */
  const join = (identity: Identity, secret: Uint8Array, connectionId = router.channel.connectionId) =>
    dialChannel({
      ...{ address: `tls:127.0.0.1:${net.port}`, identity, alpn: CONTROL_ALPN },
      hello: {
        idToken: "r1",
        headers: router.channel.hello.headers
          .clone()
          .setString(BaseHeader.ConnectionId, connectionId)
          .setString(BaseHeader.Type, ControlUnderlay.High)
          .set(BaseHeader.GroupSecret, secret)
          .setBool(BaseHeader.IsFirstGroupConnection, false),
      },
    });
  const secret = () => router.channel.result.get(BaseHeader.GroupSecret) ?? Buffer.alloc(0);

  test("carry what is urgent, and nothing else", async () => {
    await router.join();
    const types = new Map<number, string>();
    router.channel.onFrame = (frame, underlay) => {
      types.set(frame.contentType, underlay.type);
      return false;
    };
    const answer = await router.request({ contentType: 20218, headers: dialHeaders("unknown") });
    expect(answer.contentType).toBe(20002);
    router.send(ControlType.RouterLinks);
    await router.roundTrip();
    expect(types.get(20002)).toBe(ControlUnderlay.High);
    expect(types.get(2)).toBe(ControlUnderlay.Default);
  });

  test("are refused with a wrong secret, and with another certificate that leads to the same router", async () => {
    const identity = await net.enroll("r1");
    await expect(join(identity, Buffer.alloc(16))).rejects.toThrow();
    const renewed = await net.authority.identity("r1");
    await expect(join(renewed, secret())).rejects.toThrow();
    await router.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("are refused once the router was disabled", async () => {
    const record = net.model.routers.get("r1");
    if (record !== undefined) net.model.routers.set("r1", { ...record, isDisabled: true });
    const group = secret();
    net.model.emit({ kind: "router-changed", routerId: "r1" });
    await router.channel.closed;
    await expect(join(await net.enroll("r1"), group)).rejects.toThrow();
    expect(net.fabric.onlineRouterIds()).toEqual([]);
  });

  test("do not keep a channel alive that has lost its last one for everything else", async () => {
    await router.join();
    router.leave(ControlUnderlay.Default);
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual([]));
    // From no connection it begins a new group, as the same process, with the secret of the old one.
    const links = [{ id: "l1", destRouterId: "r2", linkProtocol: "tls", iteration: 1 }];
    const again = await net.connect("r1", {
      ...{ generation: 2, previousConnection: `${router.channel.connectionId}-1`, secret: secret() },
    });
    expect(again.channel.result.get(BaseHeader.GroupSecret)).toEqual(secret());
    again.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links, fullRefresh: true }));
    await again.join();
    await again.roundTrip();
    expect(net.fabric.links()).toHaveLength(1);
    again.close();
    const third = await net.connect("r1", {
      ...{ generation: 2, previousConnection: `${router.channel.connectionId}-2`, secret: secret() },
    });
    await third.roundTrip();
    expect(net.fabric.links()).toHaveLength(1);
  });
});

/** How often the connection for what is urgent comes and goes. */
const TOGGLES = 20;
const CIRCUITS = 1_000;

test("no Unroute overtakes its Route, however the connection for what is urgent comes and goes", async () => {
  await net.stop();
  // A Route that was under way on a connection that ends is lost.
  net = await TestFabric.start({ routeTimeoutMs: 1_000 });
  net.model.addService("svc");
  net.model.addTerminator("t1", "svc", "b");
  net.model.sessions.set("dial", { id: "s1", type: "Dial", serviceId: "svc", identityId: "client" });
  const a = await net.connect("a");
  const b = await net.connect("b", { generation: 2 });
  await link(a, b, "ab", 1);
  a.channel.handle(ControlType.Route, (message) => a.acceptRoute(message));
  const seen = new Map<string, string[]>();
  const see = (circuitId: string, what: string) => seen.getOrInsertComputed(circuitId, () => []).push(what);
  const ways = new Set<string>();
  b.channel.onFrame = ({ contentType }, { type }) => {
    if (contentType === ControlType.Route) ways.add(type);
    return false;
  };
  let routes = 0;
  b.channel.handle(ControlType.Route, (message) => {
    see(decodeControl(ctrlPb.RouteSchema, message.body).circuitId, "route");
    // Refused ones are given up, which sends an Unroute right behind the Route of another attempt.
    if (routes++ % 3 === 0) b.refuseRoute(message, 0, "no");
    else b.acceptRoute(message);
  });
  b.channel.handle(ControlType.Unroute, (message) => {
    see(decodeControl(ctrlPb.UnrouteSchema, message.body).circuitId, "unroute");
  });
  const dials = Array.from({ length: CIRCUITS }, async (_, i) => {
    // In small groups, so that they lie between the comings and goings.
    for (let turn = 0; turn < Math.floor(i / 10); turn++) await new Promise((resolve) => setImmediate(resolve));
    const answer = await a.request({ contentType: 20218, headers: dialHeaders() });
    const circuitId = answer.headers.getString(11);
    if (answer.contentType === 20219 && circuitId !== undefined && i % 2 === 0) net.fabric.removeCircuit(circuitId);
  });
  const toggles = (async () => {
    for (let i = 0; i < TOGGLES; i++) {
      await b.join();
      await b.roundTrip();
      b.leave();
    }
    await b.join();
  })();
  await Promise.all([...dials, toggles]);
  for (const { id } of net.fabric.circuits()) net.fabric.removeCircuit(id);
  await eventually(() => {
    const unfinished = [...seen.values()].filter((messages) => messages.at(-1) !== "unroute");
    expect(unfinished).toEqual([]);
  });
  expect(seen.size).toBe(CIRCUITS);
  expect([...seen.values()].filter((messages) => messages[0] !== "route")).toEqual([]);
  expect([...ways].toSorted()).toEqual([ControlUnderlay.Default, ControlUnderlay.High]);
});
