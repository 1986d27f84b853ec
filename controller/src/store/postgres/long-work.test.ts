import type { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { type Logger, silentLogger } from "@sallyport/wire";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { restoreBackup } from "../backup/restore-backup.ts";
import { writeBackup } from "../backup/write-backup.ts";
import { testDatabase } from "../testing/test-store.ts";
import { watchLongWork } from "./long-work.ts";
import { StoreClient } from "./store-client.ts";

/** What the disk does: its reads or writes stand still until it goes on. */
const disk = vi.hoisted(() => ({ readsToStall: -1, isWriteStalled: false, goOn: (): void => undefined }));
vi.mock("node:fs", async (original) => {
  const real = await original<{
    createReadStream: typeof createReadStream;
    createWriteStream: typeof createWriteStream;
  }>();
  return {
    ...real,
    createWriteStream: (...args: Parameters<typeof createWriteStream>) => {
      const stream = real.createWriteStream(...args);
      if (disk.isWriteStalled) {
        stream.cork();
        disk.goOn = () => stream.uncork();
      }
      return stream;
    },
    createReadStream: (...args: Parameters<typeof createReadStream>) => {
      const stream = real.createReadStream(...args);
      if (disk.readsToStall-- !== 0) return stream;
      const out = new PassThrough();
      let left = 1_000_000;
      disk.goOn = () => void stream.pipe(out);
      stream.on("data", function pass(chunk) {
        out.write(chunk);
        left -= chunk.length;
        if (left > 0) return;
        stream.off("data", pass);
        stream.pause();
      });
      return out;
    },
  };
});

/** A busy machine answers short queries within it. */
const ANSWER_MS = 1_000;
/** More than the watch allows without success. */
const LOOKS = 4;

let database: Awaited<ReturnType<typeof testDatabase>>;
/** Connections that were made, most of them by the watch. */
let made: number;
let connection: pg.ClientConfig;
beforeEach(async () => {
  database = await testDatabase();
  connection = counted(database.connection);
});
afterEach(() => database.drop());

function counted(to: pg.ClientConfig): pg.ClientConfig {
  made = 0;
  const stream = () => {
    made++;
    return new Socket();
  };
  return { ...to, stream };
}
/** Resolves after so many looks. Rejects if the work ends before. */
async function looks(work: Promise<unknown>): Promise<void> {
  let hasEnded = false;
  const ended = () => {
    hasEnded = true;
  };
  work.then(ended, ended);
  await expect.poll(() => hasEnded || made > LOOKS, { timeout: 60_000 }).toBe(true);
  if (hasEnded) throw new Error("the work ended during the looks", { cause: await work });
}

describe("a server that refuses further connections", { timeout: 60_000 }, () => {
  /** A long statement, while the server refuses all new connections to its database. */
  async function work(options: { refusedMs?: number; log: Logger }): Promise<unknown> {
    const client = new StoreClient(connection);
    await client.connect();
    const other = new pg.Client({ ...database.connection, database: "postgres" });
    await other.connect();
    await watchLongWork(client, connection, { ...options, answerMs: ANSWER_MS });
    await other.query(`ALTER DATABASE ${database.connection.database} ALLOW_CONNECTIONS false`);
    try {
      return await client.query(`SELECT pg_sleep(${(2 * (LOOKS + 2) * ANSWER_MS) / 1_000})`);
    } finally {
      await other.end();
      await client.end();
    }
  }

  it("does not end a statement that works for long, and is told of once", async () => {
    const warn = vi.fn();
    await work({ log: { ...silentLogger, warn } });
    expect(made).toBeGreaterThan(LOOKS);
    expect(warn).toHaveBeenCalledOnce();
  });

  it("ends it when it has refused for too long", async () => {
    await expect(work({ log: silentLogger, refusedMs: ANSWER_MS })).rejects.toThrow("Query read timeout");
  });
});

describe("a disk that stalls", { timeout: 120_000 }, () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sallyport-stall-"));
    const client = new pg.Client(database.connection);
    await client.connect();
    // More than all buffers on the way hold, and not to be compressed much.
    await client.query(`INSERT INTO setting (name, value) SELECT 'x' || n, to_jsonb((SELECT string_agg(md5(random()::text || n || i), '')
      FROM generate_series(1, 2000) i)) FROM generate_series(1, 200) n`);
    await client.end();
  });
  afterEach(() => rm(folder, { recursive: true }));

  it("does not end a backup", async () => {
    disk.isWriteStalled = true;
    const backup = writeBackup({ connection, answerMs: ANSWER_MS, file: join(folder, "one") });
    await looks(backup).finally(() => {
      disk.isWriteStalled = false;
      disk.goOn();
    });
    expect((await backup).rows).toBe(200);
  });

  it("does not end a restore", async () => {
    const file = join(folder, "one");
    await writeBackup({ connection: database.connection, file });
    const target = await testDatabase();
    try {
      // The first reads it to verify it.
      disk.readsToStall = 1;
      const restore = restoreBackup({ connection: counted(target.connection), answerMs: ANSWER_MS, file });
      await looks(restore).finally(() => disk.goOn());
      expect((await restore).rows).toBe(200);
    } finally {
      await target.drop();
    }
  });
});
