import { silentLogger } from "@sallyport/wire";
import fc from "fast-check";
import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { appendChange, ChangeLog } from "../../store/changes/change-log.ts";
import { DatabaseUnavailableError } from "../../store/outage.ts";
import type { EngineTables } from "../../store/schema.ts";
import { interposed, type TestStore, testStore } from "../../store/testing/test-store.ts";
import { seed } from "../seeds.ts";
import { testContext } from "../testing/test-context.ts";
import { PolicyMirror } from "./policy-mirror.ts";

/** What happens at a query of the index or of the change log: whether another writer changes the policy before or after it, and whether it fails. */
const event = fc.record({
  writes: fc.constantFrom("before" as const, "after" as const, "not" as const, "not" as const),
  fails: fc.boolean(),
});

const NEVER_MS = 1e9;
const ann = { id: "ann", attrs: ["sales"] };
let test: TestStore;
let script: (typeof event extends fc.Arbitrary<infer T> ? T : never)[] = [];
let isAllowed = false;

beforeAll(async () => {
  test = await testStore();
  await seed(test.store);
  await sql`INSERT INTO service (id, name, encryption_required, attrs) VALUES ('web', 'web', true, '{web}')`.execute(
    test.store.db,
  );
  await sql`INSERT INTO service_policy (id, name, type, semantic, identity_attrs, service_attrs)
    VALUES ('p', 'p', 'Dial', 'AnyOf', '{other}', '{web}')`.execute(test.store.db);
});
afterAll(() => test.drop());

let changing = Promise.resolve();
/** Changes that were begun, and those that have ended. */
const changes = { begun: 0, ended: 0 };

/** Another writer gives the right or takes it: one after the other, because a reader that tries again later may do so while the next question is asked. */
function change(): Promise<void> {
  changes.begun++;
  changing = changing.then(changed).finally(() => changes.ended++);
  return changing;
}

async function changed(): Promise<void> {
  await test.store.transaction(async (trx) => {
    const attrs = isAllowed ? ["other"] : ["sales"];
    await sql`UPDATE service_policy SET identity_attrs = ${attrs} WHERE id = 'p'`.execute(trx);
    await appendChange(trx, { kind: "service_policy", key: "p", op: "update" });
  });
  isAllowed = !isAllowed;
}

/** What the script says at a query. */
async function scripted(text: string, run: () => Promise<unknown>): Promise<unknown> {
  const { writes, fails } = script.shift() ?? { writes: "not", fails: false };
  if (writes === "before") await change();
  try {
    // Of a transaction that is ended the connection is used by others.
    if (fails && !/^(commit|rollback)/.test(text)) throw new DatabaseUnavailableError("the script says so");
    return await run();
  } finally {
    if (writes === "after") await change();
  }
}

it("whatever fails while the index is kept, an answer shows all that was committed before the question", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 60 }), fc.boolean(), async (events, isLoaded) => {
      script = [];
      const db = interposed(test.store, scripted);
      const changeLog = new ChangeLog({
        ...{ db: db as unknown as Kysely<EngineTables>, pollMs: NEVER_MS, pruneEveryMs: NEVER_MS, log: silentLogger },
      });
      const mirror = new PolicyMirror(testContext({ ...test.store, db, changes: changeLog }));
      await changeLog.start();
      if (isLoaded) await mirror.current();
      script = [...events];
      for (let question = 0; question < 12; question++) {
        if (question % 2 === 0) await change();
        const atLeast = isAllowed;
        const { begun, ended } = changes;
        const answer = await mirror.current().catch((error: unknown) => {
          if (!(error instanceof DatabaseUnavailableError)) throw error;
        });
        if (answer === undefined) continue;
        // What is changed while the question is answered may be in the answer or not.
        if (begun !== ended || changes.begun !== begun) continue;
        expect(answer.accessTo(ann, "web")?.permissions).toEqual(atLeast ? ["Dial"] : undefined);
      }
      script = [];
      await changing;
      expect((await mirror.current()).accessTo(ann, "web")?.permissions).toEqual(isAllowed ? ["Dial"] : undefined);
      mirror.close();
      await changeLog.close();
    }),
    { numRuns: 150 },
  );
}, 120_000);
