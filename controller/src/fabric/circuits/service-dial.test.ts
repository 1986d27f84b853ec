import { CreateCircuitHeader, EdgeCtrlHeader, EdgeCtrlType, Headers, type Message, PeerData } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { bytes, meshPerTest } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import type { TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
const mesh = meshPerTest((started) => {
  net = started;
});

type Fields = { [Name in keyof typeof CreateCircuitHeader]?: string | undefined } & {
  peerData?: ReadonlyMap<number, Buffer>;
};

/** Header 20222 by header; those that are undefined are left out. */
function serviceDial(router: ScriptedRouter, fields: Fields = {}): Promise<Message> {
  const { peerData = new Map([[PeerData.CallerId, bytes("bob")]]), ...texts } = fields;
  const headers = new Headers().setU32Map(CreateCircuitHeader.PeerData, peerData);
  const all = { IdentityId: "client", ServiceId: "svc", ApiSessionToken: "token", RequestedCircuitId: "", ...texts };
  for (const [name, text] of Object.entries(all)) {
    if (text !== undefined) headers.setString(CreateCircuitHeader[name as keyof typeof CreateCircuitHeader], text);
  }
  return router.request({ contentType: EdgeCtrlType.CreateCircuitV3Request, headers });
}

const ISSUED_AT = new Date(1_700_000_000_000);

async function start() {
  const started = await mesh();
  net.model.accessTokens.set("token", { identityId: "client", apiSessionId: "a1", issuedAt: ISSUED_AT });
  return started;
}

async function established(fields: Fields = {}) {
  const { a, b } = await start();
  const answer = serviceDial(a, fields);
  a.acceptRoute((await a.nextRoute()).message);
  const { message, route } = await b.nextRoute();
  b.acceptRoute(message, new Map([[PeerData.PublicKey, bytes("key")]]));
  return { answer: await answer, route, a, b };
}

describe("a dial by access token and service", () => {
  test("is answered as one by session, with a type of its own, and lasts as long as the token counts", async () => {
    const { answer, route } = await established({ RequestedCircuitId: "its own" });
    expect(answer.contentType).toBe(EdgeCtrlType.CreateCircuitV3Response);
    const { ResponseCircuitId, ResponseAddress, ResponseTags } = CreateCircuitHeader;
    expect(answer.headers.getString(ResponseCircuitId)).toBe(route.circuitId);
    expect(route.circuitId).not.toBe("its own");
    const circuit = net.fabric.circuit(route.circuitId);
    expect(answer.headers.getString(ResponseAddress)).toBe(circuit?.route.ingressId);
    expect(answer.headers.getStringMap(ResponseTags)?.get("clientId")).toBe("client");
    expect(answer.headers.getU32Map(CreateCircuitHeader.PeerData)?.get(PeerData.PublicKey)?.toString()).toBe("key");
    expect(circuit?.grant).toEqual({
      ...{ kind: "token", apiSessionId: "a1", identityId: "client", issuedAt: ISSUED_AT },
    });
  });

  test("tells the host who dials, as the controller has found out", async () => {
    const named = (id: string) =>
      new Map([
        [PeerData.DialerIdentityId, bytes(id)],
        [PeerData.DialerIdentityName, bytes("name")],
      ]);
    const texts = ({ route }: Awaited<ReturnType<typeof established>>) =>
      Object.values(route.egress?.peerData ?? {}).map((value) => Buffer.from(value).toString());
    expect(texts(await established({ peerData: named("client") }))).toEqual(["client", "name"]);
    expect(texts(await established({ peerData: named("boss") }))).toEqual(["client"]);
    expect(texts(await established())).toEqual(["bob"]);
  });

  test.each<[string, Fields, number, number]>([
    ["no token", { ApiSessionToken: undefined }, 2, 2],
    ["an empty token", { ApiSessionToken: "" }, 2, 2],
    ["a token that counts no more", { ApiSessionToken: "revoked" }, 2, 2],
    ["no identity", { IdentityId: undefined }, 2, 2],
    ["an identity that is not the token's", { IdentityId: "boss" }, 2, 2],
    ["no service", { ServiceId: undefined }, 6, 3],
    ["an unknown service", { ServiceId: "gone" }, 6, 3],
    ["a service that the identity may not dial", { ServiceId: "closed" }, 14, 3],
    ["an instance that nobody hosts", { TerminatorInstanceId: "i1" }, 1, 0],
    ["an id that is too long", { ServiceId: "s".repeat(4_097) }, 1, 0],
  ])("with %s is refused", async (_name, fields, code, hint) => {
    const { a } = await start();
    net.model.addService("closed");
    net.model.denied.add("client/closed");
    const answer = await serviceDial(a, fields);
    expect(answer.contentType).toBe(EdgeCtrlType.Error);
    expect(answer.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(code);
    expect(answer.headers.getU32(EdgeCtrlHeader.RetryHint)).toBe(hint);
    expect(net.fabric.circuits()).toEqual([]);
  });

  test("is refused when the model says that the token is another identity's", async () => {
    const { a } = await start();
    const authorize = net.model.authorizeService.bind(net.model);
    net.model.authorizeService = async (claim) => ({ ...(await authorize(claim)), identityId: "another" });
    expect((await serviceDial(a)).headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(2);
  });

  test("with malformed peer data is answered", async () => {
    const { a } = await start();
    const headers = new Headers().set(CreateCircuitHeader.PeerData, Buffer.of(1, 2));
    const answer = await a.request({ contentType: EdgeCtrlType.CreateCircuitV3Request, headers });
    expect(answer.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(1);
    expect(answer.body.toString()).toBe("malformed circuit request");
  });
});
