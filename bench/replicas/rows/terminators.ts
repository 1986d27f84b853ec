import { pause } from "@sallyport/async";
import { eventually } from "../../../e2e/network/eventually.ts";
import { type HttpRequest, quantile } from "../../api/http-client.ts";
import { emit } from "../../dataplane/figure.ts";
import { ControllerSet, type Member } from "../controller-set.ts";
import { type EnrolledRouter, enrollRouters } from "../enrolled-routers.ts";
import { paced } from "../paced.ts";
import { get, idOf, patch, post, remove, totalOf } from "../requests.ts";
import type { Row } from "../row.ts";
import { SimulatedProcesses } from "../simulation.ts";

const CONTROLLERS = 3;
const TERMINATORS = 40_000;
const SERVICES = 100;
const PER_SECOND = 100;
/** How long requests are measured before, and at least meanwhile. */
const WINDOW_MS = 6_000;
const PATIENCE_MS = 120_000;

/** All terminators of a network on one router, which then is lost, comes back without them, or is removed. */
export const terminators: Row = async (folder, { divisor }) => {
  const set = await ControllerSet.start(folder, CONTROLLERS);
  const count = TERMINATORS / divisor;
  try {
    const [router] = await enrollRouters(set, 1);
    if (router === undefined) throw new Error("no router was enrolled");
    const services = await makeServices(set.at(0));
    const start = async (hosts: boolean): Promise<SimulatedProcesses> => {
      const ctrlPorts = set.members.map(({ ctrlPort }) => ctrlPort);
      const simulated = new SimulatedProcesses(folder, { routers: [router], ctrlPorts, hosts }, 1);
      await simulated.start();
      return simulated;
    };

    await fill(set, router, services, count);
    const hosting = await start(true);
    let again: SimulatedProcesses | undefined;
    try {
      await quiet(set, count);
      await lose(set, "the router was killed: until no controller counts with it", {
        begin: () => hosting.kill(),
        isGone: async (member) => !(await isOnline(member, router)),
      });
      await lose(set, `it is back without its ${count} terminators: until no controller lists one`, {
        begin: async () => {
          again = await start(false);
        },
        isGone: async (member) => (await listed(member)) === 0,
        isCountedAfter: true,
      });
      await again?.kill();
      await fill(set, router, services, count);
      again = await start(true);
      await quiet(set, count);
      await lose(set, `it was removed with ${count} terminators: until no controller lists one`, {
        begin: () => set.at(1).client.ask(remove(`/edge-routers/${router.id}`)),
        isGone: async (member) => (await listed(member)) === 0,
      });
    } finally {
      await hosting.kill();
      await again?.kill();
    }
  } finally {
    await set.stop();
  }
};

interface Loss {
  readonly begin: () => Promise<unknown>;
  readonly isGone: (member: Member) => Promise<boolean>;
  /** Time counts from the end of `begin`, else from its start. */
  readonly isCountedAfter?: boolean;
}

async function lose(set: ControllerSet, of: string, { begin, isGone, isCountedAfter = false }: Loss): Promise<void> {
  const before = await requestTimes(set, WINDOW_MS);
  let isOver = false;
  const meanwhile = requestTimes(set, PATIENCE_MS, () => isOver);
  meanwhile.catch(() => undefined);
  const [began, controllers, database] = [performance.now(), set.cpuSeconds(), await set.databaseCpuSeconds()];
  await begin();
  const answered = performance.now();
  await Promise.all(set.members.map((member) => eventually(of, () => isGone(member), PATIENCE_MS)));
  const gone = performance.now() - (isCountedAfter ? answered : began);
  await pause(Math.max(0, WINDOW_MS - gone));
  isOver = true;
  const during = await meanwhile;
  const cpu = (now: number, then = 0): number => Math.round((now - then) * 100) / 100;
  emit({
    figure: "a router of many terminators is lost",
    of,
    value: gone / 1_000,
    unit: "s",
    target: { atMost: 2 },
    details: {
      beganWithMs: Math.round(answered - began),
      cpuSeconds: set.cpuSeconds().map((now, index) => cpu(now, controllers[index])),
      databaseCpuSeconds: cpu(await set.databaseCpuSeconds(), database),
    },
  });
  const [p99, p99Before] = [quantile(during, 0.99), quantile(before, 0.99)];
  emit({
    figure: "requests meanwhile, p99 beside that of before",
    of,
    value: p99,
    unit: "ms",
    beside: p99Before,
    ratio: p99 / p99Before,
    target: { atMost: 5 },
    details: { max: Math.round(during.at(-1) ?? Number.NaN), requests: during.length },
  });
}

/** Milliseconds of reads and writes at all controllers, sorted. */
async function requestTimes(set: ControllerSet, forMs: number, isOver = () => false): Promise<number[]> {
  const times: number[] = [];
  const [{ id }] = await set.at(0).client.data<[{ id: string }]>(get("/services?limit=1"));
  const request = (index: number): HttpRequest =>
    index % 5 === 0 ? patch(`/services/${id}`, { tags: { index } }) : get("/services?limit=10");
  await paced(
    PER_SECOND,
    forMs,
    async (index) => {
      const began = performance.now();
      await set.at(index % CONTROLLERS).client.ask(request(index));
      times.push(performance.now() - began);
    },
    isOver,
  );
  return times.toSorted((a, b) => a - b);
}

async function makeServices({ client }: Member): Promise<string[]> {
  const ids: string[] = [];
  await client.load(
    SERVICES,
    8,
    (index) => post("/services", { name: `service-${index}`, encryptionRequired: true }),
    (answer) => ids.push(idOf(answer)),
  );
  return ids;
}

/** Writes the rows themselves: by API it would take minutes. Controllers that start then read them. */
async function fill(set: ControllerSet, { id }: EnrolledRouter, services: string[], count: number): Promise<void> {
  await set.query((database) =>
    database.query(
      `INSERT INTO terminator (id, created_at, service_id, router_id, binding, address)
       SELECT 't' || n, now() - interval '1 hour', ($1::text[])[1 + n % $2::int], $3, 'edge', 't' || n
       FROM generate_series(1, $4::int) AS n`,
      [services, services.length, id, count],
    ),
  );
  await set.restartAll();
}

/** Resolves when the controllers have asked the router for everything. */
async function quiet(set: ControllerSet, count: number): Promise<void> {
  for (const member of set.members) {
    if ((await listed(member)) !== count) throw new Error(`${member.id} does not list ${count} terminators`);
  }
  await pause(WINDOW_MS);
}

const listed = async ({ client }: Member): Promise<number> => totalOf(await client.ask(get("/terminators?limit=1")));

const isOnline = async ({ client }: Member, { id }: EnrolledRouter): Promise<boolean> =>
  (await client.data<{ isOnline: boolean }>(get(`/edge-routers/${id}`))).isOnline;
