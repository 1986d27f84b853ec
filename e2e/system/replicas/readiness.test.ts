/** What load balancers and probes are told of controllers on one database, and how one of them leaves. */
import { writeFileSync } from "node:fs";
import { Agent, get } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BreakableWay } from "../../../controller/src/store/testing/breakable-way.ts";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { eventually } from "../../network/eventually.ts";
import { Program } from "../../network/program.ts";
import { type Replica, startReplicaAt } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const MAIN = join(import.meta.dirname, "..", "..", "..", "controller", "src", "main.ts");
const DRAIN_MS = 3_000;

interface Member {
  readonly file: string;
  readonly way: BreakableWay;
  readonly at: { readonly id: string; readonly apiPort: number; readonly ctrlPort: number };
  replica: Replica;
}

const folder = makeScratch("readiness");
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
let database: Awaited<ReturnType<typeof testDatabase>>;
const members: Member[] = [];
const [first, second] = [() => members[0] as Member, () => members[1] as Member];

async function init(file: string, id: string): Promise<{ code: number | null; output: string }> {
  const program = new Program({
    name: `init of ${id}`,
    command: process.execPath,
    args: [MAIN, "init", "--config", file],
    env: { SALLYPORT_REPLICA_ID: id, SALLYPORT_ADMIN_PASSWORD: "correct-horse-battery" },
  });
  return { code: await program.exited, output: program.tail.join("\n") };
}

async function startMember(id: string): Promise<Member> {
  const [apiPort = 0, ctrlPort = 0] = await freePorts(2);
  const way = await BreakableWay.to(database.connection);
  const file = join(folder, `${id}.yml`);
  const shared = { bind: `127.0.0.1:${apiPort}`, advertise: "localhost:1280" };
  const settings = {
    ...{ v: 1, api: { ...shared, drain: `${DRAIN_MS}ms` }, ctrl: shared },
    ...{ database: { url: urlOf(way.connection) }, secretKeyFile: join(folder, "secret.key") },
  };
  writeFileSync(file, JSON.stringify(settings), { mode: 0o600 });
  expect(await init(file, id)).toMatchObject({ code: 0 });
  const at = { id, apiPort, ctrlPort };
  return { file, way, at, replica: await startReplicaAt({ controllerFile: file, folder }, at) };
}

interface Told {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of several kinds
  readonly json: any;
  readonly connection: string | undefined;
}

function ask({ at }: Member, path: string): Promise<Told> {
  return new Promise((resolve, reject) => {
    const asked = get({ agent, host: "localhost", port: at.apiPort, path }, (response) => {
      const { statusCode: status = 0, headers } = response;
      const { connection } = headers;
      text(response).then((body) => resolve({ status, json: JSON.parse(body), connection }), reject);
    });
    asked.once("error", reject);
  });
}

const ready = async (member: Member) => (await ask(member, "/health-checks/ready")).status;
const untilReady = (what: string, member: Member, status: number) =>
  eventually(`${member.at.id} ${what}`, async () => (await ready(member)) === status);

beforeAll(async () => {
  database = await testDatabase();
  for (const id of ["c1", "c2"]) members.push(await startMember(id));
}, 180_000);

afterAll(async () => {
  agent.destroy();
  await Promise.all(members.map(({ replica }) => replica.program.stop()));
  for (const { way } of members) await way.close();
  await database?.drop();
  removeScratch(folder);
}, 120_000);

describe("controllers behind a load balancer", { timeout: 120_000 }, () => {
  it("are ready as soon as they know what the others write", async () => {
    for (const member of members) await untilReady("is ready", member, 200);
    expect((await ask(first(), "/health-checks/ready")).json).toEqual({ data: { healthy: true } });
  });

  it("are not disturbed by `init`, which finds their network complete", async () => {
    const before = members.map(({ replica }) => replica.program.pid);
    const { code, output } = await init(first().file, "c3");
    expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining("Nothing had to be done") });
    for (const member of members) expect(await ready(member)).toBe(200);
    expect(members.map(({ replica }) => replica.program.isRunning && replica.program.pid)).toEqual(before);
  });

  it("without the database get no requests if another one has it", async () => {
    await second().way.cut();
    await untilReady("is taken out", second(), 503);
    const { reason } = (await ask(second(), "/health-checks/ready")).json.data;
    expect(reason).toBe("what the other controllers write is not known here");
    expect(await ready(second())).toBe(503);
    expect(await ready(first())).toBe(200);
    await second().way.restore();
    await untilReady("is back", second(), 200);
  });

  it("answer all, and none is started again, if none has the database", async () => {
    for (const { way } of members) await way.cut();
    for (const member of members) {
      await eventually(
        "the database is missed",
        async () => (await ask(member, "/health-checks/member")).status === 503,
      );
      await untilReady("says what is wrong to whoever asks", member, 200);
      expect((await ask(member, "/edge/client/v1/version")).status).toBe(200);
    }
    for (const { way } of members) await way.restore();
    for (const member of members) {
      await eventually("the database is back", async () => (await ask(member, "/health-checks/member")).status === 200);
      expect(await ready(member)).toBe(200);
    }
  });

  it("that stop first say so, and answer what comes meanwhile", async () => {
    const { program } = second().replica;
    const stopping = program.nextLine(/stopping/);
    program.signal("SIGTERM");
    await stopping;
    await untilReady("is taken out", second(), 503);
    expect((await ask(second(), "/health-checks/ready")).json.data.reason).toBe("stopping");
    const answer = await ask(second(), "/edge/client/v1/version");
    expect(answer).toMatchObject({ status: 200, connection: "close" });
    expect(await ready(first())).toBe(200);
    expect(await program.exited).toBe(0);
    second().replica = await startReplicaAt({ controllerFile: second().file, folder }, second().at);
    await untilReady("is ready again", second(), 200);
  });
});
