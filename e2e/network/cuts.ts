import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { pseudoRandom } from "./bytes.ts";
import { eventually } from "./eventually.ts";
import { LINK_CONNECTIONS, type Mesh, type Pair } from "./mesh.ts";

/** How a way ends: both ends are told, neither end receives anything more, or what arrives cannot be decrypted. */
export type CutKind = "reset" | "swallow" | "garble";

/** Something that happens to the network while bytes are on their way; resolves when the next thing may happen. */
export type Disturbance = () => Promise<void>;

/** Cuts the way of a pair, waits until the controller has lost that link, heals it, and waits until it is linked again. */
export function cut(mesh: Mesh, [one, other]: Pair, kind: CutKind): Disturbance {
  return async () => {
    const before = await mesh.linked(one, other);
    const way = mesh.way(one, other);
    way[kind]();
    await mesh.unlinked(one, other, before);
    way.heal();
    await mesh.linked(one, other, before);
  };
}

/** Makes one connection of a pair's link dead without telling anyone, and waits until its routers have replaced it; the link has to stay. */
export function silenceOne(mesh: Mesh, [one, other]: Pair): Disturbance {
  return async () => {
    const before = await mesh.linked(one, other);
    const way = mesh.way(one, other);
    const whole = (): Promise<boolean> =>
      eventually(`${LINK_CONNECTIONS} connections of the link`, async () => way.open === LINK_CONNECTIONS, 30_000);
    await whole();
    way.swallowOldest();
    await whole();
    const after = await mesh.linked(one, other);
    if (after !== before) throw new Error(`link ${before} of ${one} and ${other} was replaced by ${after}`);
  };
}

/**
 * Sends `length` bytes to an echo and expects exactly them back, nothing lost, doubled or swapped. The bytes go in as many parts as
 * there are disturbances; each happens when the first bytes of its part are back, and the next part waits for its end.
 */
export async function exchangeUnder(
  stream: Duplex,
  seed: number,
  length: number,
  disturbances: readonly Disturbance[],
): Promise<void> {
  const [sent, got] = [createHash("sha256"), createHash("sha256")];
  const part = Math.ceil(length / disturbances.length);
  let written = 0;
  let received = 0;
  const waiting: { at: number; go: () => void }[] = [];
  const broken = new Promise<never>((_, reject) => {
    const report = (why: string): void =>
      reject(new Error(`${why} with ${received} of ${length} bytes received, ${written} written`));
    stream.once("error", (error: Error) => report(error.message));
    stream.once("close", () => received < length && report("the stream was closed"));
  });
  broken.catch(() => {});
  const reached = (at: number): Promise<void> =>
    received >= at ? Promise.resolve() : new Promise<void>((go) => waiting.push({ at, go }));
  stream.on("data", (chunk: Buffer) => {
    got.update(chunk);
    received += chunk.length;
    while (waiting[0] !== undefined && received >= waiting[0].at) waiting.shift()?.go();
  });
  const ended = new Promise<void>((resolve) => stream.once("end", resolve));
  let index = 0;
  let running: Promise<void> = Promise.resolve();
  for (const chunk of pseudoRandom(seed, length)) {
    if (written >= index * part) {
      await Promise.race([running, broken]);
      const disturbance = disturbances[index++];
      const start = written;
      running = reached(start + 1).then(disturbance);
      running.catch(() => {});
    }
    sent.update(chunk);
    written += chunk.length;
    if (!stream.write(chunk)) await Promise.race([once(stream, "drain"), broken]);
  }
  await Promise.race([running, broken]);
  stream.end();
  await Promise.race([ended, broken]);
  if (received !== length) throw new Error(`${received} of ${length} bytes came back`);
  if (got.digest("hex") !== sent.digest("hex")) throw new Error("what came back is not what was sent");
}
