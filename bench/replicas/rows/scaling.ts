import { join } from "node:path";
import type { HttpRequest, LoadResult } from "../../api/http-client.ts";
import { emit, median } from "../../dataplane/figure.ts";
import { ControllerSet } from "../controller-set.ts";
import { get, idOf, post } from "../requests.ts";
import type { Row } from "../row.ts";

const CORES = 2;
const AT_A_TIME = 8;
const ROUNDS = 5;
const IDENTITIES = 1_000;
const SERVICES = 100;
const STRIDE = 389;

interface Side {
  readonly set: ControllerSet;
  readonly identities: readonly string[];
}

/** What one round cost, in milliseconds of CPU for each operation, and how fast it was beside the client on the same cores. */
interface Round {
  readonly controllerMs: number;
  readonly databaseMs: number;
  readonly perSecond: number;
}

interface Kind {
  readonly name: string;
  readonly count: number;
  readonly request: (side: Side, index: number) => HttpRequest;
}

const some = ({ identities }: Side, index: number): string => identities[(index * STRIDE) % identities.length] ?? "";

const KINDS: readonly Kind[] = [
  { name: "get an identity", count: 2_000, request: (side, index) => get(`/identities/${some(side, index)}`) },
  {
    name: "list 100 identities",
    count: 250,
    request: (_, index) => get(`/identities?limit=100&offset=${(index * 100) % (IDENTITIES - 100)}`),
  },
  {
    name: "services of an identity",
    count: 500,
    request: (side, index) => get(`/identities/${some(side, index)}/services?limit=100`),
  },
];

/** Reads by two controllers beside the same reads by one. The two sets have databases of their own, and work in turn. */
export const scaling: Row = async (folder, { divisor }) => {
  const sides: Side[] = [];
  try {
    for (const count of [1, 2]) {
      const set = await ControllerSet.start(join(folder, `set-${count}`), count);
      sides.push({ set, identities: await fill(set) });
    }
    const [one, two] = sides as [Side, Side];
    for (const kind of KINDS) await compare(one, two, { ...kind, count: Math.ceil(kind.count / divisor) });
  } finally {
    for (const { set } of sides) await set.stop();
  }
};

async function compare(one: Side, two: Side, kind: Kind): Promise<void> {
  const rounds = new Map<Side, Round[]>([
    [one, []],
    [two, []],
  ]);
  for (const side of [one, two]) await measure(side, kind);
  for (let round = 0; round < ROUNDS; round++) {
    // Who goes first changes from round to round.
    for (const side of round % 2 === 0 ? [one, two] : [two, one]) {
      rounds.get(side)?.push(await measure(side, kind));
    }
  }
  const middle = (side: Side, name: keyof Round): number => median((rounds.get(side) ?? []).map((each) => each[name]));
  const cpuMs = (side: Side): number => middle(side, "controllerMs") + middle(side, "databaseMs");
  // One thread of each controller does its work.
  const capacity = (side: Side): number => (1_000 * side.set.members.length) / middle(side, "controllerMs");
  // The same where the database takes its share of the same cores.
  const sharedCapacity = (side: Side): number => Math.min(capacity(side), (1_000 * CORES) / cpuMs(side));
  const details = (side: Side) => ({
    controllerMs: thousandths(middle(side, "controllerMs")),
    databaseMs: thousandths(middle(side, "databaseMs")),
    perSecondBesideTheClient: Math.round(middle(side, "perSecond")),
  });
  emit({
    figure: "reads a second that two cores allow, by CPU: two controllers beside one",
    of: kind.name,
    value: capacity(two),
    unit: "per second",
    beside: capacity(one),
    ratio: capacity(two) / capacity(one),
    target: { atLeast: 1.5 },
    details: {
      ratioWithTheDatabaseOnTheseCores: thousandths(sharedCapacity(two) / sharedCapacity(one)),
      ...{ one: details(one), two: details(two) },
    },
  });
  emit({
    figure: "CPU of a read with its database: two controllers beside one",
    of: kind.name,
    value: cpuMs(two),
    unit: "ms",
    beside: cpuMs(one),
    ratio: cpuMs(two) / cpuMs(one),
    target: { atMost: 1.1 },
  });
}

async function measure(side: Side, { count, request }: Kind): Promise<Round> {
  const { set } = side;
  const total = count * set.members.length;
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const [controllers, database] = [sum(set.cpuSeconds()), await set.databaseCpuSeconds()];
  const results: LoadResult[] = await Promise.all(
    set.members.map(({ client }) => client.load(count, AT_A_TIME, (index) => request(side, index))),
  );
  return {
    controllerMs: ((sum(set.cpuSeconds()) - controllers) / total) * 1_000,
    databaseMs: (((await set.databaseCpuSeconds()) - database) / total) * 1_000,
    perSecond: sum(results.map(({ perSecond }) => perSecond)),
  };
}

async function fill(set: ControllerSet): Promise<string[]> {
  const { client } = set.at(0);
  const identities: string[] = [];
  await client.load(
    IDENTITIES,
    AT_A_TIME,
    (index) =>
      post("/identities", {
        name: `identity-${String(index).padStart(5, "0")}`,
        type: "Device",
        isAdmin: false,
        roleAttributes: ["bench", `g${index % 20}`],
      }),
    (answer) => identities.push(idOf(answer)),
  );
  await client.load(SERVICES, AT_A_TIME, (index) =>
    post("/services", { name: `service-${index}`, encryptionRequired: true, roleAttributes: ["bench"] }),
  );
  await client.ask(
    post("/service-policies", {
      ...{ name: "all", type: "Dial", semantic: "AnyOf" },
      ...{ identityRoles: ["#bench"], serviceRoles: ["#bench"] },
    }),
  );
  return identities;
}

function thousandths(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}
