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
function start(
  scripts: readonly (string | ((count: number) => string))[],
  { stopMs = 20_000, silentMs = 60_000 } = {},
) {
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
    silentMs,
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

const LINK = JSON.stringify(new URL("./worker-link.ts", import.meta.url).href);
/** A worker with the real link, which does something once it is ready. */
const linked = (then: string) =>
  `import(${LINK}).then(({ linkOfWorker }) => {
    const link = linkOfWorker(20);
    link.onStop(() => { link.close(); process.exit(0); });
    link.ready();
    setInterval(() => {}, 1000);
    ${then}
  });`;

it("kills one whose event loop hangs, says so, and starts it again; one that runs stays", async () => {
  const workers = start([linked(""), (count) => linked(count === 0 ? "setTimeout(() => { for (;;); }, 100);" : "")], {
    silentMs: 1_000,
  });
  expect(await workers.start()).toBeUndefined();
  await vi.waitFor(() => expect(of(1)).toHaveLength(2), PATIENCE);
  expect(of(1)[0]?.signalCode).toBe("SIGKILL");
  expect(logged).toEqual([
    { fields: { worker: "w-2", silentMs: 1_000 }, message: "a worker hangs: killing it" },
    {
      fields: { worker: "w-2", code: null, signal: "SIGKILL", restartMs: 10 },
      message: "a worker has ended: starting it again",
    },
  ]);
  await once(of(1)[1]!, "message");
  of(0)[0]?.kill("SIGSTOP");
  await vi.waitFor(() => expect(of(0)).toHaveLength(2), PATIENCE);
  expect(of(1)).toHaveLength(2);
  await once(of(0)[1]!, "message");
  expect(await workers.stop()).toBe(true);
});

it("leaves one alone that is not ready yet", async () => {
  const slow = 'process.send("alive"); setTimeout(() => process.send("ready"), 500); setInterval(() => {}, 1000);';
  const workers = start([STOPS + slow], { silentMs: 100 });
  expect(await workers.start()).toBeUndefined();
});

it("leaves one alone that is stopping", async () => {
  const busy = "const end = Date.now() + 3_000; while (Date.now() < end); process.exit(0)";
  const workers = start([linked("").replace("link.close(); process.exit(0)", busy)], { silentMs: 1_500 });
  await workers.start();
  expect(await workers.stop()).toBe(true);
  expect(logged).toEqual([]);
});

it("kills one that does not stop", async () => {
  const workers = start([READY + STOPS, READY + DEAF], { stopMs: 200 });
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
