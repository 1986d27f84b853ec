import fc from "fast-check";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Attributed, matches } from "../../policy/selector.ts";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { type RoleSelection, selectedBy, selectedByAny, selects, selectsRow } from "./selection-sql.ts";

let test: TestStore;
beforeAll(async () => {
  test = await testStore();
  await test.store.pool.query(`
    INSERT INTO service (id, name, encryption_required) SELECT n, n, true FROM unnest('{1,2,3}'::text[]) n;
    INSERT INTO service_policy (id, name, type, semantic) VALUES ('p', 'p', 'Dial', 'AnyOf')`);
});
afterAll(() => test.drop());

const attr = fc.constantFrom("a", "b", "c", "d");
const entity = fc.record({ id: fc.constantFrom("1", "2", "3"), attrs: fc.uniqueArray(attr) });
const selection = fc.record({
  semantic: fc.constantFrom("AllOf" as const, "AnyOf" as const),
  selector: fc.record({
    all: fc.boolean(),
    attrs: fc.uniqueArray(attr),
    ids: fc.uniqueArray(fc.constantFrom("1", "2")),
  }),
});
const isMeant = ({ selector, semantic }: RoleSelection, e: Attributed) => matches(selector, semantic, e);

async function ask(condition: RawBuilder<SqlBool>, from: RawBuilder<unknown>): Promise<unknown> {
  const { rows } = await sql<{ answer: boolean }>`SELECT ${condition} AS answer FROM ${from}`.execute(test.store.db);
  expect(rows.length).toBe(1);
  return rows[0]?.answer;
}

const row = (e: Attributed) => sql`(SELECT ${e.id}::text AS id, ${e.attrs}::text[] AS attrs) e`;

it("an entity is selected in SQL as it is in memory, for any selector", async () => {
  await fc.assert(
    fc.asyncProperty(entity, selection, async (e, s) => {
      expect(await ask(selectedBy(s, "e"), row(e))).toBe(isMeant(s, e));
    }),
    { numRuns: 200 },
  );
});

it("an entity is selected by any of several as it is by one of them", async () => {
  await fc.assert(
    fc.asyncProperty(entity, fc.array(selection, { maxLength: 4 }), async (e, several) => {
      expect(await ask(selectedByAny(several, "e"), row(e))).toBe(several.some((s) => isMeant(s, e)));
    }),
    { numRuns: 200 },
  );
});

it("a stored policy selects an entity, given or joined, as its selector does in memory", async () => {
  await fc.assert(
    fc.asyncProperty(entity, selection, async (e, s) => {
      const { all, attrs, ids } = s.selector;
      await sql`UPDATE service_policy SET semantic = ${s.semantic}, service_all = ${all}, service_attrs = ${attrs}`.execute(
        test.store.db,
      );
      await sql`DELETE FROM service_policy_ref`.execute(test.store.db);
      await sql`INSERT INTO service_policy_ref (policy_id, side, entity_id)
        SELECT 'p', 'service', id FROM unnest(${ids}::text[]) id`.execute(test.store.db);
      const policy = sql`service_policy p`;
      expect(await ask(selects("service_policy", "service", e, "p"), policy)).toBe(isMeant(s, e));
      const joined = selectsRow("service_policy", "service", "e", "p");
      expect(await ask(joined, sql`${policy}, ${row(e)}`)).toBe(isMeant(s, e));
    }),
    { numRuns: 100 },
  );
});

it("no policy selects an entity that does not exist, not even one for #all", async () => {
  await sql`UPDATE service_policy SET service_all = true`.execute(test.store.db);
  expect(await ask(selects("service_policy", "service", undefined, "p"), sql`service_policy p`)).toBe(false);
});
