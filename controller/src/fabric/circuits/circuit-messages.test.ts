import {
  ControlHeader,
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
} from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { bytes, dial, dialHeaders, established, meshPerTest } from "../testing/circuit-mesh.ts";
import type { TestFabric } from "../testing/test-fabric.ts";

const KEY = 1003;

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

function expectEdgeError(message: Message, code: number, text: string | RegExp): void {
  expect(message.contentType).toBe(EdgeCtrlType.Error);
  expect(message.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(code);
  expect(message.body.toString()).toMatch(text);
}

describe("a circuit over two routers", () => {
  test("is built from both routes and answered with address, tags and peer data", async () => {
    const { a, b } = await mesh();
    const peerData = new Map([
      [1008, bytes("bob")],
      [1112, bytes("10.0.0.1:1")],
      [1113, bytes("10.0.0.2:2")],
    ]);
    const answer = dial(a, dialHeaders("dial", peerData));
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    const { circuitId } = atA.route;
    expect(circuitId).toMatch(/^[0-9A-Za-z]{22}$/);
    expect(atA.route.egress).toBeUndefined();
    const egress = atB.route.egress!;
    expect(egress).toMatchObject({ binding: "edge", destination: "t1" });
    expect(Object.keys(egress.peerData)).toEqual(["1008"]);
    const ingressId = atA.route.forwards[0]!.srcAddress;
    const { Start, End, Link } = ctrlPb.DestType;
    expect(atA.route.forwards).toMatchObject([
      { srcAddress: ingressId, dstAddress: "ab", dstType: Link },
      { srcAddress: "ab", dstAddress: ingressId, dstType: Start },
    ]);
    expect(atB.route.forwards).toMatchObject([
      { srcAddress: "ab", dstAddress: egress.address, dstType: End },
      { srcAddress: egress.address, dstAddress: "ab", dstType: Link },
    ]);
    for (const { route } of [atA, atB]) {
      expect(route).toMatchObject({ attempt: 0, circuitId });
      expect(route.tags).toEqual({ serviceId: "svc", clientId: "client", hostId: "host" });
      expect(route.timeout).toBeGreaterThan(0n);
      expect(route.timeout).toBeLessThanOrEqual(10_000_000_000n);
    }
    a.acceptRoute(atA.message);
    b.acceptRoute(
      atB.message,
      new Map([
        [KEY, bytes("key")],
        [1110, bytes("tl")],
        [1111, bytes("tr")],
      ]),
    );
    const reply = await answer;
    expect(reply.contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(reply.headers.getString(CreateCircuitHeader.ResponseCircuitId)).toBe(circuitId);
    expect(reply.headers.getString(CreateCircuitHeader.ResponseAddress)).toBe(ingressId);
    expect(reply.headers.getStringMap(CreateCircuitHeader.ResponseTags)).toEqual(
      new Map(Object.entries({ serviceId: "svc", clientId: "client", hostId: "host" })),
    );
    expect(reply.headers.getU32Map(CreateCircuitHeader.PeerData)).toEqual(
      new Map([
        [1011, bytes("app")],
        [KEY, bytes("key")],
      ]),
    );
    expect(net.fabric.circuits()).toMatchObject([
      {
        id: circuitId,
        clientId: "client",
        hostId: "host",
        terminatorId: "t1",
        route: { routers: ["a", "b"], links: ["ab"] },
        addresses: {
          initiatorLocal: "10.0.0.1:1",
          initiatorRemote: "10.0.0.2:2",
          terminatorLocal: "tl",
          terminatorRemote: "tr",
        },
      },
    ]);
    expect(net.fabric.dynamicCost("t1")).toBe(2);
  });

  test("of an identity that is traced names the trace to every router", async () => {
    const { a, b } = await mesh();
    net.traced.set("client", "T");
    const { atA, atB, circuitId } = await established(a, b);
    for (const { route } of [atA, atB]) {
      expect(route.context).toMatchObject({ fields: { traceId: "T", circuitId }, channelMask: 0xffffffff });
    }
    net.traced.clear();
    expect((await established(a, b)).atB.route.context).toBeUndefined();
  });

  test("the first version of the request works too", async () => {
    const { a, b } = await mesh();
    const body = encodeControl(edgeCtrlPb.CreateCircuitRequestSchema, {
      sessionToken: "dial",
      apiSessionToken: "api",
      peerData: { 1008: bytes("bob") },
    });
    const answer = a.request({ contentType: EdgeCtrlType.CreateCircuitRequest, body });
    const routes = [await a.nextRoute(), await b.nextRoute()];
    a.acceptRoute(routes[0]!.message);
    b.acceptRoute(routes[1]!.message);
    const reply = await answer;
    expect(reply.contentType).toBe(EdgeCtrlType.CreateCircuitResponse);
    const created = decodeControl(edgeCtrlPb.CreateCircuitResponseSchema, reply.body);
    expect(created).toMatchObject({
      circuitId: routes[0]!.route.circuitId,
      address: routes[0]!.route.forwards[0]!.srcAddress,
    });
    expect(created.tags).toEqual({ serviceId: "svc", clientId: "client", hostId: "host" });
  });

  test("a plain listener gets a circuit by service name for its router's identity, its address and peer data as headers", async () => {
    const { a, b } = await mesh({}, { instanceId: "i1" });
    net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
    const body = encodeControl(ctrlPb.CircuitRequestSchema, { ingressId: "mine", service: "i1@svc-name" });
    const answer = a.request({ contentType: ControlType.CircuitRequest, body });
    const routes = [await a.nextRoute(), await b.nextRoute()];
    expect(routes[0]!.route.tags).toEqual({ serviceId: "i1@svc", clientId: "a", hostId: "host" });
    a.acceptRoute(routes[0]!.message);
    b.acceptRoute(routes[1]!.message);
    const reply = await answer;
    expect(reply.contentType).toBe(ControlType.CircuitSuccess);
    expect(reply.body.toString()).toBe(routes[0]!.route.circuitId);
    expect(reply.headers.getString(ControlHeader.CircuitSuccessAddress)).toBe(routes[0]!.route.forwards[0]!.srcAddress);
    expect(reply.headers.getString(1011)).toBe("app");
    const missing = encodeControl(ctrlPb.CircuitRequestSchema, { ingressId: "mine", service: "none" });
    const failed = await a.request({ contentType: ControlType.CircuitRequest, body: missing });
    expect(failed.contentType).toBe(ControlType.CircuitFailed);
    expect(failed.body.toString()).toBe("invalid service");
    net.model.denied.add("a/svc");
    const denied = await a.request({ contentType: ControlType.CircuitRequest, body });
    expect([denied.contentType, denied.body.toString()]).toEqual([ControlType.CircuitFailed, "access denied"]);
    net.model.tunnelSession = undefined;
    const refused = await a.request({ contentType: ControlType.CircuitRequest, body });
    expect(refused.body.toString()).toBe("tunneling not enabled");
  });
});

describe("refused dials", () => {
  test.each([
    ["no session token", "", 3, /^invalid session$/],
    ["an unknown session", "unknown", 3, /^invalid session$/],
    ["a bind session", "bind", 4, /^incorrect session type$/],
    ["a router without access", "elsewhere", 5, /^invalid edge router for session$/],
    ["a service that is gone", "orphan", 6, /^invalid service$/],
    ["no key where one is required", "secret", 11, /initiator/],
    ["a service without terminators", "empty", 1, /^service empty-name has no terminators$/],
  ])("%s", async (_name, token, code, text) => {
    const { a } = await mesh();
    const { model } = net;
    model.addService("secret", { encryptionRequired: true });
    model.addService("empty");
    model.sessions.set("bind", { id: "s", type: "Bind", serviceId: "svc", identityId: "i" });
    model.sessions.set("elsewhere", { id: "s", type: "Dial", serviceId: "svc", identityId: "i", routers: ["b"] });
    model.sessions.set("orphan", { id: "s", type: "Dial", serviceId: "gone", identityId: "i" });
    model.sessions.set("secret", { id: "s", type: "Dial", serviceId: "secret", identityId: "i" });
    model.sessions.set("empty", { id: "s", type: "Dial", serviceId: "empty", identityId: "i" });
    expectEdgeError(await dial(a, dialHeaders(token)), code, text);
    expect(net.fabric.circuits()).toEqual([]);
  });

  test("malformed peer data is answered", async () => {
    const { a } = await mesh();
    const headers = dialHeaders().set(CreateCircuitHeader.PeerData, Buffer.of(1, 2));
    expectEdgeError(await dial(a, headers), 1, /malformed/);
  });

  test("no key from the terminating side: the circuit is removed", async () => {
    const { a, b } = await mesh();
    net.model.addService("svc", { encryptionRequired: true });
    const answer = dial(a, dialHeaders("dial", new Map([[KEY, bytes("key")]])));
    a.acceptRoute((await a.nextRoute()).message);
    b.acceptRoute((await b.nextRoute()).message);
    const refused = await answer;
    expectEdgeError(refused, 11, /terminator/);
    const unroute = await b.nextUnroute();
    expect(unroute.now).toBe(true);
    expect(refused.headers.getString(EdgeCtrlHeader.CircuitId)).toBe(unroute.circuitId);
    expect(net.fabric.circuits()).toEqual([]);
  });
});

describe("attempts", () => {
  test("more peer data from the terminating side than fits into an answer: the circuit is not made", async () => {
    const { a, b } = await mesh({ createCircuitRetries: 1 });
    const answer = dial(a);
    const atA = await a.nextRoute();
    a.acceptRoute(atA.message);
    b.acceptRoute((await b.nextRoute()).message, new Map([[1003, Buffer.alloc(60_000)]]));
    expectEdgeError(await answer, 1, /60000 bytes of peer data/);
    expect(net.fabric.circuits()).toEqual([]);
    expect((await a.nextUnroute()).circuitId).toBe(atA.route.circuitId);
  });

  test("a terminator its router does not know is deleted and the next one tried", async () => {
    const { a, b } = await mesh();
    net.model.addTerminator("t2", "svc", "b", { cost: 50 });
    const answer = dial(a);
    const first = [await a.nextRoute(), await b.nextRoute()];
    expect(first[1]!.route.egress?.destination).toBe("t1");
    a.acceptRoute(first[0]!.message);
    b.refuseRoute(first[1]!.message, 1, "no such terminator");
    const second = [await a.nextRoute(), await b.nextRoute()];
    expect(second[1]!.route).toMatchObject({ attempt: 1, circuitId: first[1]!.route.circuitId });
    expect(second[1]!.route.egress?.destination).toBe("t2");
    expect(second[0]!.route.forwards[0]!.srcAddress).not.toBe(first[0]!.route.forwards[0]!.srcAddress);
    expect(net.model.terminators.has("t1")).toBe(false);
    // An answer of the first attempt counts for nothing.
    b.acceptRoute(first[1]!.message);
    a.acceptRoute(second[0]!.message);
    b.acceptRoute(second[1]!.message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
  });

  test.each([
    ["is not deleted", {}],
    ["of another binding is not marked failed", { binding: "transport", address: "tcp:localhost:1" }],
  ])("a terminator that is new again since the dial %s for its router's refusal", async (_, place) => {
    const { a, b } = await mesh({ createCircuitRetries: 1 }, place);
    const answer = dial(a);
    const { message } = await b.nextRoute();
    await a.nextRoute();
    const { createdAt: _at, version: _version, ...same } = net.model.terminators.get("t1")!;
    await net.model.createTerminator(same);
    b.refuseRoute(message, 1, "no such terminator");
    expectEdgeError(await answer, 1, /exceeded maximum \[1\] retries/);
    expect(net.model.terminators.get("t1")?.precedence).toBe("default");
  });

  test("terminators of a host that died, one per router, do not use up the attempts for one that lives", async () => {
    const { a, b } = await mesh();
    for (const [n, id] of ["t2", "t3", "alive"].entries())
      net.model.addTerminator(id, "svc", "b", { cost: 50 * (n + 1) });
    const answer = dial(a);
    for (const id of ["t1", "t2", "t3"]) {
      a.acceptRoute((await a.nextRoute()).message);
      const { route, message } = await b.nextRoute();
      expect(route.egress?.destination).toBe(id);
      b.refuseRoute(message, 1, "no such terminator");
    }
    a.acceptRoute((await a.nextRoute()).message);
    b.acceptRoute((await b.nextRoute()).message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect([...net.model.terminators.keys()]).toEqual(["alive"]);
  });

  test("a terminator of another binding is only marked failed", async () => {
    const { a, b } = await mesh({ createCircuitRetries: 1 }, { binding: "transport", address: "tcp:localhost:1" });
    const answer = dial(a);
    b.refuseRoute((await b.nextRoute()).message, 1, "no such terminator");
    await a.nextRoute();
    expectEdgeError(await answer, 1, /exceeded maximum \[1\] retries/);
    expect(net.model.terminators.get("t1")?.precedence).toBe("failed");
  });

  test("after the last attempt every router that was told forgets the circuit", async () => {
    const { a, b, events } = await mesh();
    const answer = dial(a);
    for (let attempt = 0; attempt < 2; attempt++) {
      const atA = await a.nextRoute();
      a.acceptRoute(atA.message);
      b.refuseRoute((await b.nextRoute()).message, 4, "connection refused");
    }
    const refused = await answer;
    expectEdgeError(
      refused,
      1,
      /^exceeded maximum \[2\] retries creating circuit \[c\/\w{22}\] \(connection refused\)$/,
    );
    const circuitId = refused.headers.getString(EdgeCtrlHeader.CircuitId);
    for (const router of [a, b]) expect(await router.nextUnroute()).toMatchObject({ circuitId, now: true });
    expect(events.filter(({ kind }) => kind.startsWith("circuit"))).toMatchObject([
      { kind: "circuit-failed", fields: { circuitId, cause: "ROUTER_ERR_CONN_REFUSED" } },
    ]);
    expect(net.fabric.dynamicCost("t1")).toBe(40);
    expect(net.model.terminators.has("t1")).toBe(true);
  });

  test("a late answer to an earlier attempt leaves the circuit alone on a router that carries it", async () => {
    const { a, b } = await mesh();
    const answer = dial(a);
    const first = [await a.nextRoute(), await b.nextRoute()];
    a.refuseRoute(first[0]!.message, 0, "no such link");
    const second = [await a.nextRoute(), await b.nextRoute()];
    a.acceptRoute(second[0]!.message);
    b.acceptRoute(second[1]!.message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    b.acceptRoute(first[1]!.message);
    await b.roundTrip();
    expect(b.pending(ControlType.Unroute)).toEqual([]);
    expect(net.fabric.circuits()).toHaveLength(1);
  });

  test("a router that does not answer costs an attempt", async () => {
    const { a, b } = await mesh({ routeTimeoutMs: 3_000, createCircuitRetries: 1 });
    const answer = dial(a);
    const late = await b.nextRoute();
    a.acceptRoute((await a.nextRoute()).message);
    expectEdgeError(await answer, 1, /no answer from router b within 3000 ms/);
    expect(net.fabric.dynamicCost("t1")).toBe(20);
    expect(await b.nextUnroute()).toMatchObject({ circuitId: late.route.circuitId, now: true });
    // The late answer is answered once more, in case the router has the circuit now.
    b.acceptRoute(late.message);
    expect(await b.nextUnroute()).toMatchObject({ circuitId: late.route.circuitId, now: true });
  });

  test("a router that is lost while dialing ends the attempt at once", async () => {
    const { a, b } = await mesh();
    const answer = dial(a);
    await b.nextRoute();
    b.close();
    expectEdgeError(await answer, 1, /no online terminators/);
  });

  test("a router that goes away while its dial is worked on leaves no circuit behind", async () => {
    const { a, b } = await mesh();
    dial(a).catch(() => {});
    const atB = await b.nextRoute();
    const atA = await a.nextRoute();
    a.acceptRoute(atA.message);
    await a.roundTrip();
    a.close();
    b.acceptRoute(atB.message);
    expect(await b.nextUnroute()).toMatchObject({ circuitId: atB.route.circuitId, now: true });
    expect(net.fabric.circuits()).toEqual([]);
  });
});
