import { createServer, type Server, type Socket } from "node:net";
import { silentLogger } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "../database.ts";
import { DatabaseUnavailableError } from "../outage.ts";
import { ReplicatedServers } from "../testing/replicated-servers.ts";
import { DatabaseServers } from "./database-servers.ts";
import { StoreClient, withClient } from "./store-client.ts";

/** Far above what is measured: another suite may keep the machine busy. */
const PATIENCE_MS = 90_000;

let servers: ReplicatedServers;
const stores: Store[] = [];
beforeAll(async () => {
  servers = await ReplicatedServers.start({ hasSchema: true });
}, 240_000);
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  await servers.reset();
}, 120_000);
afterAll(() => servers?.stop());

async function open(url: string, log = silentLogger): Promise<Store> {
  const store = await openStore({ url, answerMs: 2_000, log });
  stores.push(store);
  return store;
}

/** The port of the server that a store's statements run on. */
async function portOf(store: Store): Promise<number> {
  const { rows } = await sql<{ port: string }>`SELECT current_setting('port') AS port`.execute(store.db);
  return Number(rows[0]?.port);
}

async function write(store: Store, id: string): Promise<void> {
  await store.db.insertInto("setting").values({ name: id, value: "{}" }).execute();
}

const recovered = (store: Store, port: number) =>
  expect.poll(() => portOf(store).catch((error: Error) => error.message), { timeout: PATIENCE_MS }).toBe(port);

describe("a database of several servers", { timeout: 180_000 }, () => {
  it("is used at the one that takes writes, in whatever order they stand; another one is refused by its name", async () => {
    const { first, second } = servers;
    expect(await portOf(await open(servers.url(second, first)))).toBe(first.port);
    const refused = openStore({ url: servers.url(second), log: silentLogger });
    await expect(refused).rejects.toThrow(`127.0.0.1:${second.port} is a standby and takes no writes`);
    await second.stop();
    await stores.pop()?.close();
    expect(await portOf(await open(servers.url(second, first)))).toBe(first.port);
    await stores.pop()?.close();
    await first.stop();
    const none = openStore({ url: servers.url(), log: silentLogger });
    await expect(none).rejects.toThrow(
      new RegExp(`cannot use the database sallyport at 127.0.0.1:${first.port}, .*no server .* takes writes .*REFUSED`),
    );
  });

  it("goes on at the standby that took over, with all of its connections, and knows the former primary when it comes back", async () => {
    const { first, second } = servers;
    const warnings: string[] = [];
    const warn = (_fields: object, text: string) => void warnings.push(text);
    const store = await open(servers.url(), { ...silentLogger, warn });
    await write(store, "before");
    await servers.settled();
    await first.kill();
    await expect(write(store, "during")).rejects.toThrow(DatabaseUnavailableError);
    await second.promote();
    await recovered(store, second.port);
    await write(store, "after");
    // It takes writes, and has none of what was written since.
    await first.start();
    const clients = await Promise.all(Array.from({ length: 8 }, () => store.pool.connect()));
    expect(clients.map((client) => client.port)).toEqual(clients.map(() => second.port));
    for (const client of clients) client.release(true);
    await second.stop();
    const former = `127.0.0.1:${first.port} is a former primary: it is on timeline 00000001, and the controller has worked on 00000002`;
    await expect.poll(() => warnings.join("\n"), { timeout: PATIENCE_MS }).toContain(former);
    await expect(portOf(store)).rejects.toThrow(DatabaseUnavailableError);
    await second.start();
    await recovered(store, second.port);
    const names = await store.db
      .selectFrom("setting")
      .select("name")
      .where("name", "in", ["before", "during", "after"])
      .execute();
    expect(names.map(({ name }) => name).toSorted()).toEqual(["after", "before"]);
  });

  it("a process that starts beside two primaries takes the one that was promoted last, and says so", async () => {
    const { first, second } = servers;
    const told: object[] = [];
    const log = { ...silentLogger, error: (fields: object) => void told.push(fields) };
    await second.promote();
    const client = new StoreClient(new DatabaseServers(servers.url(), log).connection);
    await client.connect();
    expect(client.port).toBe(second.port);
    await client.end();
    expect(told).toEqual([{ primary: `127.0.0.1:${second.port}`, former: [`127.0.0.1:${first.port}`] }]);
  });

  it("leaves a server that takes no writes any more, with the connections that are open", async () => {
    const { first, second } = servers;
    const store = await open(servers.url());
    await Promise.all(Array.from({ length: 4 }, () => sql`SELECT pg_sleep(0.05)`.execute(store.db)));
    // As some clusters fence a primary. The sessions stay.
    await first.query("ALTER SYSTEM SET default_transaction_read_only = on");
    await first.query("SELECT pg_reload_conf()");
    await second.promote();
    await expect.poll(() => write(store, "x").catch((error: Error) => error), { timeout: PATIENCE_MS }).toBeUndefined();
    await recovered(store, second.port);
  });

  it("leaves a primary that has fallen silent with its connections open", async () => {
    const { first, second } = servers;
    const store = await open(servers.url());
    await Promise.all(Array.from({ length: 4 }, () => sql`SELECT pg_sleep(0.05)`.execute(store.db)));
    await servers.settled();
    await first.freeze();
    try {
      await second.promote();
      const since = performance.now();
      await recovered(store, second.port);
      await write(store, "x");
      console.info(`after a primary fell silent: writes again in ${Math.round(performance.now() - since)} ms`);
    } finally {
      first.thaw();
    }
  });

  it("is left by a replica when its lease is not renewed, long before a statement is given up", async () => {
    const { first, second } = servers;
    const never = 10 * PATIENCE_MS;
    const store = await openStore({ url: servers.url(), replica: { id: "c1" }, answerMs: never, log: silentLogger });
    stores.push(store);
    await servers.settled();
    await first.freeze();
    try {
      const waiting = portOf(store);
      waiting.catch(() => undefined);
      await second.promote();
      await expect(waiting).rejects.toThrow(DatabaseUnavailableError);
      await recovered(store, second.port);
      await expect.poll(() => store.replica.isLeader, { timeout: PATIENCE_MS }).toBe(true);
      await write(store, "x");
    } finally {
      first.thaw();
    }
  });

  it("one that is silent does not keep from the others", async () => {
    const { first, second } = servers;
    const silent = await silentServer();
    try {
      const url = servers.url().replace("@", `@127.0.0.1:${silent.port},`);
      expect(await withClient(new DatabaseServers(url).connection, async ({ port }) => port)).toBe(first.port);
      await first.stop();
      await second.promote();
      expect(await withClient(new DatabaseServers(url).connection, async ({ port }) => port)).toBe(second.port);
    } finally {
      await silent.close();
    }
  });

  it("stays at a server that has no free connection", async () => {
    const { first } = servers;
    await first.query("ALTER ROLE owner CONNECTION LIMIT 2");
    const { connection } = new DatabaseServers(servers.url());
    const clients = [new StoreClient(connection), new StoreClient(connection)];
    for (const client of clients) await client.connect();
    for (const _ of [1, 2]) {
      await expect(withClient(connection, async () => undefined)).rejects.toThrow(/^too many connections for role/);
    }
    for (const client of clients) {
      await client.query("SELECT 1");
      await client.end();
    }
  });
});

async function silentServer(): Promise<{ port: number; close(): Promise<void> }> {
  const port = await freePort();
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => void sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port, close };
}
