import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { seed, seedAdmin, UNUSED_NETWORK_ROWS } from "../../model/seeds.ts";
import { openStore, type Store } from "../database.ts";
import { KeyVault, loadSecrets, newSecretKey, SecretsError } from "../secrets.ts";
import { type TestStore, testDatabase, testStore } from "../testing/test-store.ts";
import { readBackupFile } from "./backup-file.ts";
import { restoreBackup, verifyBackup } from "./restore-backup.ts";
import { tablesInOrder } from "./tables.ts";
import { writeBackup } from "./write-backup.ts";

let folder: string;
let test: TestStore;
let backup: string;
const databases: { drop(): Promise<void> }[] = [];
const KEY = newSecretKey();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-backup-"));
  test = await testStore();
  await fill(test);
  backup = join(folder, "network.backup");
  await writeBackup({ connection: test.connection, file: backup });
});
afterAll(async () => {
  await test.drop();
  await rm(folder, { recursive: true, force: true });
});
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
});

/** Rows in every table whose text form is worth a second look. */
async function fill({ store }: TestStore): Promise<void> {
  await seed(store);
  await seedAdmin(store, { name: "Default Admin", username: "admin", passwordHash: "$argon2id$x" });
  await new KeyVault(store.db, await loadSecrets(undefined, { SALLYPORT_SECRET_KEY: KEY })).save("pki", { key: "k" });
  await sql`INSERT INTO identity (id, name, type_id, attrs, tags, created_at)
    SELECT 'i' || n, E'tab\t new\nline \\\\ \\N "quote" ' || n, 'Default', ARRAY['a', 'b,{}"' || n % 7], jsonb_build_object('ü', n, 'x', null),
      now() - n * interval '1 minute' FROM generate_series(1, 5000) n`.execute(store.db);
  await sql`INSERT INTO service (id, name, encryption_required, max_idle_time_millis) VALUES ('s', 'service', true, 9007199254740993)`.execute(
    store.db,
  );
  await sql`INSERT INTO router (id, name) VALUES ('r', '')`.execute(store.db);
  await sql`INSERT INTO terminator (id, service_id, router_id, binding, address, instance_secret)
    VALUES ('t', 's', 'r', 'edge', 'a', '\\x00ff0a5c'::bytea)`.execute(store.db);
  await sql`INSERT INTO service_policy (id, name, type, semantic, identity_attrs) VALUES ('p', 'p', 'Dial', 'AllOf', '{a}')`.execute(
    store.db,
  );
  await sql`INSERT INTO service_policy_ref (policy_id, side, entity_id) VALUES ('p', 'service', 's'), ('p', 'identity', 'i1')`.execute(
    store.db,
  );
  // A table before the one that it refers to, by name.
  await sql`INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed)
    VALUES ('z', 'of those who enroll', true, false, false, true)`.execute(store.db);
  await sql`INSERT INTO ext_jwt_signer (id, name, issuer, audience, enabled, use_external_id, enroll_to_cert, enroll_auth_policy_id)
    VALUES ('e', 'enrolls', 'https://idp.example', 'a', true, true, true, 'z')`.execute(store.db);
  await sql`INSERT INTO setting (name, value) VALUES ('change-log-pruned', '"7"'), ('kept', '{"a": [1]}')`.execute(
    store.db,
  );
}

async function emptyDatabase(): Promise<pg.ClientConfig> {
  const database = await testDatabase();
  databases.push(database);
  return database.connection;
}

/** Every row of every table that a backup keeps, as a checksum each. */
async function contents(connection: pg.ClientConfig): Promise<Record<string, string>> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    const found: Record<string, string> = {};
    for (const { name } of await tablesInOrder(client)) {
      const { rows } = await client.query<{ sum: string }>(
        `SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, E'\\n' ORDER BY t::text)), '') AS sum FROM "${name}" t
         WHERE t::text NOT LIKE '(change-log-pruned,%'`,
      );
      found[name] = rows[0]!.sum;
    }
    return found;
  } finally {
    await client.end();
  }
}

async function rewritten(change: (text: Buffer) => Buffer): Promise<string> {
  const file = join(folder, `changed-${Math.random()}`);
  await writeFile(file, gzipSync(change(gunzipSync(await readFile(backup)))));
  return file;
}

describe("a backup", () => {
  it("brings back every row of every table, and the database works on", async () => {
    const connection = await emptyDatabase();
    const report = await restoreBackup({ connection, file: backup });
    const [before, after] = [await contents(test.connection), await contents(connection)];
    expect(after).toEqual(before);
    expect(Object.keys(before)).toContain("identity_attr");
    expect(before.ext_jwt_signer).toMatch(/^1 /);
    expect(before.identity).toMatch(/^5001 /);
    expect(report.rows).toBeGreaterThan(15_000);
    const store = await openStore({ connection, hold: false, log: silentLogger });
    await store.db
      .updateTable("identity")
      .set({ attrs: ["new"] })
      .where("id", "=", "i1")
      .execute();
    const attrs = await store.db.selectFrom("identity_attr").select("attr").where("identity_id", "=", "i1").execute();
    expect(attrs).toEqual([{ attr: "new" }]);
    await store.close();
  });

  it("begins a new life where it is restored: index and timeline of what routers were told are not those of the former", async () => {
    const source = await emptyDatabase();
    const position = async (store: Store) =>
      store.db.selectFrom("setting").select("value").where("name", "=", "router-data-model").execute();
    const former = await openStore({ connection: source, log: silentLogger });
    await former.db
      .insertInto("setting")
      .values({ name: "router-data-model", value: '{"timeline":"former"}' })
      .execute();
    await former.close();
    const file = join(folder, "former");
    await writeBackup({ connection: source, file });
    const connection = await emptyDatabase();
    await restoreBackup({ connection, file });
    const restored = await openStore({ connection, log: silentLogger });
    expect(await position(restored)).toEqual([]);
    await restored.close();
    const again = await openStore({ connection: source, log: silentLogger });
    expect(await position(again)).toHaveLength(1);
    await again.close();
  });

  it("keeps secrets sealed: they need the key, which is not in it", async () => {
    const connection = await emptyDatabase();
    await restoreBackup({ connection, file: backup });
    const text = gunzipSync(await readFile(backup)).toString("latin1");
    expect(text).not.toContain(KEY.slice(0, 20));
    const store = await openStore({ connection, hold: false, log: silentLogger });
    const vault = async (key: string) =>
      new KeyVault(store.db, await loadSecrets(undefined, { SALLYPORT_SECRET_KEY: key })).load("pki");
    expect(await vault(KEY)).toEqual({ key: "k" });
    await expect(vault(newSecretKey())).rejects.toThrow(SecretsError);
    await store.close();
  });

  it("is one moment of the database, whatever is written meanwhile", async () => {
    const other = await testStore();
    let writes = 0;
    let isDone = false;
    // Two tables that always change together.
    const writer = (async () => {
      while (!isDone) {
        const name = `s${writes}`;
        await other.store.db.transaction().execute(async (trx) => {
          await sql`INSERT INTO service (id, name, encryption_required) VALUES (${name}, ${name}, true)`.execute(trx);
          await sql`INSERT INTO router (id, name) VALUES (${name}, ${name})`.execute(trx);
        });
        writes++;
      }
    })();
    const file = join(folder, "moving");
    try {
      await expect.poll(() => writes).toBeGreaterThan(20);
      await writeBackup({ connection: other.connection, file });
    } finally {
      isDone = true;
      await writer;
      await other.drop();
    }
    const rows = new Map<string, number>();
    for await (const part of readBackupFile(file)) if ("end" in part) rows.set(part.end, part.rows);
    expect(rows.get("service")).toBeGreaterThan(20);
    expect(rows.get("service")).toBe(rows.get("router"));
  });

  it("knows the number of rows when that comes later than the last of them", async () => {
    const way = await heldUpAfterRows(test.connection);
    try {
      const file = join(folder, "held-up");
      const { rows } = await writeBackup({ connection: way.connection, file });
      expect(way.held).toBeGreaterThan(10);
      expect(rows).toBeGreaterThan(5_000);
      await restoreBackup({ connection: await emptyDatabase(), file });
    } finally {
      await way.close();
    }
  });

  it("that an older program made beside newer ones may hold tables that are left out", async () => {
    const client = new pg.Client(test.connection);
    await client.connect();
    // What the newer version leaves out under this name, the older one does not know.
    await client.query("CREATE TABLE xircuit_owner AS SELECT 'c' AS circuit_id, 'i' AS instance, 'r' AS replica_id");
    const file = join(folder, "older");
    await writeBackup({ connection: test.connection, file });
    await client.query("DROP TABLE xircuit_owner");
    await client.end();
    const text = gunzipSync(await readFile(file))
      .toString("latin1")
      .replaceAll("xircuit_owner", "circuit_owner");
    const body = Buffer.from(text.slice(0, text.lastIndexOf('{"seal"')), "latin1");
    const seal = `{"seal":"${createHash("sha256").update(body).digest("hex")}"}\n`;
    await writeFile(file, gzipSync(Buffer.concat([body, Buffer.from(seal)])));
    const connection = await emptyDatabase();
    expect((await restoreBackup({ connection, file })).manifest.tables.map(({ name }) => name)).toContain(
      "circuit_owner",
    );
    const restored = new pg.Client(connection);
    await restored.connect();
    expect((await restored.query("SELECT FROM circuit_owner")).rowCount).toBe(0);
    expect((await restored.query("SELECT FROM identity")).rowCount).toBeGreaterThan(5_000);
    await restored.end();
  });

  it("is readable by its owner only, never replaces a file, and leaves nothing when it fails", async () => {
    expect((await stat(backup)).mode & 0o777).toBe(0o600);
    await expect(writeBackup({ connection: test.connection, file: backup })).rejects.toThrow("never replaces a file");
    const gone = { ...test.connection, database: "no_such_database" };
    await expect(writeBackup({ connection: gone, file: join(folder, "b") })).rejects.toThrow("could not be made");
    const aborted = new AbortController();
    const cut = writeBackup({ connection: test.connection, file: join(folder, "c"), signal: aborted.signal });
    setTimeout(() => aborted.abort(), 20);
    await cut.catch(() => undefined);
    await expect(
      writeBackup({ connection: { ...test.connection, database: "postgres" }, file: join(folder, "d") }),
    ).rejects.toThrow("holds no network");
    await expect(writeBackup({ connection: test.connection, file: join(folder, "none", "e") })).rejects.toThrow(
      `the folder ${join(folder, "none")} does not exist`,
    );
    await expect(writeBackup({ connection: test.connection, file: join(backup, "f") })).rejects.toThrow(
      "is not a folder",
    );
    expect((await readdir(folder)).filter((name) => name.includes("partial") || name === "b" || name === "d")).toEqual(
      [],
    );
  });
});

describe("a restore refuses", () => {
  it("a database that is not empty", async () => {
    await expect(restoreBackup({ connection: test.connection, file: backup })).rejects.toThrow(
      /network in use \(table/,
    );
    expect(await contents(test.connection)).toMatchObject({ identity: expect.stringMatching(/^5001 /) });
  });

  it("a network in use, but replaces an unused one", async () => {
    const { store, connection, drop } = await testStore();
    databases.push({ drop });
    await seed(store);
    await seedAdmin(store, { name: "Default Admin", username: "other", passwordHash: "$argon2id$y" });
    await sql`INSERT INTO service (id, name, encryption_required) VALUES ('s', 'mine', true)`.execute(store.db);
    const restore = () => restoreBackup({ connection, file: backup, unused: UNUSED_NETWORK_ROWS });
    await expect(restore()).rejects.toThrow("network in use (table service has rows)");
    await sql`DELETE FROM service`.execute(store.db);
    await sql`INSERT INTO config_type (id, name, schema) VALUES ('own', 'own', '{}')`.execute(store.db);
    await expect(restore()).rejects.toThrow(/table config_type has more than the \d+ rows of a new network/);
    await sql`DELETE FROM config_type WHERE id = 'own'`.execute(store.db);
    await sql`INSERT INTO controller_epoch (epoch, holder, wal_timeline) VALUES ('e', 'h', '1')`.execute(store.db);
    await restore();
    expect(await contents(connection)).toEqual(await contents(test.connection));
    const { rows } = await sql`SELECT 1 FROM controller_epoch UNION ALL SELECT 1 FROM change_log`.execute(store.db);
    expect(rows).toEqual([]);
  });

  it("a backup of a newer schema", async () => {
    const file = await rewritten((bytes) =>
      Buffer.from(bytes.toString("latin1").replace('"0001_engine"', '"0001_engine","9999_later"'), "latin1"),
    );
    // Its checksum is wrong as well: made again, as a newer program would.
    await expect(verifyBackup(file)).rejects.toThrow("checksum");
    const client = new pg.Client(test.connection);
    await client.connect();
    await client.query("INSERT INTO schema_migration (id) VALUES ('9999_later')");
    const newer = join(folder, "newer");
    await writeBackup({ connection: test.connection, file: newer });
    await client.query("DELETE FROM schema_migration WHERE id = '9999_later'");
    await client.end();
    const connection = await emptyDatabase();
    await expect(restoreBackup({ connection, file: newer })).rejects.toThrow(
      /newer version: it has the migration 9999_later/,
    );
  });

  it.each([
    [
      "changed",
      (bytes: Buffer) => Buffer.from(bytes.toString("latin1").replace("new\\nline", "old\\nline"), "latin1"),
      "checksum",
    ],
    ["cut short", (bytes: Buffer) => bytes.subarray(0, bytes.length - 40), "ends too early|checksum|cannot be read"],
    ["longer", (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('{"seal":"x"}\n')]), "follows its end"],
    ["another file", () => Buffer.from("hello\n"), "is not a backup"],
    ["empty", () => Buffer.alloc(0), "is not a backup"],
  ])("a file that is %s, before it touches the database", async (_what, change, reason) => {
    const connection = await emptyDatabase();
    const file = await rewritten(change);
    await expect(restoreBackup({ connection, file })).rejects.toThrow(new RegExp(reason));
    const client = new pg.Client(connection);
    await client.connect();
    expect((await client.query("SELECT 1 FROM identity")).rows).toEqual([]);
    await client.end();
  });

  it.each([
    ["bytes of no table", [], [{ bytes: 1 }]],
    ["a table within a table", [{ table: "setting" }], [{ table: "secret" }]],
    ["the end of another table", [{ table: "setting" }], [{ end: "secret", rows: 0 }]],
    ["an end without a table", [], [{ end: "setting", rows: 0 }]],
    ["a seal within a table", [{ table: "setting" }], []],
  ])("a file that was made with malice: %s", async (_what, before, after) => {
    const lines = gunzipSync(await readFile(backup))
      .toString("latin1")
      .split("\n", 1);
    const records = [...before, ...after].map((record) => JSON.stringify(record));
    const text = `${[...lines, ...records].join("\n")}\n`;
    const seal = createHash("sha256").update(text, "latin1").digest("hex");
    const file = join(folder, "malicious");
    await writeFile(file, gzipSync(Buffer.from(`${text}${JSON.stringify({ seal })}\n`, "latin1")));
    await expect(verifyBackup(file)).rejects.toThrow("its records are not in order");
  });

  it("a file whose gzip is damaged, or that is not there", async () => {
    const bytes = await readFile(backup);
    const file = join(folder, "damaged");
    bytes[Math.floor(bytes.length / 2)]! ^= 0xff;
    await writeFile(file, bytes);
    await expect(verifyBackup(file)).rejects.toThrow("is damaged");
    await writeFile(file, bytes.subarray(0, bytes.length / 3));
    await expect(verifyBackup(file)).rejects.toThrow("is damaged");
    await expect(verifyBackup(join(folder, "none"))).rejects.toThrow("cannot be read");
    await chmod(file, 0o600);
  });

  it("rows that break a rule of the database, and leaves nothing of the rest", async () => {
    const broken = await testStore();
    await seed(broken.store);
    const { administrator, ...place } = broken.connection;
    const superuser = new pg.Client({ ...place, ...administrator });
    await superuser.connect();
    await superuser.query("SET session_replication_role = replica");
    await superuser.query(
      "INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('x', 'x', 'x', 'x', 'x', 'Dial')",
    );
    await superuser.end();
    const file = join(folder, "broken");
    await writeBackup({ connection: broken.connection, file });
    await broken.drop();
    const connection = await emptyDatabase();
    await expect(restoreBackup({ connection, file })).rejects.toThrow("violates foreign key");
    expect((await contents(connection)).config_type).toMatch(/^0 /);
  });
});

/** A way to the same database on which whatever follows the end of copied rows comes 20 ms later. */
async function heldUpAfterRows({ host, port, ...rest }: TestStore["connection"]) {
  const COPY_DONE = Buffer.from([0x63, 0, 0, 0, 4]);
  const way = { connection: { ...rest, host: "127.0.0.1", port: 0 }, held: 0, close: async () => {} };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const onward = connect(isAbsolute(host) ? { path: join(host, `.s.PGSQL.${port}`) } : { host, port });
    for (const each of [socket, onward]) sockets.add(each.on("error", () => undefined));
    socket.pipe(onward);
    void (async () => {
      for await (const chunk of onward as AsyncIterable<Buffer>) {
        const end = chunk.indexOf(COPY_DONE) + COPY_DONE.length;
        const isEnd = end >= COPY_DONE.length;
        socket.write(chunk.subarray(0, isEnd ? end : chunk.length));
        if (!isEnd) continue;
        way.held++;
        await delay(20);
        socket.write(chunk.subarray(end));
      }
    })().catch(() => socket.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  way.connection.port = (server.address() as { port: number }).port;
  way.close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return way;
}
