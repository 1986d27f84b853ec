import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import {
  BaseHeader,
  BaseType,
  CONTROL_ALPN,
  ControlHello,
  ControllerCapability,
  DEFAULT_LIMITS,
  decodeControl,
  EDGE_ALPN,
  EdgeCtrlHeader,
  EdgeCtrlType,
  EdgeHeader,
  EdgeType,
  edgeCtrlPb,
  encodeMessage,
  FrameParser,
  hasCapability,
  type Identity,
  type Message,
  messageOf,
  silentLogger,
  XgressHeader,
  XgressType,
} from "@sallyport/wire";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestFabric } from "../../../controller/src/fabric/testing/test-fabric.ts";
import { RouterAccess } from "../../../router/src/access/access.ts";
import { TestModel } from "../../../router/src/access/testing/test-model.ts";
import { ChangeSetReader } from "../../../router/src/control/data-model/event-reader.ts";
import { applyChanges, modelOf } from "../../../router/src/control/data-model/network-model.ts";
import { TestNetwork } from "../../../router/src/testing/test-network.ts";
import { TestSdk } from "../../../router/src/testing/test-sdk.ts";
import { eventually } from "../../network/eventually.ts";

/**
 * Frames of programs of OpenZiti v2.1.0-pre2, as they came over the wire in networks that were made for it and are gone: they run here without any
 * of its programs. Replaced is only what belongs to one network: ids of routers, tokens and secrets of groups, where the test says so.
 */
function recorded<T>(name: string): T {
  return JSON.parse(readFileSync(join(import.meta.dirname, "recorded", `${name}.json`), "utf8")) as T;
}

function messageIn(hex: string): Message {
  let message: Message | undefined;
  new FrameParser(DEFAULT_LIMITS, (frame) => {
    message = messageOf(frame);
  }).push(Buffer.from(hex, "hex"));
  if (message === undefined) throw new Error("expected a whole frame");
  return message;
}

/** Connects as a program with this certificate. */
async function tlsTo(port: number, protocol: string, identity: Identity): Promise<TLSSocket> {
  const socket = connect({
    ...{ host: "127.0.0.1", port, secureContext: identity.clientContext(), ALPNProtocols: [protocol] },
    checkServerIdentity: () => undefined,
  });
  await once(socket, "secureConnect");
  return socket;
}

/** What comes at a connection. */
class Replies {
  readonly #came: Message[] = [];

  constructor(socket: TLSSocket) {
    const parser = new FrameParser(DEFAULT_LIMITS, (frame) => void this.#came.push(messageOf(frame)));
    socket.on("data", (chunk: Buffer) => void parser.push(chunk));
  }

  /** The first message of a type that has come. */
  async next(contentType: number): Promise<Message> {
    return await eventually(`a message of type ${contentType}`, () =>
      this.#came.find((message) => message.contentType === contentType),
    );
  }
}

describe("a recorded controller, for our router", () => {
  const {
    result,
    model: changes,
    answers,
  } = recorded<{ result: string; model: string[]; answers: string[] }>("controller");
  const tunneler = recorded<{ hello: string; bind: string; updateToken: string }>("tunneler");
  const token = messageIn(tunneler.hello).headers.getString(EdgeHeader.SessionToken) ?? "";
  const { sub: identityId = "", iat = 0, exp = 0 } = decodeJwt(token);
  let now = iat * 1000;
  const source = new TestModel();
  const access = new RouterAccess({ source, log: silentLogger, now: () => now });
  const admitted = () => access.accessToken(token, { timeoutMs: 0 });
  let serviceId = "";

  beforeAll(async () => {
    for (const hex of changes) {
      const { contentType, body } = messageIn(hex);
      if (contentType === EdgeCtrlType.DataState) source.model = await modelOf(body);
      if (contentType === EdgeCtrlType.DataStateChangeSet) await applyChanges(source.model, new ChangeSetReader(body));
    }
  });
  afterAll(() => access.close());

  it("says in both headers what it can do", () => {
    const { headers } = messageIn(result);
    for (const key of [ControlHello.Capabilities, ControlHello.CapabilitiesV2]) {
      for (const bit of Object.values(ControllerCapability))
        expect(hasCapability(headers.get(key), bit), `${bit}`).toBe(true);
    }
  });

  it("describes its network: every change is taken, none is missing", () => {
    const { model } = source;
    expect([...model.services.values()].map(({ name }) => name).sort()).toEqual(["ours-mine", "theirs-mine"]);
    expect([...model.identities.keys()].map((id) => model.identity(id)?.name).sort()).toEqual([
      ...["admin", "mine", "ours-mine", "theirs-mine"],
    ]);
    expect([...model.configTypes.values()]).toEqual(expect.arrayContaining(["host.v1", "intercept.v1", "proxy.v1"]));
    expect(model.index).toBeGreaterThan(0n);
  });

  it("signs access and service tokens that our router verifies, until they end", async () => {
    const claims = await admitted();
    const { apiSessionId } = claims;
    expect(claims).toMatchObject({ identityId, allowsExpiredCertificates: true });
    expect(claims.fingerprints).toHaveLength(1);
    const service = await access.serviceToken(messageIn(tunneler.bind).body.toString(), claims);
    expect(service).toMatchObject({ type: "Bind", identityId, isLegacy: false });
    serviceId = service.serviceId;
    expect(source.model.services.get(serviceId)?.name).toBe("theirs-mine");
    // The next one of the same session, half of its life later.
    const refreshed = messageIn(tunneler.updateToken).body.toString();
    now = (decodeJwt(refreshed).iat ?? 0) * 1000;
    expect(await access.accessToken(refreshed, { timeoutMs: 0 })).toMatchObject({ identityId, apiSessionId });
    now = (exp + 31) * 1000;
    await expect(admitted()).rejects.toMatchObject({ code: "EXPIRED" });
    now = iat * 1000;
  });

  it("says by policies who may dial and host what", async () => {
    const { apiSessionId } = await admitted();
    const may = (service: string, type: "Dial" | "Bind") =>
      access.may({ identityId, apiSessionId, serviceId: service, type }).isAllowed;
    const other = source.model.serviceNamed("ours-mine")?.id ?? "";
    expect([may(serviceId, "Bind"), may(serviceId, "Dial"), may(other, "Dial"), may(other, "Bind")]).toEqual([
      ...[true, true, true, false],
    ]);
  });

  it("answers what our router asks", () => {
    const byType = new Map(answers.map((hex) => [messageIn(hex).contentType, messageIn(hex)]));
    const created = byType.get(EdgeCtrlType.CreateTerminatorV2Response);
    expect(decodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, created?.body ?? Buffer.alloc(0))).toMatchObject({
      result: edgeCtrlPb.CreateTerminatorResult.Success,
    });
    const refused = byType.get(EdgeCtrlType.Error);
    expect(refused?.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(1);
    expect(refused?.headers.getU32(EdgeCtrlHeader.RetryHint)).toBe(0);
    expect(byType.has(EdgeCtrlType.CreateCircuitV3Response)).toBe(true);
  });
});

describe("a recorded tunneler, at our router", () => {
  const { hello, connectV2, payloads } = recorded<{ hello: string; connectV2: string; payloads: string[] }>("tunneler");
  let network: TestNetwork;
  const closing: { close(): void }[] = [];

  beforeAll(async () => {
    network = await TestNetwork.create();
  });
  afterAll(async () => {
    for (const one of closing) one.close();
    await network.close();
  });

  it("is admitted, dials by service, and its payloads reach the host", async () => {
    const router = await network.addRouter("r1");
    const service = messageIn(connectV2).headers.getString(EdgeHeader.ServiceId) ?? "";
    const [alice, bob] = [await network.tokenClient("alice"), await network.tokenClient("bob")];
    await network.grant(service, "Dial", "alice");
    await network.grant(service, "Bind", "bob");
    const host = await TestSdk.connect(router.port.port, bob);
    closing.push(host);
    await host.bind(await network.serviceToken(bob, service, "Bind"), { listenerId: "l1" });
    const dialled = Promise.withResolvers<Message>();
    const came = Promise.withResolvers<Buffer>();
    host.onConnection = (connection, dial) => {
      dialled.resolve(dial);
      connection.onData = (buffer, start, end) => came.resolve(Buffer.from(buffer.subarray(start, end)));
    };
    // The hello as it was, with another token.
    const { headers } = messageIn(hello);
    headers.setString(EdgeHeader.SessionToken, alice.token);
    const socket = await tlsTo(router.port.port, EDGE_ALPN, alice.identity);
    closing.push({ close: () => socket.destroy() });
    const replies = new Replies(socket);
    socket.write(encodeMessage({ contentType: BaseType.Hello, headers, body: messageIn(hello).body }, -1));
    await replies.next(BaseType.Result);
    socket.write(Buffer.from(connectV2, "hex"));
    const connected = await replies.next(EdgeType.StateConnected);
    expect(connected.headers.getU32(EdgeHeader.ConnId)).toBe(messageIn(connectV2).headers.getU32(EdgeHeader.ConnId));
    const circuitId = connected.headers.getString(EdgeHeader.CircuitId) ?? "";
    expect((await dialled.promise).headers.getString(EdgeHeader.DialerIdentityId)).toBe("alice");
    for (const hex of payloads) {
      const { headers, body, sequence } = messageIn(hex);
      headers.setString(XgressHeader.CircuitId, circuitId);
      socket.write(encodeMessage({ contentType: XgressType.Payload, headers, body }, sequence));
    }
    // What an encrypted stream begins with.
    expect((await came.promise).length).toBe(24);
  });
});

describe("a recorded router, at our controller", () => {
  const { hello, further, messages } = recorded<{ hello: string; further: string; messages: string[] }>("router");
  let net: TestFabric;
  const closing: TLSSocket[] = [];

  beforeAll(async () => {
    net = await TestFabric.start();
  });
  afterAll(async () => {
    for (const socket of closing) socket.destroy();
    await net.stop();
  });

  it("connects with two connections of one group, and what it reports and asks is taken", async () => {
    const identity = await net.enroll("two");
    const open = async (hex: string, change: (headers: Message["headers"]) => void = () => {}) => {
      const { headers } = messageIn(hex);
      change(headers);
      const socket = await tlsTo(net.port, CONTROL_ALPN, identity);
      closing.push(socket);
      const replies = new Replies(socket);
      socket.write(encodeMessage({ contentType: BaseType.Hello, headers, body: Buffer.from("two") }, -1));
      const { headers: result } = await replies.next(BaseType.Result);
      return { socket, replies, result };
    };
    const first = await open(hello);
    expect(hasCapability(first.result.get(ControlHello.CapabilitiesV2), ControllerCapability.JwtSessions)).toBe(true);
    await eventually("the router", () => net.fabric.onlineRouterIds().includes("two"));
    expect(net.fabric.routerState("two")?.linkListeners).toMatchObject([{ protocol: "tls" }]);
    // Later connections name the first one and its secret.
    await open(further, (headers) => {
      headers.setString(BaseHeader.ConnectionId, first.result.getString(BaseHeader.ConnectionId) ?? "");
      headers.set(BaseHeader.GroupSecret, first.result.get(BaseHeader.GroupSecret) ?? Buffer.alloc(0));
    });
    for (const hex of messages) first.socket.write(Buffer.from(hex, "hex"));
    await first.replies.next(EdgeCtrlType.DataState);
    expect(first.socket.destroyed).toBe(false);
    expect(net.fabric.onlineRouterIds()).toEqual(["two"]);
  });
});
