import { EdgeHeader, EdgeType, Headers, type Message, XgressFlag, XgressHeader, XgressType } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FlowEnd } from "../../testing/flow-end.ts";
import { TestNetwork, type TestRouter } from "../../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../../testing/test-sdk.ts";

/** What the other end of a circuit learns when an SDK goes away: routers that find the circuit quiet would end it only in a minute. */

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  const forwarder = { xgressCloseCheckIntervalMs: 60_000 };
  a = await network.addRouter("rA", { forwarder });
  b = await network.addRouter("rB", { forwarder });
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

/** The ends of a circuit, each with its flow control in its SDK or in its router. */
async function ends(dialler: "SDK" | "router", hoster: "SDK" | "router") {
  const host = await client(b, "bob");
  const accepted = Promise.withResolvers<{ message: Message; connection: TestConnection }>();
  host.onConnection = (connection, message) => accepted.resolve({ message, connection });
  const headers = new Headers().setBool(EdgeHeader.RouterProvidedConnId, true);
  if (hoster === "SDK") headers.setBool(EdgeHeader.UseXgressToSdk, true);
  await host.requestBind(network.session("web", "Bind"), { headers });
  await expect.poll(() => network.terminators.size).toBe(1);
  const sdk = await client(a, "alice");
  const wish = new Headers();
  if (dialler === "SDK") wish.setBool(EdgeHeader.UseXgressToSdk, true);
  const dialled = await sdk.connect(network.session("web", "Dial"), { headers: wish });
  const { message, connection } = await accepted.promise;
  const circuitId = message.headers.getString(EdgeHeader.CircuitId) as string;
  const near = dialler === "SDK" ? new FlowEnd(sdk, dialled.connId, circuitId) : dialled;
  const far = hoster === "SDK" ? new FlowEnd(host, connection.connId, circuitId, true) : connection;
  if (near instanceof FlowEnd) near.start();
  if (far instanceof FlowEnd) far.payload("", { capabilities: true });
  return { near, far };
}

type Ending = FlowEnd | TestConnection;

function say(end: Ending, text: string): void {
  if (end instanceof FlowEnd) end.payload(text);
  else end.send(Buffer.from(text));
}

/** What the end gets until nothing more can come, and whether it was told that nothing more is taken. */
async function untilEnd(end: Ending): Promise<{ text: string; isToStop?: boolean }> {
  if (!(end instanceof FlowEnd)) {
    let text = "";
    end.onData = (buffer, start, stop) => {
      text += buffer.toString("utf8", start, stop);
    };
    await end.whenClosed();
    return { text };
  }
  let [text, isToStop] = ["", false];
  for (let marks = 0; marks < 2; ) {
    const { headers, body } = await end.next(XgressType.Payload);
    const flags = headers.getU32(XgressHeader.Flags) ?? 0;
    end.ack(Number(headers.getU64(XgressHeader.Sequence)));
    text += body.toString();
    if ((flags & (XgressFlag.CircuitEnd | XgressFlag.Eof)) !== 0) marks++;
    if ((flags & XgressFlag.WriteFailed) !== 0) isToStop = true;
  }
  return { text, isToStop };
}

const PLACES: ["SDK" | "router", "SDK" | "router"][] = [
  ["SDK", "SDK"],
  ["SDK", "router"],
  ["router", "SDK"],
  ["router", "router"],
];
const LOST = PLACES.flatMap((places) => (["dialler", "host"] as const).map((lost) => [lost, ...places] as const));

test.each(LOST)(
  "a lost channel of the %s ends the other side behind what was said, with flow control by the dialler's %s and the host's %s",
  async (lost, dialler, hoster) => {
    const { near, far } = await ends(dialler, hoster);
    const [gone, left] = lost === "dialler" ? [near, far] : [far, near];
    const got = untilEnd(left);
    say(gone, "the last word");
    // Once this is answered its router has everything.
    const headers = new Headers().setU32(EdgeHeader.ConnId, gone.connId);
    await gone.sdk.channel.request({ contentType: EdgeType.ConnInspectRequest, headers });
    gone.sdk.close();
    expect(await got).toMatchObject({ text: "the last word" });
    if (gone instanceof FlowEnd && left instanceof FlowEnd) expect((await got).isToStop).toBe(true);
  },
);

test.each<[string, (end: FlowEnd) => void]>([
  ["has not ended it at the other end", (end) => end.end()],
  [
    "said so on a connection behind this one",
    (end) => {
      end.end();
      end.payload("", { flags: XgressFlag.CircuitEnd });
    },
  ],
])("an SDK that closes a circuit and %s ends it there, too", async (_what, close) => {
  const { near, far } = await ends("SDK", "router");
  say(near, "the last word");
  const got = untilEnd(far);
  close(near as FlowEnd);
  expect(await got).toEqual({ text: "the last word" });
});

test("an SDK that has ended a circuit at the other end and closes it then ends it once", async () => {
  const { near, far } = await ends("SDK", "SDK");
  const end = near as FlowEnd;
  end.payload("", { flags: XgressFlag.CircuitEnd });
  end.end();
  // Another circuit begins behind it, on the same way.
  const headers = new Headers().setBool(EdgeHeader.UseXgressToSdk, true);
  const { connId, answer } = await near.sdk.requestConnect(network.session("web", "Dial"), { headers });
  new FlowEnd(near.sdk, connId, answer.headers.getString(EdgeHeader.CircuitId) as string).start();
  const flags = new Map<string, (number | undefined)[]>();
  while (flags.size < 2) {
    const { headers } = await far.sdk.nextMessage();
    const id = headers.getString(XgressHeader.CircuitId);
    if (id !== undefined) flags.getOrInsertComputed(id, () => []).push(headers.getU32(XgressHeader.Flags));
  }
  expect(flags.get(end.circuitId)).toEqual([XgressFlag.CircuitStart, XgressFlag.CircuitEnd]);
});
