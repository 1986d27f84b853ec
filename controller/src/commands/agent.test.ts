import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogger } from "@sallyport/program/logging";
import { AgentOp } from "@sallyport/wire/agent/protocol";
import { askAgent } from "@sallyport/wire/agent/socket";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startAgent } from "./run-controller.ts";

let folder: string;
let path: string;
let stop: (() => Promise<void>) | undefined;
const lines: string[] = [];
const log = createLogger({
  level: "warn",
  destination: { write: (line) => void lines.push(line) },
});

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-controller-agent-"));
  path = join(folder, "agent.sock");
  const agent = await startAgent("ctrl1", "1.2.3", log, path);
  stop = () => agent?.close() ?? Promise.resolve();
});
afterEach(async () => {
  await stop?.();
  await rm(folder, { recursive: true });
});

const ask = async (...request: number[]) => (await askAgent(path, request)).toString();

it("says what it is, and how the process is", async () => {
  expect(JSON.parse(await ask(AgentOp.ApplicationInfo))).toEqual({ type: "controller", id: "ctrl1", version: "1.2.3" });
  expect(await ask(AgentOp.Stats)).toMatch(/^active resources: \d+$/m);
  expect(await ask(AgentOp.Stack)).toMatch(/^event loop busy/m);
  expect(await ask(AgentOp.MemoryStats)).toMatch(/^rss: /m);
  expect(await ask(AgentOp.RuntimeVersion)).toBe(`node ${process.version}\n`);
  expect(await ask(AgentOp.HeapDump)).toMatch(/^refused/);
});

it("changes the level of the log while it runs", async () => {
  log.info({}, "before");
  expect(await ask(AgentOp.LogLevel, 5)).toBe("log level set to debug\n");
  log.debug({}, "after");
  expect(lines.join("")).not.toContain('"before"');
  expect(lines.join("")).toContain('"after"');
});

it("takes no requests for applications: not the router's, nor any of a controller", async () => {
  for (const id of [1, 2]) {
    expect(await ask(AgentOp.Application, id, 128)).toBe("invalid operation for controller");
    expect(await ask(AgentOp.ApplicationChannel, id)).toBe("invalid operation for controller");
  }
});
