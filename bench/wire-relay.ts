/**
 * What framing costs: a relay of 16 KB frames between two channels beside a bare `a.pipe(b)` between two TLS sockets.
 *
 *     npm run bench:wire -- [megabytes per run = 300] [runs = 5]
 *
 * Each run starts a relay process for each way, moves the same bytes through both, one after the other, and reads the
 * CPU time of the relay alone. Prints one JSON line per figure; `ratio` is the median over the runs.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type TLSSocket } from "node:tls";
import {
  acceptChannels,
  dialChannel,
  FRAME_PREFIX_LENGTH,
  type Identity,
  identityFromPem,
  silentLogger,
  TlsPort,
  tlsParameters,
  writeFramePrefix,
  XgressType,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { sendFrames } from "./send-frames.ts";

const HEADERS_LENGTH = 68;
const RUN_LENGTH = 4;

interface Job {
  readonly way: "pipe" | "channel";
  readonly pem: { certPem: string; keyPem: string; caPem: string };
  readonly target: number;
}

interface Usage {
  readonly cpuSeconds: number;
  readonly rssMegabytes: number;
}

const hello = { idToken: "bench" };

async function relayPipe(identity: Identity, target: number): Promise<number> {
  const server = createServer(
    { cert: identity.certPem, key: identity.keyPem, ...tlsParameters, noDelay: true },
    (from) => {
      const to = connect({ port: target, host: "127.0.0.1", secureContext: identity.clientContext() });
      to.setNoDelay(true);
      from.pipe(to);
      from.on("error", () => to.destroy());
      to.on("error", () => from.destroy());
      to.resume();
    },
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return portOf(server);
}

async function relayChannels(identity: Identity, target: number): Promise<number> {
  const onward = await dialChannel({ address: `tls:127.0.0.1:${target}`, identity, hello });
  const { output } = onward.underlayFor(0);
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
  acceptChannels(port, {
    name: "relay",
    protocols: ["bench"],
    acceptsNoAlpn: true,
    id: "relay",
    log: silentLogger,
    onChannel: (channel) => {
      channel.onFrame = (frame, underlay) => {
        const length = frame.end - frame.start;
        const at = output.reserve(length);
        frame.buffer.copy(output.slab, at, frame.start, frame.end);
        output.slab.writeInt32LE(output.nextSequence(), at + 8);
        if (output.isFull) underlay.holdFor(output);
        return true;
      };
    },
  });
  return port.port;
}

function portOf(server: { address(): unknown }): number {
  const address = server.address();
  if (typeof address === "object" && address !== null && "port" in address) return Number(address.port);
  throw new Error("the server does not listen on a TCP port");
}

/** Child: be a relay, then answer every message with the CPU time used since the last one. */
function serve(): void {
  let before = process.cpuUsage();
  process.once("message", async (job: Job) => {
    const identity = identityFromPem(job.pem);
    const port = job.way === "pipe" ? await relayPipe(identity, job.target) : await relayChannels(identity, job.target);
    process.on("message", () => {
      const used = process.cpuUsage(before);
      before = process.cpuUsage();
      const usage: Usage = {
        cpuSeconds: (used.user + used.system) / 1e6,
        rssMegabytes: process.memoryUsage.rss() / 1e6,
      };
      process.send?.(usage);
    });
    process.send?.(port);
  });
}

function frame(bodyLength: number): Buffer {
  const bytes = Buffer.alloc(FRAME_PREFIX_LENGTH + HEADERS_LENGTH + bodyLength, 0x33);
  const at = writeFramePrefix(bytes, 0, XgressType.Payload, 1, HEADERS_LENGTH, bodyLength);
  bytes.writeInt32LE(2256, at);
  bytes.writeUInt32LE(HEADERS_LENGTH - 8, at + 4);
  return bytes;
}

async function answer<T>(child: ChildProcess, request?: object): Promise<T> {
  const reply = once(child, "message");
  if (request !== undefined) child.send(request);
  const [message] = await reply;
  return message as T;
}

/** Sends frames until `bytes` of them have arrived at the sink; gives the relay's CPU seconds per GB. */
async function run(job: Omit<Job, "target">, identity: Identity, bodyLength: number, bytes: number) {
  const one = frame(bodyLength);
  const { promise: done, resolve: finish } = Promise.withResolvers<void>();
  let received = 0;
  const count = (n: number): void => {
    received += n;
    if (received >= bytes) finish();
  };
  const closers: (() => void | Promise<void>)[] = [];
  const relay = fork(import.meta.filename, ["relay"]);
  try {
    if (job.way === "pipe") {
      const sink = createServer({ cert: identity.certPem, key: identity.keyPem, ...tlsParameters }, (socket) =>
        socket.on("data", (chunk: Buffer) => count(chunk.length)).on("error", () => {}),
      );
      sink.listen(0, "127.0.0.1");
      await once(sink, "listening");
      closers.push(() => void sink.close());
      const port = await answer<number>(relay, { ...job, target: portOf(sink) } satisfies Job);
      const socket = connect({ port, host: "127.0.0.1", secureContext: identity.clientContext() });
      socket.setNoDelay(true);
      await once(socket, "secureConnect");
      await answer<Usage>(relay, {});
      const started = performance.now();
      sendPlain(socket, one, bytes);
      await done;
      const seconds = (performance.now() - started) / 1000;
      const usage = await answer<Usage>(relay, {});
      socket.destroy();
      return { ...usage, seconds };
    }
    const sink = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    closers.push(() => sink.close());
    acceptChannels(sink, {
      name: "sink",
      protocols: ["bench"],
      acceptsNoAlpn: true,
      id: "sink",
      log: silentLogger,
      onChannel: (channel) => {
        channel.onFrame = (view) => {
          count(view.end - view.start);
          return true;
        };
      },
    });
    const port = await answer<number>(relay, { ...job, target: sink.port } satisfies Job);
    const channel = await dialChannel({ address: `tls:127.0.0.1:${port}`, identity, hello });
    await answer<Usage>(relay, {});
    const started = performance.now();
    sendFrames(channel, one, bytes);
    await done;
    const seconds = (performance.now() - started) / 1000;
    const usage = await answer<Usage>(relay, {});
    channel.close();
    return { ...usage, seconds };
  } finally {
    relay.kill();
    for (const close of closers) await close();
  }
}

function sendPlain(socket: TLSSocket, one: Buffer, bytes: number): void {
  const chunk = Buffer.concat(Array.from({ length: RUN_LENGTH }, () => one));
  let left = bytes;
  const more = (): void => {
    while (left > 0) {
      left -= chunk.length;
      if (!socket.write(chunk)) {
        socket.once("drain", more);
        return;
      }
    }
  };
  more();
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function main(): Promise<void> {
  const bytes = Number(process.argv[2] ?? 300) * 1e6;
  const runs = Number(process.argv[3] ?? 5);
  const authority = await TestAuthority.create("Bench");
  const { certPem, keyPem } = await authority.identity("localhost");
  const pem = { certPem, keyPem, caPem: authority.certPem };
  const identity = identityFromPem(pem);
  for (const bodyLength of [16_296, 1_024]) {
    const figures: { pipe: number[]; channel: number[]; ratio: number[]; mbps: number[]; rss: number[] } = {
      pipe: [],
      channel: [],
      ratio: [],
      mbps: [],
      rss: [],
    };
    for (let i = 0; i < runs; i++) {
      const pipe = await run({ way: "pipe", pem }, identity, bodyLength, bytes);
      const channel = await run({ way: "channel", pem }, identity, bodyLength, bytes);
      figures.pipe.push((pipe.cpuSeconds / bytes) * 1e9);
      figures.channel.push((channel.cpuSeconds / bytes) * 1e9);
      figures.ratio.push(channel.cpuSeconds / pipe.cpuSeconds);
      figures.mbps.push(bytes / 1e6 / channel.seconds);
      figures.rss.push(channel.rssMegabytes);
    }
    console.log(
      JSON.stringify({
        figure: "relay of frames beside a pipe",
        bodyLength,
        runs,
        ratio: Number(median(figures.ratio).toFixed(2)),
        pipeCpuSecondsPerGB: Number(median(figures.pipe).toFixed(2)),
        channelCpuSecondsPerGB: Number(median(figures.channel).toFixed(2)),
        megabytesPerSecond: Math.round(median(figures.mbps)),
        rssMegabytes: Math.round(median(figures.rss)),
      }),
    );
  }
}

if (process.argv[2] === "relay") {
  serve();
} else {
  await main();
}
