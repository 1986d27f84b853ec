import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { hostname } from "node:os";
import { createInterface } from "node:readline";
import { type Logger, silentLogger } from "@sallyport/wire";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openStore } from "../database.ts";
import { BreakableWay } from "../testing/breakable-way.ts";
import { testDatabase } from "../testing/test-store.ts";
import { DatabaseHeldError, HolderLock, requireUnheld } from "./holder-lock.ts";

async function startHolder(where: object): Promise<{ child: ChildProcess; said: string }> {
  const program = new URL("../testing/holder-process.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [program, JSON.stringify(where)], { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  return { child, said };
}

describe("a database has one controller", { timeout: 120_000 }, () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  beforeAll(async () => {
    database = await testDatabase();
  });
  afterAll(() => database.drop());

  it("a second process exits and names the first; when that is killed, its place is free", async () => {
    const where = { connection: database.connection };
    const first = await startHolder(where);
    expect(first.said).toBe("open");
    const second = await startHolder(where);
    expect(second.said).toContain("DatabaseHeldError: the database is in use by sallyport-controller");
    expect(second.said).toContain(`on ${hostname()}, process ${first.child.pid}`.slice(0, 40));
    expect(second.said).toMatch(/since \d{4}-\d\d-\d\dT/);
    if (second.child.exitCode === null) await once(second.child, "exit");
    expect(second.child.exitCode).toBe(4);

    first.child.kill("SIGKILL");
    await once(first.child, "exit");
    const store = await openStore({ ...where, log: silentLogger });
    await expect(openStore({ ...where, log: silentLogger })).rejects.toThrow(DatabaseHeldError);
    await store.close();
    const again = await openStore({ ...where, log: silentLogger });
    await again.close();
  });

  it("takes the lock again after its connection was lost, or learns that another has it", async () => {
    let lost: (error: DatabaseHeldError) => void = () => undefined;
    const told = new Promise<DatabaseHeldError>((resolve) => {
      lost = resolve;
    });
    const options = { connection: database.connection, log: silentLogger, patienceMs: 200 };
    const first = await HolderLock.acquire({ ...options, name: "one", onLost: lost });
    const store = await openStore({ connection: database.connection, hold: false, log: silentLogger });
    const endConnections = () =>
      store.pool.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sallyport-controller one'",
      );
    await endConnections();
    const second = await HolderLock.acquire({ ...options, name: "two", patienceMs: 10_000, onLost: () => undefined });
    expect((await told).holder).toMatch(/^sallyport-controller two( \(127\.0\.0\.1\))?$/);
    await second.release();
    await first.release();
    await store.close();
  });

  it("is not taken for free where its server is there and does not say", async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => void sockets.add(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const where = { ...database.connection, host: "127.0.0.1", port: (server.address() as { port: number }).port };
    await expect(requireUnheld(where, 200)).rejects.toThrow(/does not say whether a controller works on it/);
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
    await requireUnheld(where);
    const lock = { connection: database.connection, name: "one", log: silentLogger, onLost: () => undefined };
    const held = await HolderLock.acquire(lock);
    await expect(requireUnheld(database.connection)).rejects.toThrow(DatabaseHeldError);
    await held.release();
    await requireUnheld(database.connection);
  });
});

describe("the connection that holds the database", () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let way: BreakableWay;
  let other: pg.Client;
  let lock: HolderLock | undefined;
  beforeEach(async () => {
    database = await testDatabase();
    way = await BreakableWay.to(database.connection);
    other = new pg.Client(database.connection);
    await other.connect();
  });
  afterEach(async () => {
    await way.close();
    await lock?.release();
    await other.end();
    await database.drop();
  });

  /** A lock over the way, and what it tells; `regained` is of the first time that it is held again. */
  async function acquire() {
    const regained = Promise.withResolvers<void>();
    const lost = Promise.withResolvers<DatabaseHeldError>();
    const log: Logger = {
      ...silentLogger,
      info: (_fields, text) => void (text === "the database is held again" && regained.resolve()),
    };
    const onRegained = vi.fn();
    lock = await HolderLock.acquire({
      connection: way.connection,
      name: "one",
      answerMs: 1_000,
      patienceMs: 1_000,
      onLost: (error) => {
        lost.resolve(error);
        regained.reject(error);
      },
      onRegained,
      log,
    });
    // Tests that wait for the loss leave this one alone.
    regained.promise.catch(() => undefined);
    return { lock, regained: regained.promise, lost: lost.promise, onRegained };
  }
  const endConnection = () =>
    other.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sallyport-controller one'",
    );

  it.each([
    ["before it is told that it has the lock", "pg_try_advisory_lock"],
    ["when it has the lock and asks for the epoch", "pg_walfile_name"],
  ])("is made once more when the server goes silent %s", async (_when, text) => {
    const { lock, regained, onRegained } = await acquire();
    await lock.begin();
    way.silenceAt(text);
    await endConnection();
    await regained;
    expect(lock.isHeld).toBe(true);
    expect(onRegained).toHaveBeenCalledExactlyOnceWith(false);
  });

  it("is made once more when the server goes silent while it is held", async () => {
    const { lock, regained } = await acquire();
    await lock.begin();
    way.silenceAt("pg_walfile_name");
    await regained;
    expect(lock.isHeld).toBe(true);
  });

  it("that is made again before an epoch began is not announced: no reader has read anything yet", async () => {
    const { lock, regained, onRegained } = await acquire();
    await endConnection();
    await regained;
    await lock.begin();
    expect(onRegained).not.toHaveBeenCalled();
  });

  it("is not waited for without end by who asks whether there is one", async () => {
    way.silenceAt("pg_try_advisory_lock");
    await expect(requireUnheld(way.connection, 200)).rejects.toThrow(/does not say whether a controller works on it/);
  });

  it("does not keep a controller whose epoch is over from ending, when the server does not say whose runs", async () => {
    const { lock, lost } = await acquire();
    await lock.begin();
    way.silenceAt("pg_walfile_name");
    lock.fenced();
    expect((await lost).holder).toBe("another controller");
  });
});
