/** The figures that are compared with OpenZiti: the same data on both sides, 8 requests at a time over keep-alive connections. */
import { checkPassword, hashPassword } from "../../controller/src/auth/password.ts";
import { compare, type Emit, type Round, rounded } from "./compare.ts";
import { type HttpRequest, type LoadResult, median } from "./http-client.ts";
import type { Side } from "./sides.ts";

const API = "/edge/management/v1";
const AT_A_TIME = 8;
const SERVICES = 200;
const IN_BASE_POLICY = 100;

export interface TableEffort {
  readonly identities: number;
  readonly rounds: number;
  /** Requests of a round of something fast. */
  readonly requests: number;
}

/** Ids of what was made on a side. */
interface Made {
  readonly identities: string[];
  readonly services: string[];
}

const post = (path: string, body: unknown): HttpRequest => ({ method: "POST", path: API + path, body });
const get = (path: string): HttpRequest => ({ method: "GET", path: API + path });
const remove = (path: string): HttpRequest => ({ method: "DELETE", path: API + path });
const idOf = (text: string): string => (JSON.parse(text) as { data: { id: string } }).data.id;
const numbered = (index: number): string => String(index).padStart(5, "0");
const rate = (result: LoadResult, operations: number): Round => ({ value: result.perSecond, operations });

/** Every row of the table, in the order in which their data comes to be. */
export async function measureTable(sides: readonly Side[], effort: TableEffort, emit: Emit): Promise<void> {
  const made = new Map<Side, Made>(sides.map((side) => [side, { identities: [], services: [] }]));
  const of = (side: Side): Made => made.get(side) ?? { identities: [], services: [] };
  const rounds = effort.rounds;
  await warmUp(sides);

  const perRound = Math.ceil(effort.identities / rounds);
  await compare(
    sides,
    {
      figure: "create identity with ott",
      unit: "per second",
      target: 4,
      rounds,
      round: async (side, round) => {
        const result = await side.client.load(
          perRound,
          AT_A_TIME,
          (index) => post("/identities", newIdentity(round * perRound + index)),
          ({ text }) => of(side).identities.push(idOf(text)),
        );
        return rate(result, perRound);
      },
    },
    emit,
  );

  const servicesPerRound = Math.ceil(SERVICES / rounds);
  await compare(
    sides,
    {
      figure: "create service",
      unit: "per second",
      target: 1.5,
      rounds,
      round: async (side, round) => {
        const result = await side.client.load(
          servicesPerRound,
          AT_A_TIME,
          (index) => post("/services", newService(round * servicesPerRound + index)),
          ({ text }) => of(side).services.push(idOf(text)),
        );
        return rate(result, servicesPerRound);
      },
    },
    emit,
  );

  const some = (side: Side, index: number): string => {
    const { identities } = of(side);
    return identities[(index * 7919) % identities.length] ?? "";
  };
  const reads = async (
    figure: string,
    target: number,
    count: number,
    request: (side: Side, index: number) => HttpRequest,
  ): Promise<void> =>
    compare(
      sides,
      {
        figure,
        unit: "per second",
        target,
        rounds,
        round: async (side) => rate(await side.client.load(count, AT_A_TIME, (index) => request(side, index)), count),
      },
      emit,
    );

  await compare(
    sides,
    {
      figure: "version: what every request costs",
      unit: "per second",
      rounds,
      round: async (side) =>
        rate(await side.client.load(effort.requests, AT_A_TIME, () => get("/version")), effort.requests),
    },
    emit,
  );
  await reads("get identity by id", 1.5, effort.requests, (side, index) => get(`/identities/${some(side, index)}`));
  await reads("list 100 of 2,000 identities", 5, Math.ceil(effort.requests / 10), (_, index) =>
    get(`/identities?limit=100&offset=${(index * 100) % 1_900}`),
  );
  await reads("list with name contains", 5, Math.ceil(effort.requests / 4), (_, index) =>
    get(`/identities?filter=${encodeURIComponent(`name contains "-${numbered((index % 100) * 10).slice(0, 4)}"`)}`),
  );
  await reads("patch role attributes", 1.5, Math.ceil(effort.requests / 2), (side, index) => ({
    method: "PATCH",
    path: `${API}/identities/${some(side, index)}`,
    body: { roleAttributes: ["bench", `g${index % 20}`] },
  }));

  const base = new Map<Side, string>();
  for (const side of sides) {
    const policy = newPolicy("base", ["#bench"], ["#base"]);
    base.set(side, idOf((await side.client.ask(post("/service-policies", policy))).text));
  }
  await reads("services of an identity (100)", 5, Math.ceil(effort.requests / 4), (side, index) =>
    get(`/identities/${some(side, index)}/services?limit=100`),
  );
  for (const side of sides) await side.client.ask(remove(`/service-policies/${base.get(side)}`));

  await compare(
    sides,
    {
      figure: `create a policy that matches ${effort.identities} x ${SERVICES}`,
      unit: "ms",
      target: 50,
      rounds: 3,
      round: async (side, round) => {
        const began = performance.now();
        const policy = newPolicy(`broad-${round}`, ["#bench"], ["#bench-service"]);
        const { text } = await side.client.ask(post("/service-policies", policy));
        const value = performance.now() - began;
        await side.client.ask(remove(`/service-policies/${idOf(text)}`));
        return { value, operations: 1 };
      },
    },
    emit,
  );

  await measureLogins(sides, effort, emit);

  const deletesPerRound = Math.ceil(effort.identities / rounds / 4);
  await compare(
    sides,
    {
      figure: "delete identity",
      unit: "per second",
      target: 5,
      rounds,
      round: async (side) => {
        const doomed = of(side).identities.splice(0, deletesPerRound);
        const result = await side.client.load(doomed.length, AT_A_TIME, (index) =>
          remove(`/identities/${doomed[index]}`),
        );
        return rate(result, doomed.length);
      },
    },
    emit,
  );

  for (const side of sides) {
    const { controller, database } = side.memory();
    emit({
      figure: "memory after all this",
      side: side.label,
      controllerMiB: rounded(controller),
      databaseMiB: rounded(database),
    });
  }
}

/** Both sides compile, connect and cache before anything counts. */
async function warmUp(sides: readonly Side[]): Promise<void> {
  for (const side of sides) {
    const ids: string[] = [];
    await side.client.load(
      200,
      AT_A_TIME,
      (index) => post("/identities", { ...newIdentity(index), name: `warm-${index}`, roleAttributes: ["warm"] }),
      ({ text }) => ids.push(idOf(text)),
    );
    await side.client.load(400, AT_A_TIME, (index) => get(`/identities/${ids[index % ids.length]}`));
    await side.client.load(50, AT_A_TIME, () => get("/identities?limit=100"));
    await side.client.load(ids.length, AT_A_TIME, (index) => remove(`/identities/${ids[index]}`));
  }
}

/** Logins with logouts. What argon2id costs is the hash's doing and not ours: it is measured by itself, and taken off. */
async function measureLogins(sides: readonly Side[], effort: TableEffort, emit: Emit): Promise<void> {
  const username = "password-user";
  const password = "quite-a-long-password";
  const count = Math.ceil(effort.requests / 20);
  const loginAndOut = async (side: Side): Promise<Round> => {
    const result = await side.client.run(count, AT_A_TIME, async (_, ask) => {
      const { text } = await ask({
        method: "POST",
        path: `${API}/authenticate?method=password`,
        body: { username, password },
        token: "",
      });
      const { token } = (JSON.parse(text) as { data: { token: string } }).data;
      await ask({ method: "DELETE", path: `${API}/current-api-session`, token });
    });
    return rate(result, count);
  };
  for (const side of sides) {
    const identity = idOf((await side.client.ask(post("/identities", { ...newIdentity(0), name: username }))).text);
    await side.client.ask(post("/authenticators", { method: "updb", identityId: identity, username, password }));
  }
  await compare(
    sides,
    { figure: "password login and logout", unit: "per second", rounds: effort.rounds, round: loginAndOut },
    emit,
  );

  // In turn with our logins, so that both have the same machine: what is left over is everything but the hash.
  const own = sides.find((side) => side.label === "ours");
  const hash = await hashPassword(password);
  const rates: number[] = [];
  const bare: number[] = [];
  const others: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const began = performance.now();
    const before = process.cpuUsage();
    let left = count;
    await Promise.all(
      Array.from({ length: AT_A_TIME }, async () => {
        while (left-- > 0) await checkPassword(hash, password);
      }),
    );
    const { user, system } = process.cpuUsage(before);
    const hashMs = (user + system) / 1_000 / count;
    rates.push((count / (performance.now() - began)) * 1_000);
    bare.push(hashMs);
    if (own === undefined) continue;
    const usedBefore = own.cpuSeconds();
    await loginAndOut(own);
    others.push(((own.cpuSeconds() - usedBefore) / count) * 1_000 - hashMs);
  }
  emit({
    figure: "argon2id alone, same parameters",
    unit: "per second",
    bare: rounded(median(rates)),
    cpuMs: rounded(median(bare)),
  });
  if (own === undefined) return;
  const cpuMs = rounded(median(others));
  emit({ figure: "login and logout, all but argon2id", unit: "ms of CPU", ours: cpuMs, target: 2, isMet: cpuMs <= 2 });
}

function newIdentity(index: number) {
  return {
    name: `identity-${numbered(index)}`,
    type: "Device",
    isAdmin: false,
    roleAttributes: ["bench", `g${index % 20}`],
    enrollment: { ott: true },
  };
}

function newService(index: number) {
  return {
    name: `service-${numbered(index)}`,
    encryptionRequired: true,
    roleAttributes: ["bench-service", ...(index < IN_BASE_POLICY ? ["base"] : [])],
  };
}

function newPolicy(name: string, identityRoles: readonly string[], serviceRoles: readonly string[]) {
  return { name, type: "Dial", semantic: "AnyOf", identityRoles, serviceRoles };
}
