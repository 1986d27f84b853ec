import {
  CreateCircuitHeader,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  silentLogger,
} from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import type { ModelChange } from "../change-port.ts";
import { DenialCode } from "../ports.ts";
import { dial, dialHeaders, dialTunnel, established, meshPerTest } from "../testing/circuit-mesh.ts";
import { MemoryModel } from "../testing/memory-model.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, type TestFabric } from "../testing/test-fabric.ts";
import type { Circuit } from "./circuit.ts";
import { CircuitAccess } from "./circuit-access.ts";
import { CircuitRegistry } from "./circuit-registry.ts";
import { DynamicCosts } from "./costs.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

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

/** A signed token with these claims, as far as the fabric looks at it. */
const signed = (claims: object) =>
  ['{"alg":"ES256"}', JSON.stringify(claims), ""].map((part) => Buffer.from(part).toString("base64url")).join(".");
const ISSUED_AT = 1_795_290_550;
const serviceToken = signed({ jti: "s1", z_asid: "a1", z_iid: "client" });
const accessToken = signed({ jti: "t1", z_asid: "a1", sub: "client", iat: ISSUED_AT });

/** Routes of a dial that is under way, so that a test says when they are accepted. */
async function underWay(a: ScriptedRouter, b: ScriptedRouter) {
  const headers = dialHeaders(serviceToken).setString(CreateCircuitHeader.ApiSessionToken, accessToken);
  net.model.sessions.set(serviceToken, { id: "s1", type: "Dial", serviceId: "svc", identityId: "client" });
  const answer = dial(a, headers);
  const atA = await a.nextRoute();
  const atB = await b.nextRoute();
  return async () => {
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    return answer;
  };
}

const second = (number: number) => new Date(number * 1_000 + 999);

describe("a circuit with signed tokens does not come about", () => {
  test.each<[string, ModelChange]>([
    [
      "its session ends, whatever token it had last",
      { kind: "session-removed", id: "s1", token: signed({ jti: "s1" }) },
    ],
    ["its API session ends", { kind: "api-session-removed", id: "a1", token: "" }],
    ["its access token is revoked", { kind: "revoked", type: "JTI", id: "t1" }],
    ["its API session is revoked", { kind: "revoked", type: "API_SESSION", id: "a1" }],
    ["all tokens of its identity are revoked", { kind: "revoked", type: "IDENTITY", id: "client" }],
    [
      "the tokens that its identity got until then are revoked",
      { kind: "revoked", type: "IDENTITY", id: "client", issuedBefore: second(ISSUED_AT) },
    ],
  ])("when %s while it is made", async (_, change) => {
    const { a, b } = await mesh();
    const accept = await underWay(a, b);
    net.model.emit(change);
    const refusal = await accept();
    expect(refusal.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(DenialCode.InvalidSession);
    expect(net.fabric.circuits()).toEqual([]);
  });

  test.each<[string, ModelChange]>([
    ["another session ends", { kind: "session-removed", id: "s2", token: serviceToken }],
    ["another API session ends", { kind: "api-session-removed", id: "a2", token: "" }],
    ["another access token is revoked", { kind: "revoked", type: "JTI", id: "s1" }],
    ["another identity is revoked", { kind: "revoked", type: "IDENTITY", id: "host" }],
    [
      "older tokens of its identity are revoked",
      { kind: "revoked", type: "IDENTITY", id: "client", issuedBefore: second(ISSUED_AT - 1) },
    ],
  ])("but it does when %s", async (_, change) => {
    const { a, b } = await mesh();
    const accept = await underWay(a, b);
    net.model.emit(change);
    expect((await accept()).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
    expect(net.fabric.circuits()).toHaveLength(1);
  });

  test("when its session got a signed token for its opaque one, and ended, while it was made", async () => {
    const { a, b } = await mesh();
    const answer = dial(a);
    const atA = await a.nextRoute();
    const atB = await b.nextRoute();
    net.model.sessions.delete("dial");
    net.model.emit({ kind: "session-removed", id: "s1", token: serviceToken });
    a.acceptRoute(atA.message);
    b.acceptRoute(atB.message);
    expect((await answer).headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(DenialCode.InvalidSession);
    expect(net.fabric.circuits()).toEqual([]);
  });
});

describe("a circuit that an access token allows without a session", () => {
  /** One that is up. */
  async function allowed() {
    const circuits = new CircuitRegistry({ unroute: () => {} }, new DynamicCosts(), () => {});
    const model = new MemoryModel();
    model.accessTokens.set(accessToken, { identityId: "client", apiSessionId: "a1", issuedAt: second(ISSUED_AT) });
    const access = new CircuitAccess({ model, circuits, log: silentLogger });
    const grant = { kind: "token", apiSessionId: "a1", identityId: "client", issuedAt: second(ISSUED_AT) } as const;
    const circuit: Circuit = {
      ...{ id: "c1", serviceId: "svc", terminatorId: "t1", clientId: "client", grant, hostId: "" },
      route: { routers: ["a"], links: [], ingressId: "i", egressId: "e" },
      addresses: { initiatorLocal: "", initiatorRemote: "", terminatorLocal: "", terminatorRemote: "" },
      ...{ requestedAt: 0, createdAt: new Date(), updatedAt: new Date(), tags: {}, peerData: new Map() },
    };
    const make = async () => {
      circuits.opened(circuit);
      return circuit;
    };
    return { access, circuits, model, make };
  }

  test.each<[string, (access: CircuitAccess, model: MemoryModel) => void]>([
    ["its API session ends", (access) => access.apiSessionRemoved("a1")],
    ["its API session is revoked", (access) => access.revoked({ kind: "revoked", type: "API_SESSION", id: "a1" })],
    [
      "the tokens of its identity are revoked",
      (access) => access.revoked({ kind: "revoked", type: "IDENTITY", id: "client", issuedBefore: second(ISSUED_AT) }),
    ],
    [
      "its identity may not dial any more",
      (access, model) => {
        model.denied.add("client/svc");
        access.changed();
      },
    ],
    [
      "changes were lost and its API session is gone",
      (access, model) => {
        model.accessTokens.clear();
        access.changesLost();
      },
    ],
  ])("ends when %s", async (_, change) => {
    const { access, circuits, model, make } = await allowed();
    await access.whileTokenCounts(accessToken, make);
    change(access, model);
    await eventually(() => expect(circuits.all()).toEqual([]));
    expect(circuits.apiSessionIds()).toEqual([]);
  });

  test.each<[string, (access: CircuitAccess) => void]>([
    ["its token is revoked", (access) => access.revoked({ kind: "revoked", type: "JTI", id: "t1" })],
    ["another API session ends", (access) => access.apiSessionRemoved("a2")],
    [
      "older tokens of its identity are revoked",
      (access) =>
        access.revoked({ kind: "revoked", type: "IDENTITY", id: "client", issuedBefore: second(ISSUED_AT - 1) }),
    ],
    ["changes were lost", (access) => access.changesLost()],
  ])("goes on when %s", async (_, change) => {
    const { access, circuits, model, make } = await allowed();
    await access.whileTokenCounts(accessToken, make);
    let asked = 0;
    model.beforeAccess = async () => {
      asked += 1;
    };
    change(access);
    access.changed();
    await eventually(() => expect(asked).toBeGreaterThan(0));
    expect(circuits.all()).toHaveLength(1);
  });

  test("does not come about when its token is revoked, or the right ends, while it is made", async () => {
    const { access, circuits, model, make } = await allowed();
    const revoking = access.whileTokenCounts(accessToken, async () => {
      access.revoked({ kind: "revoked", type: "JTI", id: "t1" });
      return make();
    });
    await expect(revoking).rejects.toMatchObject({ code: DenialCode.InvalidApiSession });
    const denying = access.whileTokenCounts(accessToken, async () => {
      model.denied.add("client/svc");
      access.changed();
      return make();
    });
    await expect(denying).rejects.toMatchObject({ code: DenialCode.AccessDenied });
    expect(circuits.all()).toEqual([]);
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
