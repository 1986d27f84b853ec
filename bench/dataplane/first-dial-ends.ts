/**
 * Both ends of the row `first-dial`. `node first-dial-ends.ts host IDENTITY` echoes on every service that it may host and prints `hosting`.
 * `node first-dial-ends.ts client IDENTITY SHARE` connects its routers by a first service and prints `ready`; at each SIGUSR2 it dials
 * SHARE services that it has not dialled before, and prints how long each took to its first byte: `times [ms, …]`.
 */
import { once } from "node:events";
import { Context } from "@sallyport/sdk";
import { eventually } from "../../e2e/network/eventually.ts";

const [side, identityFile = "", share = "0"] = process.argv.slice(2);
const context = await Context.load(identityFile);
process.once("SIGTERM", () => process.exit(0));
const names = (await context.services()).map(({ name }) => name).toSorted();
if (side === "host") await host();
else await client();

async function host(): Promise<void> {
  for (const name of names) {
    const server = await context.listen(name);
    server.on("connection", (stream) => stream.pipe(stream).on("error", () => stream.destroy()));
  }
  console.log("hosting");
}

async function client(): Promise<void> {
  const [first = "", ...others] = names;
  // The host's terminator comes up in its own time.
  await eventually("a first dial", () => toFirstByte(first), 50_000);
  // The second dial is for the compilers: it goes the way that is measured.
  await toFirstByte(others.pop() ?? "");
  let asked = once(process, "SIGUSR2");
  console.log("ready");
  for (;;) {
    await asked;
    asked = once(process, "SIGUSR2");
    const times: number[] = [];
    for (const name of others.splice(0, Number(share))) times.push(await toFirstByte(name));
    console.log(`times ${JSON.stringify(times)}`);
  }
}

async function toFirstByte(name: string): Promise<number> {
  const began = performance.now();
  const stream = await context.dial(name);
  stream.write("x");
  await once(stream, "data", { signal: AbortSignal.timeout(30_000) });
  const took = performance.now() - began;
  stream.destroy();
  return took;
}
