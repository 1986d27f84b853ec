import { once } from "node:events";
import {
  EdgeHeader,
  EdgeType,
  FaultSubject,
  Headers,
  type Message,
  PayloadHeader,
  TraceHeader,
  XgressControl,
  XgressFlag,
  XgressHeader,
  XgressType,
} from "@sallyport/wire";
import { headerOrders } from "@sallyport/wire/testing/header-orders";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Fault } from "../../forwarder/fault-reports.ts";
import { FlowEnd } from "../../testing/flow-end.ts";
import { TestNetwork, type TestRouter } from "../../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../../testing/test-sdk.ts";

const MiB = 1024 * 1024;

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  a = await network.addRouter("rA");
  b = await network.addRouter("rB");
  await network.link(a, b);
});

afterEach(async () => {
  for (const sdk of sdks.splice(0)) sdk.close();
  await network.close();
});

async function client(router: TestRouter, name: string): Promise<TestSdk> {
  const sdk = await TestSdk.connect(router.port.port, await network.client(name));
  sdks.push(sdk);
  return sdk;
}

const wish = (): Headers => new Headers().setBool(EdgeHeader.UseXgressToSdk, true);

async function dial(sdk: TestSdk, service = "web"): Promise<FlowEnd> {
  const { connId, answer } = await sdk.requestConnect(network.session(service, "Dial"), { headers: wish() });
  expect(answer.contentType).toBe(EdgeType.StateConnected);
  expect(answer.headers.getBool(EdgeHeader.UseXgressToSdk)).toBe(true);
  expect(answer.headers.getString(EdgeHeader.XgressCtrlId)).toBe("ctrl");
  expect(answer.headers.getString(EdgeHeader.XgressAddress)).toMatch(/^[A-Za-z0-9]{22}$/);
  return new FlowEnd(sdk, connId, answer.headers.getString(EdgeHeader.CircuitId) as string);
}

/** A host without flow control of its own, and the connection it accepted for a circuit dialled with it. */
async function pair(): Promise<{ near: FlowEnd; far: TestConnection }> {
  const host = await client(b, "bob");
  await host.bind(network.session("web", "Bind"));
  const accepted = Promise.withResolvers<TestConnection>();
  host.onConnection = (connection) => accepted.resolve(connection);
  return { near: await dial(await client(a, "alice")), far: await accepted.promise };
}

test("takes the headers of a payload and of an acknowledgement in any order", async () => {
  const { near, far } = await pair();
  near.start();
  far.send(Buffer.from("answer"));
  await near.text();
  const { channel } = near.sdk;
  const headers = (): Headers =>
    new Headers()
      .setU32(EdgeHeader.ConnId, near.connId)
      .setString(XgressHeader.CircuitId, near.circuitId)
      .setU32(XgressHeader.Flags, 0);
  const acks = headerOrders(headers().setU32(XgressHeader.ReceiveBufferSize, 0).setU16(XgressHeader.Rtt, 0));
  for (const ordered of acks) {
    channel.send({ contentType: XgressType.Acknowledgement, headers: ordered, body: Buffer.alloc(4) });
  }
  let sequence = 1n;
  const payloads = headerOrders(headers().setU64(XgressHeader.Sequence, 0n).setU16(XgressHeader.Rtt, 1));
  for (const ordered of payloads) {
    ordered.setU64(XgressHeader.Sequence, sequence++);
    channel.send({ contentType: XgressType.Payload, headers: ordered, body: Buffer.from("x") });
  }
  await far.whenReceived(payloads.length);
  const { droppedPayloads, droppedAcks } = a.counters;
  expect({ droppedPayloads, droppedAcks }).toEqual({ droppedPayloads: 0, droppedAcks: 0 });
});

test("after a circuit's end only payloads that carry new data count as dropped", async () => {
  const { near } = await pair();
  near.start();
  near.end();
  near.payload("", { flags: XgressFlag.CircuitEnd });
  near.payload("", { flags: XgressFlag.Retransmit | XgressFlag.Eof });
  near.payload("again", { flags: XgressFlag.Retransmit });
  near.payload("new");
  near.payload("new, and the end", { flags: XgressFlag.CircuitEnd });
  await expect.poll(() => a.counters.droppedPayloads).toBe(2);
});

test("takes the headers of Data in any order", async () => {
  const { near, far } = await pair();
  near.start();
  const headers = new Headers()
    .setU32(EdgeHeader.ConnId, far.connId)
    .setU32(EdgeHeader.Flags, 0)
    .setU32(EdgeHeader.Seq, 1)
    .set(EdgeHeader.Uuid, Buffer.from("trace"));
  for (const [i, ordered] of headerOrders(headers).entries()) {
    far.sdk.channel.send({ contentType: EdgeType.Data, headers: ordered, body: Buffer.from(`message ${i}`) });
    expect(await near.text()).toBe(`message ${i}`);
    near.ack(i);
  }
});

function collected(connection: TestConnection): () => string {
  let text = "";
  connection.onData = (buffer, start, end) => {
    text += buffer.toString("utf8", start, end);
  };
  return () => text;
}

test("payloads and acknowledgements pass both ways; acknowledgements need no connection id", async () => {
  const { near, far } = await pair();
  const got = collected(far);
  near.start();
  near.payload("hello", { connId: false });
  near.payload(" world");
  await far.whenReceived(11);
  expect(got()).toBe("hello world");
  const ack = await near.next(XgressType.Acknowledgement);
  expect(ack.headers.getString(XgressHeader.CircuitId)).toBe(near.circuitId);
  far.send(Buffer.from("answer"));
  expect(await near.text()).toBe("answer");
  near.ack(0);
  near.ack(1);
  await expect.poll(() => sendBuffer(b, near.circuitId)).toBe(0);
});

/** Bytes in flight from the end that a router holds. */
function sendBuffer(router: TestRouter, circuitId: string): number {
  const detail = router.forwarder.inspectCircuit(circuitId) as {
    xgressDetails: Record<string, { sendBufferDetail: { linkSendBufferSize: number } }>;
  };
  return Object.values(detail.xgressDetails)[0]?.sendBufferDetail.linkSendBufferSize ?? -1;
}

test("half close: EOF and FIN from the SDK end the other side's reading; its FIN comes as a payload", async () => {
  const { near, far } = await pair();
  near.start();
  near.payload("bye");
  near.payload("", { flags: XgressFlag.Eof });
  await far.whenFin();
  expect(far.received).toBe(3);
  far.send(Buffer.from("the rest"));
  far.finish();
  expect(await near.text()).toBe("the rest");
  const fin = await near.next(XgressType.Payload);
  expect(fin.headers.getU32(XgressHeader.FirstPayloadHeader + PayloadHeader.EdgeFlags)).toBe(1);
});

test("an SDK that hosts with flow control is told the circuit, its owner and its address, and gets its payloads", async () => {
  const host = await client(b, "bob");
  const { connId } = await host.requestBind(network.session("web", "Bind"), {
    headers: wish().setBool(EdgeHeader.RouterProvidedConnId, true).setBool(EdgeHeader.SupportsBindSuccess, true),
  });
  expect((await host.nextMessage()).headers.getU32(EdgeHeader.ConnId)).toBe(connId);
  const dialled = Promise.withResolvers<Message>();
  host.onConnection = (_connection, message) => dialled.resolve(message);
  const near = await (await client(a, "alice")).connect(network.session("web", "Dial"));
  const { headers } = await dialled.promise;
  expect(headers.getBool(EdgeHeader.UseXgressToSdk)).toBe(true);
  expect(headers.getString(EdgeHeader.XgressCtrlId)).toBe("ctrl");
  expect(headers.getString(EdgeHeader.XgressAddress)).toBeTruthy();
  const far = new FlowEnd(
    host,
    headers.getU32(EdgeHeader.RouterProvidedConnId) as number,
    headers.getString(EdgeHeader.CircuitId) as string,
    true,
  );
  const start = await far.next(XgressType.Payload);
  expect(start.headers.getU32(XgressHeader.Flags)).toBe(XgressFlag.CircuitStart);
  far.ack(0);
  far.payload("", { capabilities: true });
  far.payload("from the host");
  const got = collected(near);
  await near.whenReceived(13);
  expect(got()).toBe("from the host");
  near.send(Buffer.from("to the host"));
  expect(await far.text()).toBe("to the host");
});

test("both ends may do the flow control, on one router and on one channel", async () => {
  const sdk = await client(a, "both");
  await sdk.requestBind(network.session("web", "Bind"), {
    headers: wish().setBool(EdgeHeader.RouterProvidedConnId, true),
  });
  const dialled = Promise.withResolvers<Message>();
  sdk.onConnection = (_connection, message) => dialled.resolve(message);
  await expect.poll(() => network.terminators.size).toBe(1);
  const near = await dial(sdk);
  const { headers } = await dialled.promise;
  const far = new FlowEnd(sdk, headers.getU32(EdgeHeader.RouterProvidedConnId) as number, near.circuitId, true);
  near.start();
  expect((await far.next(XgressType.Payload)).body.length).toBe(0);
  near.payload("there", { connId: false });
  expect(await far.text()).toBe("there");
  far.payload("back", { connId: false });
  expect(await near.text()).toBe("back");
});

test("an SDK cannot send into, acknowledge, or end a circuit of another SDK", async () => {
  const { near, far } = await pair();
  near.start();
  near.payload("mine");
  await far.whenReceived(4);
  const mallory = await client(a, "mallory");
  const own = await dial(mallory);
  // The connection id is the attacker's own, the circuit another client's.
  const forged = new FlowEnd(mallory, own.connId, near.circuitId);
  forged.payload("injected");
  forged.payload("injected", { connId: false });
  forged.payload("injected", { flags: XgressFlag.CircuitEnd });
  forged.ack(0);
  forged.end();
  const asTerminator = new FlowEnd(mallory, own.connId, near.circuitId, true);
  asTerminator.payload("injected");
  // What it sends for itself afterwards arrives: everything before was looked at.
  own.start();
  await own.next(XgressType.Acknowledgement);
  near.payload(" and mine");
  await far.whenReceived(13);
  expect(far.received).toBe(13);
  expect(network.faults).toEqual([]);
});

test("an acknowledgement that cannot be read is answered with a close", async () => {
  const { near } = await pair();
  const headers = new Headers().setU32(EdgeHeader.ConnId, near.connId);
  near.sdk.channel.send({ contentType: XgressType.Acknowledgement, headers, body: Buffer.alloc(4) });
  expect(await near.sdk.whenStateClosed(near.connId)).toBe("xgress closed");
});

test("a circuit that the network takes down is closed at the SDK", async () => {
  const { near } = await pair();
  network.unroute(near.circuitId, true);
  expect(await near.sdk.whenStateClosed(near.connId)).toBe("xgress unrouted");
  expect(network.faults).toEqual([]);
});

test("the end of a circuit, said by the SDK or by the loss of its channel, is reported to the circuit's owner", async () => {
  const { near } = await pair();
  near.end();
  const told = (): Fault[] => network.faults.filter(({ subject }) => subject === FaultSubject.IngressFault);
  await expect.poll(told).toMatchObject([{ ids: [near.circuitId] }]);
  const other = await dial(await client(a, "carol"));
  other.sdk.close();
  await expect.poll(() => told().slice(1)).toMatchObject([{ ids: [other.circuitId] }]);
});

test("a dial that fails at the host leaves nothing behind", async () => {
  const host = await client(b, "bob");
  await host.requestBind(network.session("web", "Bind"), {
    headers: wish().setBool(EdgeHeader.RouterProvidedConnId, true),
  });
  await expect.poll(() => network.terminators.size).toBe(1);
  host.answerDial = { refuse: "not now" };
  const sdk = await client(a, "alice");
  const { answer } = await sdk.requestConnect(network.session("web", "Dial"), { headers: wish() });
  expect(answer.body.toString()).toContain("not now");
  expect([...b.forwarder.ends()]).toEqual([]);
  expect(network.faults.filter((fault) => fault.subject === FaultSubject.EgressFault)).toEqual([]);
});

test("an SDK that reads nothing holds up no other: what is for it waits within bounds and comes in order", async () => {
  const { near, far } = await pair();
  near.start();
  for (const underlay of near.sdk.channel.underlays) underlay.pause();
  const total = 6 * MiB;
  for (let sent = 0; sent < total; sent += 16_000) far.send(Buffer.alloc(16_000));
  const { near: other, far: otherFar } = await otherPair();
  other.start();
  for (let i = 0; i < 64; i++) other.payload("x".repeat(16_000));
  await otherFar.whenReceived(64 * 16_000);
  await expect.poll(() => sendBuffer(b, near.circuitId)).toBeGreaterThan(4 * MiB);
  for (const underlay of near.sdk.channel.underlays) underlay.resume();
  let received = 0;
  for (let expected = 0; received < 4 * MiB; expected++) {
    const message = await near.next(XgressType.Payload);
    if (((message.headers.getU32(XgressHeader.Flags) ?? 0) & XgressFlag.Retransmit) !== 0) break;
    expect(message.headers.getU64(XgressHeader.Sequence)).toBe(BigInt(expected));
    received += message.body.length;
  }
  expect(received).toBeGreaterThan(0);
});

async function otherPair(): Promise<{ near: FlowEnd; far: TestConnection }> {
  const host = await client(b, "dave");
  await host.bind(network.session("other", "Bind"));
  const accepted = Promise.withResolvers<TestConnection>();
  host.onConnection = (connection) => accepted.resolve(connection);
  return { near: await dial(await client(a, "erin"), "other"), far: await accepted.promise };
}

test("trace routes: the SDK's own go along the circuit, and those for it are put to it", async () => {
  const { near } = await pair();
  const headers = new Headers().setU32(EdgeHeader.ConnId, near.connId).setU32(EdgeHeader.TraceHopCount, 2);
  const answer = await near.sdk.channel.request({ contentType: EdgeType.TraceRoute, headers });
  expect(answer.headers.getString(EdgeHeader.TraceHopType)).toBe("forwarder");
  expect(answer.headers.getString(EdgeHeader.TraceHopId)).toBe("rB");

  const control = new Headers().setU32(TraceHeader.HopCount, 2).setU32(TraceHeader.UserValue, 17);
  const body = Buffer.concat([Buffer.from([XgressControl.TraceRoute]), Buffer.from(near.circuitId)]);
  near.sdk.channel.send({ contentType: XgressType.Control, headers: control, body });
  const reply = await once(near.sdk.events, "message");
  expect((reply[0] as Message).contentType).toBe(EdgeType.TraceRouteResponse);
});

test("a control message of an SDK never grows to a frame that a link refuses", async () => {
  const { near } = await pair();
  near.start();
  const body = Buffer.concat([Buffer.from([XgressControl.TraceRoute]), Buffer.from(near.circuitId)]);
  const headers = new Headers().setU32(TraceHeader.HopCount, 2).setU32(TraceHeader.UserValue, 17);
  headers.set(9_999, Buffer.alloc(65_536 - headers.byteLength - 8, "x"));
  near.sdk.channel.send({ contentType: XgressType.Control, headers, body });
  // The answer takes the same way as that of the first one, behind it.
  const trace = new Headers().setU32(EdgeHeader.ConnId, near.connId).setU32(EdgeHeader.TraceHopCount, 2);
  const request = { contentType: EdgeType.TraceRoute, headers: trace };
  const answer = await near.sdk.channel.request(request, { timeoutMs: 10_000 });
  expect(answer.headers.getString(EdgeHeader.TraceHopId)).toBe("rB");
});

test("traces without end from the other side do not close the channel of an SDK that reads slowly", async () => {
  const { near, far } = await pair();
  near.start();
  for (const underlay of near.sdk.channel.underlays) underlay.pause();
  const headers = () =>
    new Headers()
      .setU32(EdgeHeader.ConnId, far.connId)
      .setU32(EdgeHeader.TraceSourceRequestId, 1)
      .set(EdgeHeader.TraceError, Buffer.alloc(1_024, "x"));
  for (let round = 0; round < 40; round++) {
    for (let i = 0; i < 2_000; i++) {
      far.sdk.channel.send({ contentType: EdgeType.TraceRouteResponse, headers: headers() });
    }
    await new Promise<void>((resolve) => {
      if (far.sdk.channel.isFull) far.sdk.channel.onDrain(resolve);
      else setImmediate(resolve);
    });
  }
  // What the router thinks of it: the SDK itself, which does not read, would learn of it last.
  expect(a.edge.channels).toBe(1);
});
