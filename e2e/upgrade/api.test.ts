import { pause } from "@sallyport/async";
import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "../../controller/src/store/database.ts";
import { migrations } from "../../controller/src/store/migrations/all.ts";
import { RELEASED_LEVELS } from "../../controller/src/store/testing/released-levels.ts";
import { levelOf, type Migration } from "../../controller/src/store/upgrade/migration.ts";
import { eventually } from "../network/eventually.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { Random } from "../soak/random.ts";
import { Recorder } from "../system/replicas/history/recorder.ts";
import { ReplicaSet } from "../system/replicas/history/replica-set.ts";
import { Workloads } from "../system/replicas/history/workloads.ts";
import { lastRelease, releasedProgram } from "./last-release.ts";

const release = lastRelease();
const SEED = Number(process.env.SALLYPORT_REPLICA_SEED ?? Math.floor(Math.random() * 1_000_000));
/** Between two steps the workloads run on replicas that do not change. */
const BETWEEN_MS = 1_500;
/** A migration of a later release, which takes away what the tree needs. */
const LATER = levelOf(migrations) + 1;
const CONTRACTION: Migration = {
  id: `${LATER}_later`.padStart(10, "0"),
  kind: "contracts",
  worksFrom: LATER,
  up: async (db) => void (await sql`DROP TABLE failed_attempt`.execute(db)),
};

describe.skipIf(release === undefined)(
  `controllers of version ${release?.version} and of the tree on one database`,
  () => {
    const folder = makeScratch("upgrade-api");
    let released: string;
    let set: ReplicaSet;
    let later: Store | undefined;
    beforeAll(async () => {
      released = releasedProgram(release ?? { version: "", commit: "" }, "controller");
      set = await ReplicaSet.start(folder, 3, released);
    });
    afterAll(async () => {
      await later?.close();
      await set?.stop();
      removeScratch(folder);
    });

    it(`answer as one while they are upgraded one at a time, while one goes back, and while it is upgraded again (SALLYPORT_REPLICA_SEED=${SEED})`, async () => {
      const recorder = new Recorder();
      const workloads = new Workloads(set, recorder, new Random(SEED));
      await workloads.prepare();
      workloads.start();
      const done: string[] = [];
      const step = async (at: number, programFile?: string) => {
        await pause(BETWEEN_MS);
        await set.replace(at, programFile);
        await set.answering(workloads.token);
        done.push(`${set.idOf(at)} runs ${programFile === undefined ? "the tree" : "the last release"}`);
      };
      try {
        for (let at = 0; at < set.size; at++) await step(at);
        for (const at of [1, 2]) await step(at, released);
        for (const at of [1, 2]) await step(at);
        await pause(BETWEEN_MS);
      } finally {
        await workloads.stop();
      }
      await workloads.readAll();
      const { answers, registerOperations, views } = recorder.counts;
      expect(recorder.problems(), `seed ${SEED}, ${answers} answers\n${done.join("\n")}`).toEqual([]);
      expect(registerOperations).toBeGreaterThan(100);
      expect(views).toBeGreaterThan(100);
      console.log(`${answers} answers, ${registerOperations} operations on registers, ${views} views`);
    });

    it("a later version waits for them with what it takes away, and then they are refused with what to do", async () => {
      await set.replace(0, released);
      const warnings: string[] = [];
      const warn = (fields: object, text?: string) => void warnings.push(`${text} ${JSON.stringify(fields)}`);
      later = await openStore({
        connection: set.connection,
        replica: { id: "later", version: "later" },
        program: { migrations: [...migrations, CONTRACTION], quietMs: 0, againMs: 200 },
        log: { ...silentLogger, warn },
      });
      const [waits] = warnings;
      const { rows } = await sql<{ level: number }>`SELECT level FROM replica_lease WHERE replica_id = 'c1'
      AND until > now()`.execute(later.db);
      expect(rows, "the level of the last release is the last of these").toEqual([{ level: RELEASED_LEVELS.at(-1) }]);
      for (const id of ["c1", "c2", "c3"]) expect(waits).toContain(`${id}: sallyport-replica on `);
      expect(waits).toContain(`version ${release?.version}`);
      const { db } = later;
      const isThere = async () => {
        const found = await sql`SELECT FROM pg_tables WHERE tablename = 'failed_attempt'`.execute(db);
        return found.rows.length === 1;
      };
      for (let at = 0; at < set.size; at++) {
        expect(await isThere()).toBe(true);
        await set.stopReplica(at);
      }
      await eventually("the later version takes it away", async () => !(await isThere()));
      for (let at = 0; at < 2; at++) {
        const { code, output } = await set.runToEnd(at);
        expect(output).toContain(
          `it works with programs of schema level ${LATER} or higher, and this program has level`,
        );
        expect(output).toContain("run the newer version, or restore a backup");
        expect(code).toBe(4);
      }
    });
  },
);
