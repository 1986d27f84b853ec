import { setTimeout as delay } from "node:timers/promises";
import type { Host } from "../namespaces/network-namespace.ts";
import { silenceOne } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { LINK_CONNECTIONS, type Mesh, type Pair } from "../network/mesh.ts";
import type { RestartedReplica } from "../network/replicas.ts";
import type { Random } from "./random.ts";
import { endsUnderRepair } from "./tcp-repair.ts";

/** Transfers that began before this moment may break: a router that circuits begin or end at was ended until then. */
export interface Excuses {
  /** By `performance.now()`; infinite while such a router is away. */
  endRouter: number;
}

export interface Fault {
  readonly name: string;
  /** Resolves when it is over. */
  run(): Promise<void>;
}

/** Loss at which TCP still gets through. */
const LOSS = [0.01, 0.05, 0.15] as const;
/** TCP sends again after 0.2, 0.6, 1.4, 3 and 6.3 s, and a link is given up after 5 s: the try after 3 s has to come through. */
const MAX_LOST_MS = 2_500;
const RATES = [1_000_000, 4_000_000, 16_000_000] as const;

/** The next fault. Only one happens at a time, so that there is always a way between the two ends of every circuit. */
export function nextFault(
  random: Random,
  o: {
    mesh: Mesh;
    here: Host;
    pairs: readonly [Pair, ...Pair[]];
    second: RestartedReplica | undefined;
    excuses: Excuses;
  },
): Fault {
  const { mesh, here, second, excuses } = o;
  const [one, other] = random.pick(o.pairs);
  const way = mesh.way(one, other);
  const where = `${one}-${other}`;
  const ms = random.between(200, 3_000);
  const during = (name: string, start: () => unknown, end: () => unknown): Fault => ({
    name: `${name} for ${ms} ms`,
    run: async () => {
      await start();
      await delay(ms);
      await end();
    },
  });
  const kinds: (() => Fault)[] = [
    () => {
      let before = 0;
      return during(
        `reset of ${where}`,
        async () => {
          before = await mesh.linked(one, other);
          way.reset();
        },
        async () => {
          way.heal();
          await mesh.linked(one, other, before);
        },
      );
    },
    () =>
      during(
        `silence of ${where}`,
        () => way.swallow(),
        async () => {
          way.heal();
          // What was swallowed stays dead, noticed or not. A link that had not all of its connections may live on with new ones.
          const isWhole = () => way.dead === 0 && way.open === LINK_CONNECTIONS;
          await eventually(`no connection of ${where} is dead`, isWhole, 60_000);
          await mesh.linked(one, other);
        },
      ),
    () => ({
      name: `garbled bytes on ${where}`,
      run: async () => {
        const before = await mesh.linked(one, other);
        way.garble();
        await mesh.linked(one, other, before);
      },
    }),
    () => ({ name: `silence of one connection of ${where}`, run: silenceOne(mesh, [one, other]) }),
    () => {
      const delayMs = random.between(5, 60);
      return during(
        `${delayMs} ms delay of ${where}`,
        () => {
          way.delayMs = delayMs;
        },
        () => {
          way.delayMs = 0;
        },
      );
    },
    () => packets(here, way.port, random.pick(LOSS), where, ms),
    () => packets(here, way.port, 1, where, random.between(200, MAX_LOST_MS)),
    () => {
      const rate = random.pick(RATES);
      return during(
        `at most ${rate} bytes/s`,
        () => here.run("tc", "qdisc", "add", "dev", "lo", "root", ...tokenBucket(rate)),
        () => here.run("tc", "qdisc", "del", "dev", "lo", "root"),
      );
    },
    () => {
      const signal = random.pick(["SIGKILL", "SIGTERM"] as const);
      return { name: `${signal} of r3`, run: () => mesh.network.restartRouter("r3", signal) };
    },
    () => {
      const signal = random.pick(["SIGKILL", "SIGTERM"] as const);
      if (second === undefined || random.next() < 0.5) {
        return { name: `${signal} of the controller`, run: () => mesh.network.restartController(signal) };
      }
      return { name: `${signal} of ${second.id}`, run: () => second.restart(signal) };
    },
    () => {
      const name = random.pick(["r1", "r2"] as const);
      return {
        name: `SIGKILL of ${name}`,
        run: async () => {
          // What the router answered before its end may be read after it.
          excuses.endRouter = Number.POSITIVE_INFINITY;
          await mesh.network.restartRouter(name, "SIGKILL");
          excuses.endRouter = performance.now();
        },
      };
    },
  ];
  const weights = [4, 4, 2, 2, 3, 3, 3, 1, 2, 1, 1];
  let at = random.between(
    1,
    weights.reduce((sum, weight) => sum + weight, 0),
  );
  for (const [index, weight] of weights.entries()) {
    at -= weight;
    const make = kinds[index];
    if (at <= 0 && make !== undefined) return make();
  }
  throw new Error("there is a weight for every kind of fault");
}

function packets(here: Host, port: number, share: number, where: string, ms: number): Fault {
  return {
    name: `${Math.round(share * 100)} % of the packets of ${where} lost for ${ms} ms`,
    run: async () => {
      const loss = await here.lose({ protocol: "tcp", port, ...(share < 1 && { share }) });
      await delay(ms);
      await loss.end();
      // TCP sends again in its own time: until then the loss goes on.
      await eventually(`what was lost of ${where} has come through`, () => endsUnderRepair(port) === 0);
    },
  };
}

function tokenBucket(bytesPerSecond: number): string[] {
  return ["tbf", "rate", `${bytesPerSecond * 8}bit`, "burst", "128kb", "latency", "200ms"];
}
