import { sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { testTokens } from "../auth/tokens/testing/test-tokens.ts";
import { appendChange } from "../store/changes/change-log.ts";
import { currentSnapshot, pruneChanges, readChanges } from "../store/changes/change-log-reads.ts";
import { settled, type TestStore, testStore } from "../store/testing/test-store.ts";
import { expiries } from "./expiry.ts";
import { seed } from "./seeds.ts";
import { testContext } from "./testing/test-context.ts";

let test: TestStore;
beforeAll(async () => {
  test = await testStore();
  await seed(test.store);
});
afterAll(() => test.drop());

const SIGNAL = new AbortController().signal;

async function size(table: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`SELECT count(*)::int AS n FROM ${sql.table(table)}`.execute(test.store.db);
  return rows[0]!.n;
}

it("keeps tables flat under churn: what expires goes, in batches, and the change log says so", async () => {
  const { db } = test.store;
  const start = Date.UTC(2026, 0, 1);
  let day = 0;
  const now = () => new Date(start + day * 86_400_000);
  const tokens = await testTokens(test.store, { now });
  const sweeps = expiries({ ...testContext(test.store), tokens, now });
  const sizes: number[][] = [];
  for (; day < 120; day += 10) {
    // Ten days of enrollments that no client completes, and of session certificates.
    await sql`INSERT INTO identity (id, name, type_id) SELECT 'd' || ${day}::int || '-' || n, 'd' || ${day}::int || '-' || n, 'Default' FROM generate_series(1, 700) n`.execute(
      db,
    );
    await sql`INSERT INTO enrollment (id, method, identity_id, token, jwt, issued_at, expires_at)
      SELECT 'e' || id, 'ott', id, id, '', ${now()}, ${now()} FROM identity WHERE id LIKE ${`d${day}-%`}`.execute(db);
    await sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES (${`a${day}`}, ${`a${day}`}, ${`d${day}-1`}, '', '')`.execute(
      db,
    );
    await sql`INSERT INTO api_session_certificate (id, api_session_id, subject, fingerprint, cert_pem, valid_from, valid_to)
      SELECT 'c' || ${day}::int || '-' || n, ${`a${day}`}, '', '', '', ${now()}, ${now()} FROM generate_series(1, 600) n`.execute(
      db,
    );
    await sql`INSERT INTO oidc_login (id, client_id, redirect_uri, state, nonce, code_challenge, scopes, config_types, remote_address, api_session_id, expires_at)
      SELECT 'l' || ${day}::int || '-' || n, '', '', '', '', '', '{}', '{}', '', ${`a${day}`}, ${now()} FROM generate_series(1, 600) n`.execute(
      db,
    );
    await tokens.keys.rotate({ atOnce: false });
    await settled(test.store);
    for (const { sweep } of sweeps) await sweep(SIGNAL);
    await sql`UPDATE change_log SET at = at - interval '2 hours'`.execute(db);
    await pruneChanges(db, 3_600);
    sizes.push([await size("enrollment"), await size("api_session_certificate"), await size("change_log")]);
    // The key that signs, and the one before: its tokens count for a day.
    expect([await size("oidc_login"), await size("token_key")]).toEqual([0, 2]);
  }
  tokens.close();
  // Enrollments stay 30 days after their time, session certificates one: the same number from then on, whatever comes.
  const late = sizes.slice(5);
  expect(new Set(late.map(([enrollments]) => enrollments))).toEqual(new Set([2_800]));
  expect(new Set(late.map(([, certificates]) => certificates))).toEqual(new Set([600]));
  for (const [, , log] of late) expect(log).toBeLessThan(2_000);
});

it("a long transaction loses nothing that it wrote, and resets no subscriber", async () => {
  const { db } = test.store;
  await settled(test.store);
  let since = await currentSnapshot(db);
  let end: () => void = () => undefined;
  let begun: () => void = () => undefined;
  const isBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const long = db.transaction().execute(async (trx) => {
    await appendChange(trx, { kind: "long", key: "written early", op: "create" });
    await sql`UPDATE change_log SET at = at - interval '2 hours' WHERE kind = 'long'`.execute(trx);
    begun();
    await new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  await isBegun;
  for (let i = 0; i < 5; i++) {
    await appendChange(db, { kind: "short", key: `${i}`, op: "create" });
    const read = await readChanges(db, since);
    expect(read.rows.map(({ key }) => key)).toEqual([`${i}`]);
    expect(read.reset).toBe(false);
    since = read.snapshot;
    await sql`UPDATE change_log SET at = at - interval '2 hours' WHERE kind = 'short'`.execute(db);
    await pruneChanges(db, 3_600, 100, since);
    expect((await readChanges(db, since)).reset).toBe(false);
  }
  end();
  await long;
  // Committed only now, older than the bound: it is read all the same, before it may go.
  await pruneChanges(db, 3_600, 100, since);
  const { rows, reset } = await readChanges(db, since);
  expect([reset, rows.map(({ key }) => key)]).toEqual([false, ["written early"]]);
});
