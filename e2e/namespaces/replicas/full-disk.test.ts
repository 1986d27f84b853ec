import { execFileSync } from "node:child_process";
import { chmodSync, closeSync, ftruncateSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeSome } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { ReplicaNetwork } from "../../network/replica-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { Random } from "../../soak/random.ts";
import type { Answer } from "../../system/replicas/history/asker.ts";
import { Recorder } from "../../system/replicas/history/recorder.ts";
import { Workloads } from "../../system/replicas/history/workloads.ts";
import { hasNamespaces } from "../network-namespace.ts";

const MIB = 1024 * 1024;
/** A new database takes a third of it. */
const DISK_MIB = 320;
const UNDER_FAULT_MS = 5_000;

describe.skipIf(!hasNamespaces)("a PostgreSQL whose disk is full", { timeout: 600_000 }, () => {
  const folder = makeScratch("full-disk");
  // The mount ends with the namespaces of the run at the latest.
  const disk = join(folder, "disk");
  const filler = join(disk, "filler");
  const recorder = new Recorder();
  let set: ReplicaNetwork;
  let workloads: Workloads;

  beforeAll(async () => {
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_MIB}m,mode=755`, "tmpfs", disk]);
    chmodSync(disk, 0o755);
    set = await ReplicaNetwork.start(folder, {
      databaseDir: join(disk, "db"),
      databaseSettings: { min_wal_size: "32MB", max_wal_size: "64MB" },
    });
    workloads = new Workloads(set, recorder, new Random(1));
    await workloads.prepare();
  }, 900_000);
  afterAll(async () => {
    rmSync(filler, { force: true });
    await workloads?.stop();
    await set?.stop();
    execFileSync("umount", [disk]);
    removeScratch(folder);
  });

  /** Takes all space that is left. */
  function fill(): void {
    const file = openSync(filler, "a");
    const block = Buffer.alloc(MIB);
    try {
      for (let size = MIB; size >= 4_096; size /= 16) {
        try {
          for (;;) writeSync(file, block, 0, size);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
        }
      }
    } finally {
      closeSync(file);
    }
    expect(statfsSync(disk).bavail).toBe(0);
  }

  function free(): void {
    const file = openSync(filler, "r+");
    ftruncateSync(file, 0);
    closeSync(file);
  }

  const answers = new Map<string, number>();
  const write = async (at: number): Promise<Answer> => {
    const { token } = workloads;
    const answer = await set.call(at, "POST", "/edge/management/v1/services", {
      ...{
        token,
        body: { name: `full-${Math.random()}`, encryptionRequired: true, tags: { text: "x".repeat(20_000) } },
      },
    });
    const code = answer.json?.error?.code ?? answer.json?.error ?? "";
    const key = `${answer.status} ${code}`;
    answers.set(key, (answers.get(key) ?? 0) + 1);
    return answer;
  };

  async function healed(): Promise<void> {
    free();
    for (let at = 0; at < set.size; at++) {
      await eventually(`${set.idOf(at)} takes writes`, async () => (await write(at)).status === 201, 60_000);
    }
    await set.whole(workloads.token);
    await set.echoes();
  }

  it("tables cannot grow, then its log cannot: writes are refused, circuits go on, no controller ends, and all goes on when there is space", async () => {
    const pids = [...set.programs.values()].map(({ pid }) => pid);
    const open = await set.dial();
    open.setMaxListeners(0);
    workloads.start();
    await pause(UNDER_FAULT_MS / 5);

    fill();
    const refused = await eventually(
      "a write is refused",
      async () => {
        const answer = await write(1);
        return answer.status === 201 ? undefined : answer;
      },
      120_000,
    );
    expect(refused.status).toBe(503);
    for (const until = performance.now() + UNDER_FAULT_MS; performance.now() < until; ) {
      for (let at = 0; at < set.size; at++) await write(at);
      await exchangeSome(open, 1, 50_000);
    }
    await healed();
    await exchangeSome(open, 2, 50_000);

    // The server stops when it cannot write its log, and cannot start until there is space.
    const crashed = new Promise<void>((resolve) => {
      const direct = new pg.Client(set.database.connection);
      direct.on("error", () => undefined);
      direct.once("end", () => resolve());
      void direct
        .connect()
        .then(async () => {
          fill();
          for (;;) {
            await direct.query("SELECT pg_logical_emit_message(true, 'fill', repeat('x', 4000000)), pg_switch_wal()");
          }
        })
        .catch(() => direct.end().catch(() => undefined));
    });
    await crashed;
    for (const until = performance.now() + UNDER_FAULT_MS; performance.now() < until; ) {
      for (let at = 0; at < set.size; at++) await write(at);
      await exchangeSome(open, 3, 50_000);
    }
    await healed();
    await exchangeSome(open, 4, 50_000);
    open.end();

    await workloads.stop();
    await workloads.readAll();
    console.info(`full disk: ${JSON.stringify([...answers])}, ${JSON.stringify(recorder.counts)}`);
    expect(recorder.problems()).toEqual([]);
    expect(recorder.counts.registerOperations).toBeGreaterThan(20);
    // A clear answer, or none because the server went away; nothing that looks like a fault of the controller.
    expect([...answers.keys()].filter((key) => !/^(201|503) |^0 /.test(key))).toEqual([]);
    expect([...set.programs.values()].map(({ pid }) => pid)).toEqual(pids);
    for (const [name, { isRunning }] of set.programs) expect(isRunning, name).toBe(true);
    await set.withoutCircuits(workloads.token);
  });
});
