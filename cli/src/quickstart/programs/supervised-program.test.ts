import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nextCall } from "@sallyport/async";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder } from "./folder-lock.ts";
import { isRunning, markOf, markText, readMark } from "./process-mark.ts";
import { type SupervisedOptions, SupervisedProgram } from "./supervised-program.ts";

let folder: string;
const programs: SupervisedProgram[] = [];
const stop = new AbortController().signal;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sallyport-supervised-"));
});
afterEach(async () => {
  for (const program of programs.splice(0)) await program.stop();
  rmSync(folder, { recursive: true });
});

const at = (name: string): string => join(folder, name);

/** A shell script that says `up` in a file when it has started. */
async function start(script: string): Promise<SupervisedProgram> {
  const options: SupervisedOptions = {
    name: "router",
    command: ["sh", "-c", `echo $$ >> up; ${script}`],
    env: process.env,
    cwd: folder,
    logFile: at("log"),
    pidFile: at("pid"),
  };
  const program = await SupervisedProgram.start(options, stop);
  programs.push(program);
  return program;
}

const starts = (): string[] => (existsSync(at("up")) ? readFileSync(at("up"), "utf8").trim().split("\n") : []);

describe("a program that a quick start runs", () => {
  it("is started again when it ends, with its last words, and stopped in the end", async () => {
    const program = await start(
      `if [ $(wc -l < up) = 1 ]; then sleep 0.2; echo '{"level":"warn","msg":"no room\\u001b"}'; exit 3; fi; exec sleep 60`,
    );
    const told: [string, number][] = [];
    program.onRestart.add((...each) => told.push(each));
    await program.ready(async () => starts().length === 1, stop);
    await nextCall((listener) => program.onRestart.add(listener), 10_000);
    expect(told).toEqual([["no room\u001b", 500]]);
    await expect.poll(() => starts().length, { timeout: 10_000 }).toBe(2);
    await expect.poll(() => readMark(readFileSync(at("pid"), "utf8"))?.pid).toBe(Number(starts()[1]));
    await program.stop();
    expect(isRunning({ pid: Number(starts()[1]), started: "" })).toBe(false);
    expect(existsSync(at("pid"))).toBe(false);
  });

  it("that ends before it is ready fails with what it said", async () => {
    const program = await start("echo 'sallyport-router: router.yml:3:1: no such key' >&2; exit 2");
    await expect(program.ready(async () => false, stop)).rejects.toThrow(
      `the router ended: router.yml:3:1: no such key; its log is ${at("log")}`,
    );
  });

  it("of a run that was killed is stopped before the next one starts; another program with its process id is not", async () => {
    const first = await start("exec sleep 60");
    await expect.poll(() => starts().length, { timeout: 10_000 }).toBe(1);
    const { pid = 0 } = first;
    const second = await start("exec sleep 60");
    expect(isRunning({ pid, started: "" })).toBe(false);
    writeFileSync(at("pid"), markText({ ...markOf(second.pid ?? 0), started: "1" }));
    await start("exec sleep 60");
    expect(second.pid !== undefined && isRunning(markOf(second.pid))).toBe(true);
  });
});

it.skipIf(process.platform !== "linux")(
  "a process that has ended and that its parent has not asked for does not run",
  async () => {
    const program = await start("sh -c 'until [ -e go ]; do sleep 0.01; done' & echo $! > child; exec sleep 60");
    const child = () => Number(existsSync(at("child")) ? readFileSync(at("child"), "utf8") : "0");
    await expect.poll(child, { timeout: 10_000 }).toBeGreaterThan(0);
    // The shell would have asked for it.
    const name = () => readFileSync(`/proc/${program.pid}/comm`, "utf8").trim();
    await expect.poll(name, { timeout: 10_000 }).toBe("sleep");
    writeFileSync(at("go"), "");
    await expect.poll(() => isRunning(markOf(child())), { timeout: 10_000 }).toBe(false);
    expect(readFileSync(`/proc/${child()}/stat`, "utf8")).toMatch(/\) Z /);
    expect(program.pid !== undefined && isRunning(markOf(program.pid))).toBe(true);
  },
);

describe("the folder of a quick start", () => {
  it("is refused where other users can write into it, and makes nothing there", async () => {
    chmodSync(folder, 0o777);
    await expect(lockFolder(folder)).rejects.toThrow(`${folder} can be written by every user`);
    expect(readdirSync(folder)).toEqual([]);
  });

  it.skipIf(process.getuid?.() !== 0)("is refused where it belongs to another user", async () => {
    chownSync(folder, 65_534, 65_534);
    await expect(lockFolder(folder)).rejects.toThrow(`${folder} belongs to another user (65534)`);
  });

  it("is for one run at a time, and free again after one that was killed", async () => {
    const unlock = await lockFolder(folder);
    await expect(lockFolder(folder)).rejects.toThrow(`uses ${folder} (process ${process.pid})`);
    await unlock();
    writeFileSync(at("running.pid"), markText({ ...markOf(process.pid), started: "1" }));
    const again = await Promise.allSettled([lockFolder(folder), lockFolder(folder), lockFolder(folder)]);
    expect(again.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    writeFileSync(at("running.pid"), "garbage");
    await (await lockFolder(folder))();
    expect(existsSync(at("running.pid"))).toBe(false);
  });
});
