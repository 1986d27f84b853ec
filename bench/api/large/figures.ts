/** What our controller does with 100,000 identities, 10,000 services and 1,000 policies. OpenZiti is not asked: filling it would take hours. */
import { type Emit, rounded } from "../compare.ts";
import type { HttpRequest, LoadResult } from "../http-client.ts";
import type { OwnSide } from "../sides.ts";
import { fillLarge, identityId, type LargeSize, largeSize, numbered, serviceId } from "./fill.ts";

const API = "/edge/management/v1";
const STRIDE = 7_919;

const post = (path: string, body: unknown): HttpRequest => ({ method: "POST", path: API + path, body });
const get = (path: string): HttpRequest => ({ method: "GET", path: API + path });
const remove = (path: string): HttpRequest => ({ method: "DELETE", path: API + path });

/** Fills the database, starts a new controller on it, and measures. `divisor` 10 measures a tenth of everything. */
export async function measureLarge(side: OwnSide, divisor: number, emit: Emit): Promise<void> {
  const size = largeSize(divisor);
  const database = await side.database();
  try {
    const began = performance.now();
    await fillLarge(database, size);
    const { rows } = await database.query<{ bytes: string }>(
      "SELECT pg_database_size(current_database())::text AS bytes",
    );
    emit({
      figure: "filled",
      ...size,
      seconds: rounded((performance.now() - began) / 1_000),
      megabytesOnDisk: rounded(Number(rows[0]?.bytes) / 1e6),
    });
  } finally {
    await database.end();
  }

  const startMs = await side.restart();
  emit({ figure: "start until the first answer", ms: rounded(startMs), target: 3_000, isMet: startMs <= 3_000 });
  await side.probe();
  emitMemory(side, "memory after the start", emit);
  await measureReads(side, size, emit);
  await measureWrites(side, size, emit);
  await measureBroadPolicy(side, size, emit);
  await measureFullLoad(side, size, emit);
  emitMemory(side, "memory after all this", emit);
}

/** One request after the other: latency without waiting in line; then 8 at a time: rate. */
async function latency(
  side: OwnSide,
  emit: Emit,
  figure: string,
  o: { readonly count: number; readonly targetMs?: number },
  request: (index: number) => HttpRequest,
): Promise<void> {
  await side.client.load(Math.ceil(o.count / 10), 1, request);
  const before = side.cpuSeconds();
  const single = await side.client.load(o.count, 1, request);
  const cpuMs = ((side.cpuSeconds() - before) / o.count) * 1_000;
  const many = await side.client.load(o.count, 8, request);
  emit({
    figure,
    p50Ms: rounded(single.p50Ms),
    p99Ms: rounded(single.p99Ms),
    cpuMs: rounded(cpuMs),
    perSecondAt8: rounded(many.perSecond),
    p50MsAt8: rounded(many.p50Ms),
    ...(o.targetMs === undefined ? {} : { target: o.targetMs, isMet: single.p50Ms <= o.targetMs }),
  });
}

async function measureReads(side: OwnSide, size: LargeSize, emit: Emit): Promise<void> {
  const some = (index: number): string => identityId((index * STRIDE) % size.identities);
  const list = (query: Readonly<Record<string, string | number>>): HttpRequest =>
    get(`/identities?${new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))}`);
  const far = Math.floor(size.identities * 0.9);
  const at = (index: number): string => numbered((index * STRIDE) % size.identities);

  await latency(side, emit, "get identity by id", { count: 500 }, (index) => get(`/identities/${some(index)}`));
  await latency(side, emit, "services of an identity, first 10", { count: 500, targetMs: 3 }, (index) =>
    get(`/identities/${some(index)}/services?limit=10`),
  );
  await latency(side, emit, "services of an identity, first 100", { count: 300, targetMs: 3 }, (index) =>
    get(`/identities/${some(index)}/services?limit=100`),
  );
  await latency(side, emit, "services of an identity, name contains", { count: 200 }, (index) =>
    get(
      `/identities/${some(index)}/services?limit=10&filter=${encodeURIComponent(`name contains "${100 + (index % 900)}"`)}`,
    ),
  );
  await latency(side, emit, "identities of a service, first 10", { count: 200 }, (index) =>
    get(`/services/${serviceId((index * STRIDE) % size.services)}/identities?limit=10`),
  );
  await latency(side, emit, "why an identity can or cannot dial a service", { count: 500, targetMs: 10 }, (index) =>
    get(`/identities/${some(index)}/why/${serviceId((index * STRIDE) % size.services)}`),
  );
  await latency(side, emit, "list of identities, first 10 and total", { count: 300 }, () => list({ limit: 10 }));
  await latency(side, emit, `list of identities, offset ${far}`, { count: 100, targetMs: 20 }, () =>
    list({ limit: 10, offset: far }),
  );
  await latency(side, emit, `sort by createdAt, offset ${far}`, { count: 100, targetMs: 20 }, () =>
    list({ limit: 10, offset: far, sort: "createdAt" }),
  );
  await latency(side, emit, `sort by name descending, offset ${far}`, { count: 100, targetMs: 20 }, () =>
    list({ limit: 10, offset: far, sort: "name desc" }),
  );
  await latency(side, emit, "name contains 5 characters", { count: 300 }, (index) =>
    list({ limit: 10, filter: `name contains "${at(index).slice(1)}"` }),
  );
  await latency(side, emit, "name contains 2 characters", { count: 50 }, (index) =>
    list({ limit: 10, filter: `name contains "${at(index).slice(4)}"` }),
  );
  await latency(side, emit, "name contains what 100 % have", { count: 50 }, () =>
    list({ limit: 10, filter: 'name contains "identity"' }),
  );
  await latency(side, emit, "tags.site = value", { count: 300 }, (index) =>
    list({ limit: 10, filter: `tags.site = "s${(index * STRIDE) % 1_000}"` }),
  );
  await latency(side, emit, "roleFilter of two attributes, AllOf", { count: 200 }, () =>
    list({ limit: 10, roleFilter: "#i3", roleSemantic: "AllOf" }),
  );
  await latency(side, emit, "role attributes in use", { count: 100 }, () => get("/identity-role-attributes?limit=100"));
  await latency(side, emit, "summary", { count: 100 }, () => get("/summary"));
}

async function measureWrites(side: OwnSide, size: LargeSize, emit: Emit): Promise<void> {
  let made = 0;
  await latency(side, emit, "create identity with ott", { count: 300, targetMs: 5 }, () =>
    post("/identities", {
      name: `new-${made++}`,
      type: "Device",
      isAdmin: false,
      roleAttributes: ["i1", "i20", "i300"],
      enrollment: { ott: true },
    }),
  );
  await latency(side, emit, "patch role attributes", { count: 300 }, (index) => ({
    method: "PATCH",
    path: `${API}/identities/${identityId((index * STRIDE) % size.identities)}`,
    body: { roleAttributes: ["i2", `i${index % 50}`] },
  }));
  let doomed = 0;
  await latency(side, emit, "delete identity", { count: 200 }, () =>
    remove(`/identities/${identityId(size.identities - 1 - doomed++)}`),
  );
}

/**
 * A policy for all identities with half of the services and one for half of the identities with everything: answered when in effect, which is checked with the
 * next request. Meanwhile others ask for identities and write them, and are timed.
 */
async function measureBroadPolicy(side: OwnSide, size: LargeSize, emit: Emit): Promise<void> {
  const { rows } = await half(side, size);
  const policy = {
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: rows.identities,
    serviceRoles: rows.services,
  };
  const created: number[] = [];
  const removed: number[] = [];
  const change = async (round: number): Promise<void> => {
    const begun = performance.now();
    const { id } = await side.client.data<{ id: string }>(
      post("/service-policies", { ...policy, name: `half-${round}` }),
    );
    created.push(performance.now() - begun);
    const begunRemoval = performance.now();
    await side.client.ask(remove(`/service-policies/${id}`));
    removed.push(performance.now() - begunRemoval);
  };
  const traffic = (count: number): Promise<LoadResult> =>
    side.client.load(count, 4, (index) => get(`/identities/${identityId((index * STRIDE) % (size.identities / 2))}`));

  for (let round = 0; round < 3; round++) await change(round);
  created.length = 0;
  removed.length = 0;
  const quiet = await traffic(1_000);
  for (let round = 0; round < 10; round++) await change(round);
  const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
  const [createMs, removeMs] = [median(created), median(removed)];
  emit({
    figure: "a policy that matches half of everything, alone",
    identities: rows.matchedIdentities,
    services: rows.matchedServices,
    createMs: rounded(createMs),
    deleteMs: rounded(removeMs),
    maxMs: rounded(Math.max(...created, ...removed)),
    target: 50,
    isMet: Math.max(createMs, removeMs) <= 50,
  });
  created.length = 0;
  removed.length = 0;
  await side.probe();
  let running = true;
  const changes = (async () => {
    for (let round = 0; running; round++) await change(round);
  })();
  const busy = await traffic(2_000);
  running = false;
  await changes;
  const delay = await side.probe();
  emit({
    figure: "the same beside other requests, one after the other",
    changes: created.length + removed.length,
    createMs: rounded(median(created)),
    deleteMs: rounded(median(removed)),
    othersP50Ms: rounded(busy.p50Ms),
    othersP99Ms: rounded(busy.p99Ms),
    othersP99MsWithout: rounded(quiet.p99Ms),
    loopDelayP99Ms: rounded(delay.p99Ms),
    loopDelayMaxMs: rounded(delay.maxMs),
    loopCpuP99Ms: rounded(delay.cpuP99Ms),
    target: 50,
    isMet: delay.p99Ms <= 50,
  });
}

/** Role selectors that select about half of the identities and half of the services: attributes by falling use. */
async function half(side: OwnSide, size: LargeSize) {
  const until = async (kind: string, prefix: string, all: number) => {
    const roles: string[] = [];
    let matched = 0;
    while (matched < all / 2) {
      roles.push(`#${prefix}${roles.length}`);
      const query = `roleSemantic=AnyOf&limit=1&${roles.map((role) => `roleFilter=${encodeURIComponent(role)}`).join("&")}`;
      const { text } = await side.client.ask(get(`/${kind}?${query}`));
      matched = (JSON.parse(text) as { meta: { pagination: { totalCount: number } } }).meta.pagination.totalCount;
    }
    return { roles, matched };
  };
  const identities = await until("identities", "i", size.identities);
  const services = await until("services", "s", size.services);
  return {
    rows: {
      identities: identities.roles,
      services: services.roles,
      matchedIdentities: identities.matched,
      matchedServices: services.matched,
    },
  };
}

/** Everything at once, 32 connections: how late does the event loop get? */
async function measureFullLoad(side: OwnSide, size: LargeSize, emit: Emit): Promise<void> {
  await side.probe();
  const some = (index: number): string => identityId((index * STRIDE) % (size.identities / 2));
  const requests: ((index: number) => HttpRequest)[] = [
    (index) => get(`/identities/${some(index)}`),
    (index) => get(`/identities/${some(index)}/services?limit=100`),
    () => get("/identities?limit=100"),
    (index) => get(`/identities?limit=100&offset=${(index * 100) % size.identities}`),
    (index) => get(`/identities?filter=${encodeURIComponent(`name contains "${numbered(index).slice(1)}"`)}`),
    (index) => ({
      method: "PATCH",
      path: `${API}/identities/${some(index)}`,
      body: { roleAttributes: [`i${index % 100}`] },
    }),
    (index) => ({
      method: "PATCH",
      path: `${API}/services/srv${(index % 1_000).toString(36).padStart(8, "0")}`,
      body: { roleAttributes: [`s${index % 30}`] },
    }),
  ];
  const result = await side.client.load(4_000, 32, (index) =>
    (requests[index % requests.length] ?? requests[0])!(index),
  );
  const delay = await side.probe();
  emit({
    figure: "mixed requests, 32 at a time",
    perSecond: rounded(result.perSecond),
    p50Ms: rounded(result.p50Ms),
    p99Ms: rounded(result.p99Ms),
    loopDelayP50Ms: rounded(delay.p50Ms),
    loopDelayP99Ms: rounded(delay.p99Ms),
    loopDelayMaxMs: rounded(delay.maxMs),
    loopCpuP99Ms: rounded(delay.cpuP99Ms),
    target: 50,
    isMet: delay.p99Ms <= 50,
  });
}

function emitMemory(side: OwnSide, figure: string, emit: Emit): void {
  const { controller, database } = side.memory();
  emit({
    figure,
    controllerMiB: rounded(controller),
    databaseMiB: rounded(database),
    targets: [200, 300],
    isMet: controller <= 200 && database <= 300,
  });
}
