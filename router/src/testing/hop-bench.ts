/**
 * What a router costs: circuits over two routers (SDK - router A - link - router B - SDK, each router a process of its
 * own) beside a bare `a.pipe(b)` between two TLS sockets that moves the same bytes in the same run.
 *
 *     node router/src/testing/hop-bench.ts [megabytes per run = 300] [runs = 3] [circuits = 8] [transit: routers in between = 0]
 *
 * The environment variable BODY sets the size of a payload, 16,296 bytes when not given. CPU time is each router's alone. `ratio` is the median over the runs of router against pipe.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:tls";
import { type Identity, identityFromPem, tlsParameters } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import type { RemoteRoute } from "./hop-bench-child.ts";
import { TestSdk } from "./test-sdk.ts";

interface Pem {
  certPem: string;
  keyPem: string;
  caPem: string;
}

const BODY = Number(process.env.BODY ?? 16_296);
const self = new URL("./hop-bench-child.ts", import.meta.url).pathname;

class Child {
  readonly process: ChildProcess;
  port = 0;
  #waiting = new Map<number, (answer: Record<string, unknown>) => void>();
  #next = 1;

  constructor(onRoute?: (route: RemoteRoute) => Promise<unknown>) {
    this.process = fork(self, [], { execArgv: process.argv.includes("--prof") ? ["--cpu-prof"] : [] });
    this.process.on("message", (message: Record<string, unknown>) => {
      if (message.route !== undefined) {
        onRoute?.(message.route as RemoteRoute).then((answer) => this.process.send({ answerTo: message.id, answer }));
        return;
      }
      this.#waiting.get(message.answerTo as number)?.(message);
    });
  }

  ask(request: Record<string, unknown>): Promise<Record<string, unknown>> {
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>();
    this.#waiting.set(id, resolve);
    this.process.send({ id, ...request });
    return promise;
  }
}

function identityOf(pem: Pem): Identity {
  return identityFromPem(pem);
}

async function pipeRun(pem: Pem, bytes: number): Promise<number> {
  const identity = identityOf(pem);
  const done = Promise.withResolvers<void>();
  let received = 0;
  const sink = createServer({ cert: identity.certPem, key: identity.keyPem, ...tlsParameters }, (socket) => {
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received >= bytes) done.resolve();
    });
    socket.on("error", () => {});
  });
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  const address = sink.address();
  const child = new Child();
  const started = await child.ask({ role: "pipe", pem, target: typeof address === "object" ? address?.port : 0 });
  const socket = connect({
    port: started.port as number,
    host: "127.0.0.1",
    secureContext: identity.clientContext(),
  });
  socket.setNoDelay(true);
  await once(socket, "secureConnect");
  await child.ask({ usage: true });
  const block = Buffer.alloc(4 * BODY, 7);
  for (let left = bytes; left > 0; left -= block.length) if (!socket.write(block)) await once(socket, "drain");
  await done.promise;
  const usage = await child.ask({ usage: true });
  socket.destroy();
  sink.close();
  child.process.kill();
  return usage.cpu as number;
}

interface HopFigures {
  cpu: number[];
  seconds: number;
  rss: number[];
}

async function routerRun(
  authority: TestAuthority,
  bytes: number,
  circuits: number,
  transit: number,
): Promise<HopFigures> {
  const names = ["rA", ...Array.from({ length: transit }, (_, i) => `rT${i}`), "rB"];
  const children = new Map<string, Child>();
  const route = async (r: RemoteRoute): Promise<unknown> =>
    (await (children.get(r.router) as Child).ask({ execute: r })).answer;
  for (const name of names) {
    const { certPem, keyPem } = await authority.identity(name);
    const child = new Child(route);
    const started = await child.ask({
      role: "router",
      name,
      path: names,
      pem: { certPem, keyPem, caPem: authority.certPem },
    });
    child.port = started.port as number;
    children.set(name, child);
  }
  for (let i = 0; i + 1 < names.length; i++) {
    const link = `link-${names[i]}-${names[i + 1]}`;
    await (children.get(names[i] as string) as Child).ask({ link, port: children.get(names[i + 1] as string)?.port });
  }
  const alice = await authority.identity("alice");
  const bob = await authority.identity("bob");
  for (const child of children.values()) {
    await child.ask({ sessions: [alice, bob].map((i) => ({ token: i.id, fingerprint: i.leafFingerprint })) });
  }
  const dialer = await TestSdk.connect((children.get("rA") as Child).port, { identity: alice, token: alice.id });
  const hoster = await TestSdk.connect((children.get("rB") as Child).port, { identity: bob, token: bob.id });
  await hoster.bind("bind-session");
  let received = 0;
  const done = Promise.withResolvers<void>();
  hoster.onConnection = (connection) => {
    connection.onData = (_buffer, start, end) => {
      received += end - start;
      if (received >= bytes) done.resolve();
    };
  };
  const near = [];
  for (let i = 0; i < circuits; i++) near.push(await dialer.connect("dial-session"));
  for (const child of children.values()) await child.ask({ usage: true });
  const body = Buffer.alloc(BODY, 7);
  const before = performance.now();
  for (let sent = 0, i = 0; sent < bytes; sent += BODY, i++) {
    const connection = near[i % circuits];
    connection?.send(body);
    await connection?.drained();
  }
  await done.promise;
  const seconds = (performance.now() - before) / 1000;
  const usages = await Promise.all([...children.values()].map((child) => child.ask({ usage: true })));
  if (process.argv.includes("--counters")) {
    for (const [name, child] of children) console.log(name, (await child.ask({ counters: true })).answer);
  }
  dialer.close();
  hoster.close();
  for (const child of children.values()) child.process.kill(process.argv.includes("--prof") ? "SIGINT" : "SIGTERM");
  return { cpu: usages.map((u) => u.cpu as number), seconds, rss: usages.map((u) => u.rss as number) };
}

function median(values: number[]): number {
  return values.toSorted((x, y) => x - y)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function main(): Promise<void> {
  const [megabytes = 300, runs = 3, circuits = 8, transit = 0] = process.argv
    .slice(2)
    .filter((a) => !a.startsWith("-"))
    .map(Number);
  const bytes = megabytes * 1e6;
  const authority = await TestAuthority.create("Bench");
  const { certPem, keyPem } = await authority.identity("localhost");
  const pem = { certPem, keyPem, caPem: authority.certPem };
  const ratios: number[][] = [];
  const absolute: number[][] = [];
  const pipes: number[] = [];
  const speeds: number[] = [];
  let rss: number[] = [];
  for (let i = 0; i < runs; i++) {
    const pipe = await pipeRun(pem, bytes);
    const hop = await routerRun(authority, bytes, circuits, transit);
    pipes.push((pipe / bytes) * 1e9);
    speeds.push(bytes / 1e6 / hop.seconds);
    rss = hop.rss;
    hop.cpu.forEach((cpu, at) => {
      ratios[at] ??= [];
      absolute[at] ??= [];
      ratios[at]?.push(cpu / pipe);
      absolute[at]?.push((cpu / bytes) * 1e9);
    });
  }
  console.log(
    JSON.stringify({
      figure: "router-hop",
      circuits,
      transit,
      runs,
      pipeCpuSecondsPerGB: Number(median(pipes).toFixed(2)),
      ratioPerRouter: ratios.map((r) => Number(median(r).toFixed(2))),
      cpuSecondsPerGBPerRouter: absolute.map((a) => Number(median(a).toFixed(2))),
      megabytesPerSecond: Math.round(median(speeds)),
      rssMegabytes: rss.map((r) => Math.round(r)),
    }),
  );
}

await main();
