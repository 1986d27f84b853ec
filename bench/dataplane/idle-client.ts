/**
 * Opens circuits with our SDK and keeps them: `node idle-client.ts IDENTITY SERVICE COUNT`. After one that shows that the
 * path is there it prints `ready`; a first SIGUSR2 opens them all, a second one sends a byte over each and awaits it.
 */

import { once } from "node:events";
import type { Duplex } from "node:stream";
import { pause } from "@sallyport/async";
import { Context } from "@sallyport/sdk";

const AT_A_TIME = 32;
const WARM_UP = 500;
const [identityFile = "", service = "", count = "0"] = process.argv.slice(2);
const context = await Context.load(identityFile);

async function each<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      for (let item = left.pop(); item !== undefined; item = left.pop()) await act(item);
    }),
  );
}

async function carries(stream: Duplex): Promise<boolean> {
  const answer = once(stream, "data", { signal: AbortSignal.timeout(30_000) });
  stream.write("x");
  return await answer.then(
    () => true,
    () => false,
  );
}

const asked = (): Promise<unknown> => once(process, "SIGUSR2");
process.once("SIGTERM", () => process.exit(0));

/** The host's terminator comes up in its own time. */
async function firstCircuit(): Promise<void> {
  const deadline = Date.now() + 50_000;
  for (;;) {
    try {
      if (await carries(await context.dial(service))) return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await pause(200);
  }
}

let first = asked();
await firstCircuit();
// Compilers and pools of the routers have done their work before anything is measured.
await each(Array.from({ length: WARM_UP }), async () => {
  const stream = await context.dial(service, { timeoutMs: 60_000 });
  await carries(stream);
  stream.destroy();
});
console.log("ready");
await first;
first = asked();
const started = performance.now();
const streams: Duplex[] = [];
await each(
  Array.from({ length: Number(count) }, (_, index) => index),
  async () => {
    try {
      const stream = await context.dial(service, { timeoutMs: 60_000 });
      stream.on("error", () => {});
      streams.push(stream);
    } catch (error) {
      console.error(String(error));
    }
  },
);
console.log(`opened ${JSON.stringify({ open: streams.length, seconds: (performance.now() - started) / 1000 })}`);
await first;
let alive = 0;
await each(streams, async (stream) => {
  if (await carries(stream)) alive++;
});
console.log(`alive ${alive}`);
