import { decodeControl, EdgeCtrlHeader, EdgeCtrlType, edgeCtrlPb, encodeControl, type Message } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { DenialCode } from "../ports.ts";
import { dial, established, meshPerTest } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, type TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

const dialTunnel = (router: ScriptedRouter, serviceName = "svc-name"): Promise<Message> => {
  const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2RequestSchema, { serviceName });
  return router.request({ contentType: EdgeCtrlType.CreateTunnelCircuitV2Request, body });
};

/** A circuit of router a as a tunneler without sessions. */
async function tunnelled(a: ScriptedRouter, b: ScriptedRouter): Promise<string> {
  net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
  const answer = dialTunnel(a);
  a.acceptRoute((await a.nextRoute()).message);
  b.acceptRoute((await b.nextRoute()).message);
  const message = await answer;
  expect(message.contentType).toBe(EdgeCtrlType.CreateTunnelCircuitV2Response);
  const response = decodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, message.body);
  expect(response.tags).toEqual({ serviceId: "svc", clientId: "a", hostId: "host" });
  expect(response.address).toBe(net.fabric.circuit(response.circuitId)?.route.ingressId);
  return response.circuitId;
}

describe("a circuit ends at once on every router", () => {
  test("with its session, and only with its own", async () => {
    const { a, b } = await mesh();
    const first = await established(a, b);
    net.model.sessions.set("other", { id: "s2", type: "Dial", serviceId: "svc", identityId: "client" });
    net.model.emit({ kind: "session-removed", id: "s2", token: "other" });
    net.model.emit({ kind: "session-removed", id: "s1", token: "dial" });
    for (const router of [a, b]) {
      expect(await router.nextUnroute()).toMatchObject({ circuitId: first.circuitId, now: true });
    }
    expect(net.fabric.circuits()).toEqual([]);
  });

  test("when the identity of a tunneling router may not dial any more", async () => {
    const { a, b } = await mesh();
    const circuitId = await tunnelled(a, b);
    net.model.emit({ kind: "access-changed" });
    await a.roundTrip();
    expect(net.fabric.circuit(circuitId)).toBeDefined();
    net.model.denied.add("a/svc");
    net.model.emit({ kind: "access-changed" });
    expect(await a.nextUnroute()).toMatchObject({ circuitId, now: true });
    expect(await b.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("when its host may not host any more", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    net.model.denied.add("host/svc");
    const session = { identityId: "host", serviceId: "svc", type: "Bind" } as const;
    net.model.emit({ kind: "session-removed", id: "bind", token: "bind", session });
    expect(await b.nextUnroute()).toMatchObject({ circuitId, now: true });
  });

  test("when changes were lost and its session is gone", async () => {
    const { a, b } = await mesh();
    const { circuitId } = await established(a, b);
    net.model.emit({ kind: "changes-lost" });
    await a.roundTrip();
    expect(net.fabric.circuit(circuitId)).toBeDefined();
    net.model.sessions.delete("dial");
    net.model.emit({ kind: "changes-lost" });
    expect(await a.nextUnroute()).toMatchObject({ circuitId, now: true });
  });
});

describe("a circuit does not come about", () => {
  test("when its session ends while it is made", async () => {
    const { a, b } = await mesh();
    const answer = dial(a);
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    net.model.emit({ kind: "session-removed", id: "s1", token: "dial" });
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    const refusal = await answer;
    expect(refusal.contentType).toBe(EdgeCtrlType.Error);
    expect(refusal.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(DenialCode.InvalidSession);
    expect(await b.nextUnroute()).toMatchObject({ circuitId: atB.route.circuitId, now: true });
    expect(net.fabric.circuits()).toEqual([]);
  });

  test("when the right of a tunneling router ends while it is made", async () => {
    const { a, b } = await mesh();
    net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
    const answer = dialTunnel(a);
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    net.model.denied.add("a/svc");
    net.model.emit({ kind: "access-changed" });
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    expect((await answer).headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(DenialCode.AccessDenied);
    await eventually(() => expect(net.fabric.circuits()).toEqual([]));
  });

  test("when it cannot be asked whether the right of a tunneling router lasts", async () => {
    const { a, b } = await mesh();
    net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
    const answer = dialTunnel(a);
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    net.model.beforeAccess = async () => {
      throw new Error("the database cannot be used now");
    };
    net.model.emit({ kind: "access-changed" });
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    expect((await answer).contentType).toBe(EdgeCtrlType.Error);
    await eventually(() => expect(net.fabric.circuits()).toEqual([]));
  });

  test("for long, when the right of its host ends while a tunneling router makes it", async () => {
    const { a, b } = await mesh();
    net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
    const answer = dialTunnel(a);
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    net.model.denied.add("host/svc");
    net.model.emit({ kind: "access-changed" });
    await a.roundTrip();
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    expect((await answer).contentType).toBe(EdgeCtrlType.CreateTunnelCircuitV2Response);
    expect(await b.nextUnroute()).toMatchObject({ circuitId: atB.route.circuitId, now: true });
    expect(net.fabric.circuits()).toEqual([]);
  });

  test.each([
    ["the service is unknown", "absent", DenialCode.InvalidService],
    ["the identity may not dial it", "svc-name", DenialCode.AccessDenied],
  ])("for a tunneling router when %s", async (_, name, code) => {
    const { a } = await mesh();
    net.model.tunnelSession = { id: "a", token: "t", identityId: "a" } as never;
    net.model.denied.add("a/svc");
    expect((await dialTunnel(a, name)).headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(code);
  });
});

test("a check that the store could not answer is made again", async () => {
  const { a, b } = await mesh();
  const { circuitId } = await established(a, b);
  net.model.denied.add("host/svc");
  let failures = 0;
  net.model.beforeAccess = async () => {
    if (failures++ === 0) throw new Error("the store is away");
  };
  net.model.emit({ kind: "access-changed" });
  await eventually(() => expect(failures).toBe(1));
  expect(net.fabric.circuit(circuitId)).toBeDefined();
  net.model.emit({ kind: "access-changed" });
  await eventually(() => expect(net.fabric.circuit(circuitId)).toBeUndefined());
});
