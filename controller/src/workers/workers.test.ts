import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Workers } from "./workers.ts";

const READY = 'process.send("ready"); process.on("disconnect", () => process.exit());';
const STOPS = 'process.on("message", () => process.exit(0));';
const DEAF = 'process.on("message", () => {});';
const PATIENCE = { timeout: 20_000 };

let children: { index: number; child: ChildProcess }[];
let logged: { fields: Record<string, unknown>; message: string }[];
let all: Workers[];
beforeEach(() => {
  [children, logged, all] = [[], [], []];
});
afterEach(async () => {
  for (const { child } of children) child.kill("SIGKILL");
  for (const workers of all) await workers.stop();
});

/** Workers that run a script each; further ones run the last. */
function start(scripts: readonly (string | ((count: number) => string))[], stopMs = 20_000) {
  const workers = new Workers({
    names: scripts.map((_, at) => `w-${at + 1}`),
    spawn: (index) => {
      const script = scripts[index] ?? "";
      const count = children.filter((each) => each.index === index).length;
      const text = typeof script === "string" ? script : script(count);
      const child = spawn(process.execPath, ["-e", text], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
      children.push({ index, child });
      return child;
    },
    stopMs,
    restart: { firstMs: 10, maxMs: 40, healthyMs: 60_000 },
    log: { ...silentLogger, error: (fields, message) => void logged.push({ fields: fields as never, message }) },
  });
  all.push(workers);
  return workers;
}
const of = (index: number) => children.filter((each) => each.index === index).map(({ child }) => child);

it("starts the others when the first is ready, and stops all", async () => {
  const workers = start([READY + STOPS, READY + STOPS, READY + STOPS]);
  const begun = workers.start();
  expect(children).toHaveLength(1);
  expect(await begun).toBeUndefined();
  expect(children).toHaveLength(3);
  expect(await workers.stop()).toBe(true);
  expect(children.map(({ child }) => child.exitCode)).toEqual([0, 0, 0]);
  expect(logged).toEqual([]);
});

it.each<[string, (string | ((count: number) => string))[], number, number]>([
  ["the first", ["process.exit(3)", READY], 3, 1],
  ["another", [READY + STOPS, "process.exit(4)", READY + STOPS], 4, 3],
])("says how %s ended before it was ready, and does not start it again", async (_which, scripts, status, started) => {
  const workers = start(scripts);
  expect(await workers.start()).toBe(status);
  expect(children).toHaveLength(started);
  await workers.stop();
  expect(children).toHaveLength(started);
});

it("starts one that ends again, each time after a longer time", async () => {
  const workers = start([
    READY + STOPS,
    (count) => READY + (count < 4 ? "setTimeout(() => process.exit(7), 1)" : STOPS),
  ]);
  await workers.start();
  await vi.waitFor(() => expect(of(1)).toHaveLength(5), PATIENCE);
  expect(of(0)).toHaveLength(1);
  expect(logged.map(({ fields }) => [fields.worker, fields.code, fields.restartMs])).toEqual(
    [10, 20, 40, 40].map((ms) => ["w-2", 7, ms]),
  );
  of(0)[0]?.kill("SIGKILL");
  await vi.waitFor(() => expect(of(0)).toHaveLength(2), PATIENCE);
  expect(logged.at(-1)?.fields).toMatchObject({ worker: "w-1", signal: "SIGKILL", restartMs: 10 });
});

it("kills one that does not stop", async () => {
  const workers = start([READY + STOPS, READY + DEAF], 200);
  await workers.start();
  expect(await workers.stop()).toBe(false);
  expect(of(1)[0]?.signalCode).toBe("SIGKILL");
  expect(logged).toEqual([{ fields: { workers: ["w-2"] }, message: "workers did not stop in time: killing them" }]);
});

it("starts no further one when it is stopped meanwhile", async () => {
  const slow = `${STOPS} process.on("disconnect", () => process.exit());`;
  const workers = start([slow, READY]);
  const begun = workers.start();
  await once(of(0)[0]!, "spawn");
  expect(await workers.stop()).toBe(true);
  expect(await begun).toBeUndefined();
  expect(children).toHaveLength(1);
});
