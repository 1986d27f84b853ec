/**
 * What frames cost on a `wss` port, where each is a TLS record and a web socket message of its own (docs/benchmarks.md).
 *
 *     npm run bench:web-socket -- [frames of 20 bytes per run = 200000] [runs = 5]
 *
 * The client is another process; CPU time is that of the router's side alone. Prints one JSON line per size of frame.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:tls";
import {
  acceptChannels,
  BaseType,
  type Channel,
  EDGE_ALPN,
  encodeMessage,
  FRAME_PREFIX_LENGTH,
  Headers,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { createWebSocketStream, WebSocket } from "ws";
import { WebSocketPort } from "../router/src/edge/web-socket/web-socket-port.ts";
import { sendFrames } from "./send-frames.ts";

interface Job {
  readonly port: number;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** The client answers when so many bytes of frames have come. */
  readonly bytes: number;
}

const settings = { handshakeTimeout: 10, pingInterval: 54, pongTimeout: 60 };

/** Child: an SDK in a browser. Answers with the number of web socket messages that brought the bytes. */
async function receive({ port, ca, cert, key, bytes }: Job): Promise<void> {
  const webSocket = new WebSocket(`wss://localhost:${port}/ws`, { ca });
  await once(webSocket, "open");
  const inner = connect({
    ...{ socket: createWebSocketStream(webSocket), host: "localhost", servername: "localhost" },
    ...{ ca, cert, key },
  });
  await once(inner, "secureConnect");
  let messages = 0;
  let received = 0;
  let isCounting = false;
  webSocket.on("message", () => messages++);
  inner.on("data", (chunk: Buffer) => {
    // The first is the answer to the hello.
    if (!isCounting) {
      isCounting = true;
      messages = 0;
      process.send?.("ready");
      return;
    }
    received += chunk.length;
    if (received >= bytes) process.send?.(messages);
  });
  inner.write(encodeMessage({ contentType: BaseType.Hello, headers: new Headers(), body: Buffer.from("bench") }, -1));
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const [answer] = await once(child, "message");
  return answer;
}

async function run(authority: TestAuthority, bodyLength: number, frames: number) {
  const port = await WebSocketPort.listen({
    ...{ host: "127.0.0.1", port: 0, identity: await authority.identity("router"), settings, log: silentLogger },
  });
  const accepted = Promise.withResolvers<Channel>();
  acceptChannels(port, {
    ...{ name: "edge", protocols: [EDGE_ALPN], acceptsNoAlpn: true, id: "router", log: silentLogger },
    onChannel: accepted.resolve,
  });
  const { certPem: cert, keyPem: key } = await authority.identity("browser");
  const child = fork(import.meta.filename, ["client"]);
  try {
    const bytes = frames * (FRAME_PREFIX_LENGTH + bodyLength);
    const ready = answerOf(child);
    child.send({ port: port.port, ca: authority.certPem, cert, key, bytes } satisfies Job);
    const channel = await accepted.promise;
    await ready;
    const frame = encodeMessage({ contentType: 80, headers: new Headers(), body: Buffer.alloc(bodyLength) }, 1);
    const before = process.cpuUsage();
    const started = performance.now();
    const done = answerOf(child);
    sendFrames(channel, frame, frames * frame.length);
    const messages = Number(await done);
    const seconds = (performance.now() - started) / 1000;
    const { user, system } = process.cpuUsage(before);
    return {
      framesPerSecond: frames / seconds,
      cpuMicroseconds: (user + system) / frames,
      messages: messages / frames,
    };
  } finally {
    child.kill();
    await port.close();
  }
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function main(): Promise<void> {
  const most = Number(process.argv[2] ?? 200_000);
  const runs = Number(process.argv[3] ?? 5);
  const authority = await TestAuthority.create("Bench");
  for (const [bodyLength, frames] of [
    [0, most],
    [1_024, most / 2],
    [200_000, most / 200],
  ] as const) {
    const all = [];
    for (let i = 0; i < runs; i++) all.push(await run(authority, bodyLength, frames));
    console.log(
      JSON.stringify({
        figure: "frames on a web socket",
        ...{ bodyLength, frames, runs },
        framesPerSecond: Math.round(median(all.map(({ framesPerSecond }) => framesPerSecond))),
        cpuMicrosecondsPerFrame: Number(median(all.map(({ cpuMicroseconds }) => cpuMicroseconds)).toFixed(1)),
        messagesPerFrame: median(all.map(({ messages }) => messages)),
      }),
    );
  }
}

if (process.argv[2] === "client") process.once("message", (job: Job) => void receive(job));
else await main();
