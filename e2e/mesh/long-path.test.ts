import { once } from "node:events";
import { join } from "node:path";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

/** What a circuit may have in flight (docs/protocol/xgress.md, "Sender"). */
const WINDOW = 4 * 1024 * 1024;
const WINDOWS = 6;
/** Half a window in each round trip, one round trip more for the first window, and one for the other end's word. */
const MAX_ROUND_TRIPS = 2 * WINDOWS + 2;

const folder = makeScratch("long-path");
const contexts: Context[] = [];
let mesh: Mesh;
let dial: (service: string) => Promise<EdgeConnection>;

beforeAll(async () => {
  mesh = await startMesh(join(folder, "mesh"), { pairs: [["r1", "r2"]], linkTimeout: "30s" });
  const files = await declareService(mesh.network, { name: "echo" });
  const sink = await declareService(mesh.network, { name: "sink" });
  const [host, sinkHost] = [await Context.load(files.hostFile), await Context.load(sink.hostFile)];
  const clients = {
    echo: await Context.load(files.clientFile),
    sink: await Context.load(sink.clientFile),
  };
  contexts.push(host, sinkHost, ...Object.values(clients));
  await hostEcho(host, "echo");
  const server = await sinkHost.listen("sink");
  // Reads everything, and says so at the end.
  server.on("connection", (stream) => {
    stream.on("error", () => {});
    stream.resume();
    stream.on("end", () => stream.end("k"));
  });
  dial = async (service) =>
    await clients[service as keyof typeof clients].dial(service, { allowHalfOpen: true, timeoutMs: 20_000 });
  for (const service of Object.keys(clients)) {
    await eventually(`a first circuit to ${service}`, async () => {
      (await dial(service)).destroy();
      return true;
    });
  }
});

afterAll(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  await mesh?.stop();
  removeScratch(folder);
});

/** Milliseconds of round trips on a circuit of its own until `stop` is called: the least of them. */
async function leastRoundTrip(count: number): Promise<number> {
  const stream = await dial("echo");
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    const from = performance.now();
    stream.write("x");
    await once(stream, "data");
    least = Math.min(least, performance.now() - from);
  }
  stream.destroy();
  return least;
}

/** Milliseconds until `bytes` have arrived at the other end, and its word of it here. */
async function upload(bytes: number): Promise<number> {
  const stream = await dial("sink");
  const from = performance.now();
  const answered = once(stream, "data");
  const chunk = Buffer.alloc(65_536);
  for (let left = bytes; left > 0; left -= chunk.length) if (!stream.write(chunk)) await once(stream, "drain");
  stream.end();
  await answered;
  const tookMs = performance.now() - from;
  stream.destroy();
  return tookMs;
}

it("a circuit carries at least half a window in each round trip, however long that takes", async () => {
  const way = mesh.way("r1", "r2");
  for (const delayMs of [50, 200]) {
    // What the processor needs for it, on a way of no length.
    way.delayMs = 0;
    const atOnceMs = await upload(WINDOWS * WINDOW);
    way.delayMs = delayMs;
    const roundTripMs = await leastRoundTrip(3);
    expect(roundTripMs).toBeGreaterThanOrEqual(2 * delayMs);
    // The least of some: what else the machine does makes one longer, never shorter.
    let roundTrips = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 3 && roundTrips >= MAX_ROUND_TRIPS; i++) {
      roundTrips = Math.min(roundTrips, ((await upload(WINDOWS * WINDOW)) - atOnceMs) / roundTripMs);
    }
    expect(roundTrips, `${delayMs} ms each way`).toBeLessThan(MAX_ROUND_TRIPS);
  }
});
