import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RawBuilder, sql } from "kysely";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { PolicyMirror } from "../policy/policy-mirror.ts";
import { seed, seedAdmin } from "../seeds.ts";
import { testContext } from "../testing/test-context.ts";
import { DataIntegrity, type IntegrityReport } from "./data-integrity.ts";
import { networkChecks } from "./network-rules.ts";
import { Snapshots } from "./snapshots.ts";

let test: TestStore;
let ctx: ModelContext;
let mirror: PolicyMirror;
let integrity: DataIntegrity;

beforeEach(async () => {
  test = await testStore();
  ctx = testContext(test.store);
  await seed(test.store);
  await seedAdmin(test.store, { name: "Default Admin", username: "admin", passwordHash: "$argon2id$x" });
  await run(
    sql`INSERT INTO identity (id, name, type_id, attrs) VALUES ('i1', 'i1', 'Default', '{a,b}'), ('i2', 'i2', 'Default', '{c}')`,
  );
  await run(
    sql`INSERT INTO service (id, name, encryption_required, attrs) VALUES ('s1', 's1', true, '{a}'), ('s2', 's2', true, '{b}')`,
  );
  await run(sql`INSERT INTO router (id, name, attrs) VALUES ('r1', 'r1', '{edge}'), ('r2', 'r2', '{}')`);
  await run(sql`INSERT INTO service_policy (id, name, type, semantic, identity_attrs, service_attrs)
    VALUES ('p1', 'p1', 'Dial', 'AnyOf', '{a}', '{a}'), ('p2', 'p2', 'Bind', 'AllOf', '{b}', '{b}')`);
  await run(
    sql`INSERT INTO service_policy_ref (policy_id, side, entity_id) VALUES ('p1', 'identity', 'i2'), ('p1', 'service', 's2')`,
  );
  await run(
    sql`INSERT INTO edge_router_policy (id, name, semantic, identity_all, router_attrs) VALUES ('e1', 'e1', 'AnyOf', true, '{edge}')`,
  );
  await run(
    sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES ('a1', 'a1', 'i1', 'x', '')`,
  );
  await run(
    sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('z1', 'z1', 'a1', 'i1', 's1', 'Dial')`,
  );
  mirror = new PolicyMirror(ctx);
  await mirror.current();
  integrity = new DataIntegrity(ctx, mirror);
});
afterEach(async () => {
  await integrity.stop();
  mirror.close();
  await test.drop();
});

const run = (query: RawBuilder<unknown>) => query.execute(test.store.db);

async function outcome(fix: boolean): Promise<IntegrityReport> {
  integrity.start({ fix });
  expect(integrity.report()).toMatchObject({ inProgress: true, fixingErrors: fix, endTime: null });
  await expect.poll(() => integrity.report().inProgress, { timeout: 20_000 }).toBe(false);
  const report = integrity.report();
  expect(report.error).toBeNull();
  expect(report.startTime).toBeInstanceOf(Date);
  expect(report.endTime).toBeInstanceOf(Date);
  return report;
}

const described = ({ results }: IntegrityReport) => results.map(({ description }) => description);

/** Writes around what the database enforces. */
async function corrupt(query: RawBuilder<unknown>): Promise<void> {
  const { administrator, ...connection } = test.connection;
  const client = new pg.Client({ ...connection, ...administrator });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica");
    const { sql: text, parameters } = query.compile(test.store.db);
    await client.query(text, [...parameters]);
  } finally {
    await client.end();
  }
}

/** Each has a corruption, what the check says of it, and what is true after the fix. */
const CORRUPTIONS: readonly [string, RawBuilder<unknown>, RegExp, RawBuilder<unknown>, readonly unknown[]][] = [
  [
    "a selector that names a service that is gone",
    sql`INSERT INTO service_policy_ref (policy_id, side, entity_id) VALUES ('p1', 'service', 'gone')`,
    /^service_policy_ref p1\/service\/gone refers by service_id to service gone, which does not exist$/,
    sql`SELECT entity_id FROM service_policy_ref WHERE policy_id = 'p1' ORDER BY 1`,
    [{ entity_id: "i2" }, { entity_id: "s2" }],
  ],
  [
    "an API session of an identity that is gone, with its session",
    sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES ('a2', 'a2', 'gone', 'x', '')`,
    /^api_session a2 refers by identity_id to identity gone, which does not exist$/,
    sql`SELECT id FROM api_session`,
    [{ id: "a1" }],
  ],
  [
    "a session whose API session is gone",
    sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('z2', 'z2', 'gone', 'i1', 's1', 'Dial')`,
    /^session z2 refers by api_session_id to api_session gone/,
    sql`SELECT id FROM session`,
    [{ id: "z1" }],
  ],
  [
    "a terminator of a router that is gone",
    sql`INSERT INTO terminator (id, service_id, router_id, binding, address) VALUES ('t', 's1', 'gone', 'edge', 'a')`,
    /^terminator t refers by router_id to router gone/,
    sql`SELECT id FROM terminator`,
    [],
  ],
  [
    "an authenticator without an identity",
    sql`INSERT INTO authenticator (id, identity_id, method, username, password_hash) VALUES ('u', 'gone', 'updb', 'u', 'x')`,
    /^authenticator u refers by identity_id to identity gone/,
    sql`SELECT id FROM authenticator WHERE id = 'u'`,
    [],
  ],
  [
    "an identity whose auth policy is gone",
    sql`UPDATE identity SET auth_policy_id = 'gone' WHERE id = 'i1'`,
    /^identity i1 refers by auth_policy_id to auth_policy gone/,
    sql`SELECT auth_policy_id FROM identity WHERE id = 'i1'`,
    [{ auth_policy_id: "default" }],
  ],
  [
    "an auth policy that asks for a signer that is gone",
    sql`UPDATE auth_policy SET require_ext_jwt_signer = 'gone', ext_jwt_signers = '{gone}' WHERE id = 'default'`,
    /ext_jwt_signer gone, which does not exist|allows the external JWT signer gone/,
    sql`SELECT require_ext_jwt_signer, ext_jwt_signers FROM auth_policy WHERE id = 'default'`,
    [{ require_ext_jwt_signer: null, ext_jwt_signers: [] }],
  ],
  [
    "attributes that are not sorted, or there twice",
    sql`UPDATE identity SET attrs = '{b,a,b}' WHERE id = 'i1'`,
    /^identity i1: its attrs are not sorted, or some are there twice$/,
    sql`SELECT attrs FROM identity WHERE id = 'i1'`,
    [{ attrs: ["a", "b"] }],
  ],
  [
    "selectors that are not sorted",
    sql`UPDATE service_policy SET service_attrs = '{z,a}' WHERE id = 'p1'`,
    /^service_policy p1: its service_attrs are not sorted/,
    sql`SELECT service_attrs FROM service_policy WHERE id = 'p1'`,
    [{ service_attrs: ["a", "z"] }],
  ],
  [
    "an attribute that the list of attributes does not know",
    sql`DELETE FROM identity_attr WHERE attr = 'a'`,
    /^identity i1 has the attribute a, and the list/,
    sql`SELECT identity_id FROM identity_attr WHERE attr = 'a'`,
    [{ identity_id: "i1" }],
  ],
  [
    "an attribute in the list that no identity has",
    sql`INSERT INTO identity_attr (attr, identity_id) VALUES ('never', 'i2')`,
    /names never for identity i2, which does not have it$/,
    sql`SELECT attr FROM identity_attr WHERE identity_id = 'i2'`,
    [{ attr: "c" }],
  ],
  [
    "a tunneler without its identity and policy",
    sql`UPDATE router SET is_tunneler_enabled = true WHERE id = 'r2'`,
    /^router r2 runs a tunneler, and its identity/,
    sql`SELECT i.type_id, i.name, p.name AS policy, count(*)::int AS refs FROM identity i JOIN edge_router_policy p ON p.id = i.id
      JOIN edge_router_policy_ref f ON f.policy_id = p.id WHERE i.id = 'r2' GROUP BY 1, 2, 3`,
    [{ type_id: "Router", name: "r2", policy: "edge-router-r2-system", refs: 2 }],
  ],
  [
    "the policy of a tunneler that there is not",
    sql`INSERT INTO edge_router_policy (id, name, semantic, is_system) VALUES ('r1', 'edge-router-r1-system', 'AnyOf', true)`,
    /^edge router policy edge-router-r1-system belongs to the tunneler of a router that has none$/,
    sql`SELECT id FROM edge_router_policy`,
    [{ id: "e1" }],
  ],
  [
    "a missing default auth policy and config type",
    sql`DELETE FROM config_type WHERE name = 'host.v1'`,
    /^the config type host.v1, which every network has, is missing$/,
    sql`SELECT name FROM config_type WHERE name = 'host.v1'`,
    [{ name: "host.v1" }],
  ],
  [
    "a session without access",
    sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('z3', 'z3', 'a1', 'i1', 's1', 'Bind')`,
    /^session z3 of identity i1 for service s1 is allowed by no policy$/,
    sql`SELECT id FROM session`,
    [{ id: "z1" }],
  ],
  [
    "a session of another identity than its API session",
    sql`UPDATE session SET identity_id = 'i2' WHERE id = 'z1'`,
    /^session z1 is of another identity than its API session$/,
    sql`SELECT id FROM session`,
    [],
  ],
  [
    "references that are not enforced",
    sql`ALTER TABLE session DISABLE TRIGGER ALL`,
    /^table session does not enforce .*session_api_session_id_fkey/,
    sql`SELECT count(*)::int AS off FROM pg_trigger WHERE tgrelid = 'session'::regclass AND tgenabled <> 'O'`,
    [{ off: 0 }],
  ],
  [
    "the trigger of the attribute list switched off",
    sql`ALTER TABLE identity DISABLE TRIGGER identity_attr_update`,
    /^table identity does not enforce identity_attr_update/,
    sql`SELECT tgenabled FROM pg_trigger WHERE tgname = 'identity_attr_update'`,
    [{ tgenabled: "O" }],
  ],
  [
    "policies in memory that are not those of the database",
    // No reader of the change log learns of it.
    sql`UPDATE service_policy SET identity_attrs = '{c}' WHERE id = 'p2'`,
    /^the policies in memory give identity i\d other access than those in the database$/,
    sql`SELECT identity_attrs FROM service_policy WHERE id = 'p2'`,
    [{ identity_attrs: ["c"] }],
  ],
];

describe("a data integrity run", () => {
  it("finds nothing in a network that is whole", async () => {
    expect(integrity.report()).toMatchObject({ inProgress: false, startTime: null, endTime: null, results: [] });
    expect(await outcome(false)).toMatchObject({ results: [], tooManyErrors: false, fixingErrors: false });
    expect((await outcome(true)).results).toEqual([]);
  });

  it.each(CORRUPTIONS)("finds and repairs %s", async (_what, corruption, description, afterwards, expected) => {
    await corrupt(corruption);
    const checked = await outcome(false);
    expect(described(checked)).toContainEqual(expect.stringMatching(description));
    expect(checked.results.every(({ fixed }) => !fixed)).toBe(true);
    const { rows: stillThere } = await sql`${afterwards}`.execute(test.store.db);
    if (!description.source.includes("in memory")) expect(stillThere).not.toEqual(expected);

    const fixed = await outcome(true);
    if (test.connection.administrator && description.source.includes("session_api_session_id_fkey")) {
      // Only a superuser may switch such triggers on again.
      expect(fixed.results).toEqual([{ description: expect.stringMatching(description), fixed: false }]);
      return;
    }
    expect(described(fixed)).toEqual(expect.arrayContaining(described(checked).slice(0, 1)));
    expect(fixed.results.every((result) => result.fixed)).toBe(true);
    expect((await sql`${afterwards}`.execute(test.store.db)).rows).toEqual(expected);
    expect((await outcome(false)).results).toEqual([]);
  });

  it("tells those who follow the change log what it repaired", async () => {
    const seen: string[] = [];
    test.store.changes.subscribe({
      name: "test",
      onChanges: (rows) =>
        void seen.push(...rows.map(({ kind, key, op, before }) => `${op} ${kind} ${key} ${before?.token ?? ""}`)),
      onReset: () => undefined,
    });
    await corrupt(
      sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('z2', 'token', 'gone', 'i1', 's1', 'Dial')`,
    );
    await corrupt(sql`INSERT INTO service_policy_ref (policy_id, side, entity_id) VALUES ('p1', 'identity', 'gone')`);
    await outcome(true);
    await test.store.changes.caughtUp();
    expect(seen.sort()).toEqual(["delete session z2 token", "update service_policy p1 "]);
  });

  it("ends no session that a policy allows again since it was found", async () => {
    const access = networkChecks().find(({ name }) => name === "access of sessions");
    await run(sql`UPDATE service_policy SET type = 'Bind' WHERE id = 'p1'`);
    const found = await access?.find(test.store.db, 10);
    expect(found).toMatchObject([{ key: "z1" }]);
    await run(sql`UPDATE service_policy SET type = 'Dial' WHERE id = 'p1'`);
    await access?.fix?.(test.store.db, found ?? []);
    expect((await run(sql`SELECT id FROM session`)).rows).toEqual([{ id: "z1" }]);
  });

  it("says what it cannot repair, and goes on", async () => {
    await run(sql`UPDATE identity SET is_admin = false, is_default_admin = false`);
    await run(sql`DROP TRIGGER identity_attr_insert ON identity`);
    const { results } = await outcome(true);
    expect(results).toEqual([
      {
        description: expect.stringMatching(/^the trigger identity_attr_insert of table identity is gone/),
        fixed: false,
      },
      { description: expect.stringMatching(/^no identity is an administrator/), fixed: false },
    ]);
  });

  it("keeps at most 1000 results, and a fix repairs all the same", async () => {
    await corrupt(sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type)
      SELECT 'o' || n, 'o' || n, 'gone', 'i1', 's1', 'Dial' FROM generate_series(1, 1) n`);
    await corrupt(sql`INSERT INTO authenticator (id, identity_id, method, username, password_hash)
      SELECT 'o' || n, 'gone' || n, 'updb', 'o' || n, 'x' FROM generate_series(1, 1700) n`);
    expect(await outcome(false)).toMatchObject({ tooManyErrors: true, results: { length: 1000 } });
    expect(await outcome(true)).toMatchObject({ tooManyErrors: true, results: { length: 1000 } });
    expect(await outcome(false)).toMatchObject({ tooManyErrors: false, results: [] });
  });

  it("refuses a second one meanwhile, with 429", async () => {
    integrity.start({ fix: false });
    for (const fix of [true, false])
      expect(() => integrity.start({ fix })).toThrow(expect.objectContaining({ status: 429, code: "RATE_LIMITED" }));
    await expect.poll(() => integrity.report().inProgress, { timeout: 20_000 }).toBe(false);
    integrity.start({ fix: false });
  });

  it("ends when the controller stops", async () => {
    integrity.start({ fix: false });
    await integrity.stop();
    expect(integrity.report()).toMatchObject({ inProgress: false, error: "the controller was stopped" });
  });
});

describe("snapshots", () => {
  it("lie in one folder, one a minute, under the name that was asked for", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sallyport-snapshots-"));
    let now = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    const snapshots = new Snapshots({
      ...ctx,
      now: () => new Date(now),
      settings: { ...ctx.settings, snapshotFolder: folder },
    });
    expect(await snapshots.create()).toBe(join(folder, "sallyport-20260102-030405"));
    await expect(snapshots.create("other")).rejects.toMatchObject({
      status: 429,
      code: "RATE_LIMITED",
      headers: { "retry-after": "60" },
    });
    now += 61_000;
    expect(await snapshots.create("__DB_DIR__/x/__DB_FILE__.__DATE__.__TIME__.__RAFT_INDEX__")).toBe(
      join(folder, "x", "sallyport.20260102.030506.0"),
    );
    now += 61_000;
    for (const path of ["../x", "/etc/x", "a/../../x", "__DB_DIR__", ".", "a\u0000b", "a/", "x".repeat(600)]) {
      await expect(snapshots.create(path)).rejects.toMatchObject({ status: 400, cause: { field: "path" } });
    }
    await expect(snapshots.create("x/sallyport.20260102.030506.0")).rejects.toMatchObject({
      status: 400,
      cause: { field: "path" },
    });
    expect(await snapshots.create("after a failure")).toBe(join(folder, "after a failure"));
    await rm(folder, { recursive: true, force: true });
  });
});
