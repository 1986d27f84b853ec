import { once } from "node:events";
import { chown, lstat, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BaseHeader,
  BaseType,
  encodeMessage,
  FrameParser,
  type Message,
  messageOf,
  silentLogger,
} from "@sallyport/wire";
import { Agent, type AgentOptions } from "@sallyport/wire/agent";
import { AGENT_MAGIC, AgentOp, readZigZag } from "@sallyport/wire/agent/protocol";
import { agentSocketPath, agentSockets, askAgent, listenForOwner } from "@sallyport/wire/agent/socket";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ROUTER_APPLICATION, RouterRequest } from "./router-request.ts";
import { status } from "./status.ts";

let dir: string;
let path: string;
const agents: Agent[] = [];
const levels: string[] = [];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-agent-"));
  path = agentSocketPath(process.pid, dir);
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.close();
  await rm(dir, { recursive: true });
});

async function start(o: Partial<AgentOptions> = {}): Promise<Agent> {
  const application: AgentOptions["application"] = {
    info: { type: "router", id: "r1", version: "1.2.3" },
    operations: {
      applicationId: ROUTER_APPLICATION,
      request: (code) => {
        if (code === RouterRequest.Extend) throw new Error("no controller is connected");
        return code === RouterRequest.Status ? '{"id":"r1"}' : undefined;
      },
      serve: (channel) => channel.handle(10_075, (message) => channel.replyResult(message, true, "no links")),
    },
    setLogLevel: (level) => levels.push(level),
  };
  const agent = await Agent.start({ application, log: silentLogger, path, ...o });
  if (agent === undefined) throw new Error("the agent did not start");
  agents.push(agent);
  return agent;
}

/** A connection byte by byte, and all that it brings until it is closed, which a reset may do as well. */
async function open(): Promise<{ socket: Socket; answer: Promise<string> }> {
  const socket = createConnection(path);
  await once(socket, "connect");
  let text = "";
  socket.on("data", (chunk) => {
    text += String(chunk);
  });
  socket.on("error", () => {});
  return { socket, answer: new Promise((resolve) => socket.once("close", () => resolve(text))) };
}

const ask = async (...request: number[]): Promise<string> => (await askAgent(path, request)).toString("utf8");

it("answers its owner alone, is found by process, and leaves nothing behind", async () => {
  const agent = await start();
  expect((await lstat(path)).mode & 0o777).toBe(0o700);
  expect((await agentSockets(dir)).own).toEqual(new Map([[process.pid, path]]));
  expect(JSON.parse(await ask(AgentOp.ApplicationInfo))).toEqual({ type: "router", id: "r1", version: "1.2.3" });
  await agent.close();
  await expect(lstat(path)).rejects.toThrow(/ENOENT/);
});

it("is closed to others from its first moment, whatever they are allowed of new files", async () => {
  const before = process.umask(0);
  try {
    const seen: number[] = [];
    const server = createServer();
    await listenForOwner(server, path);
    seen.push((await lstat(path)).mode & 0o777, process.umask());
    await new Promise((resolve) => server.close(resolve));
    expect(seen).toEqual([0o700, 0]);
  } finally {
    process.umask(before);
  }
});

it.runIf(process.getuid?.() === 0)(
  "asks no socket that another user has put there in the name of a process",
  async () => {
    await start();
    const forged = agentSocketPath(process.ppid, dir);
    const server = createServer((socket) => socket.end('{"type":"router","id":"r1"}'));
    await new Promise<void>((resolve) => server.listen(forged, resolve));
    await chown(forged, 65_534, 65_534);
    expect(await agentSockets(dir)).toEqual({
      own: new Map([[process.pid, path]]),
      foreign: new Map([[process.ppid, forged]]),
    });
    await expect(status({ json: false, pid: process.ppid, folder: dir })).rejects.toThrow(/belongs to another user/);
    await new Promise((resolve) => server.close(resolve));
    await writeFile(forged, "");
    expect((await agentSockets(dir)).foreign.has(process.ppid)).toBe(true);
  },
);

it("tells what this runtime can tell, and says so when it cannot", async () => {
  await start();
  expect(await ask(AgentOp.Stack)).toMatch(/^node v\d+.*event loop busy/s);
  expect(await ask(AgentOp.CollectGarbage)).toBe("ok");
  expect(await ask(AgentOp.MemoryStats)).toMatch(/^rss: [\d.]+MB \(\d+ bytes\)$/m);
  expect(await ask(AgentOp.Stats)).toMatch(/^num CPU: \d+$/m);
  expect(await ask(AgentOp.RuntimeVersion)).toBe(`node ${process.version}\n`);
  expect(await ask(AgentOp.HeapDump)).toMatch(/^refused: .*private keys/);
  expect(await ask(AgentOp.GarbagePercent, 0x80, 0x01)).toMatch(/nothing was changed/);
  expect(await ask(AgentOp.ExecutionTrace)).toMatch(/no execution trace/);
  expect(await ask(0x7f)).toMatch(/unknown operation 127/);
});

it("changes the level of the log", async () => {
  await start();
  for (const [code, level] of [
    [0, "fatal"],
    [2, "error"],
    [5, "debug"],
    [6, "trace"],
  ] as const) {
    expect(await ask(AgentOp.LogLevel, code)).toBe(`log level set to ${level}\n`);
    expect(levels.at(-1)).toBe(level);
  }
  expect(await ask(AgentOp.LogLevel, 9)).toMatch(/expected a level from 0/);
});

it("takes requests for routers, and refuses those for others, unknown ones, and those that fail with a reason", async () => {
  await start();
  const { Application } = AgentOp;
  expect(await ask(Application, ROUTER_APPLICATION, RouterRequest.Status)).toBe('{"id":"r1"}');
  expect(await ask(Application, 1, RouterRequest.Status)).toBe("invalid operation for router");
  expect(await ask(AgentOp.ApplicationChannel, 1)).toBe("invalid operation for router");
  expect(await ask(Application, ROUTER_APPLICATION, 3)).toMatch(/invalid operation 3/);
  expect(await ask(Application, ROUTER_APPLICATION, RouterRequest.Extend)).toBe("no controller is connected");
});

it("closes on unknown clients and on requests that do not end, without a word", async () => {
  await start();
  const endless = Buffer.concat([AGENT_MAGIC, Buffer.of(AgentOp.GarbagePercent), Buffer.alloc(12, 0x80)]);
  const cut = Buffer.concat([AGENT_MAGIC, Buffer.of(AgentOp.LogLevel)]);
  for (const bytes of [Buffer.from("GET / HTTP/1.1\r\n"), cut, endless]) {
    const { socket, answer } = await open();
    socket.write(bytes);
    expect(await answer).toBe("");
  }
});

it("takes a request byte by byte", async () => {
  await start();
  const { socket, answer } = await open();
  for (const byte of [...AGENT_MAGIC, AgentOp.Application, ROUTER_APPLICATION, RouterRequest.Status]) {
    socket.write(Buffer.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await answer).toBe('{"id":"r1"}');
});

it.each(["in one piece", "one after the other"])("opens a channel for an operator, magic and hello %s", async (how) => {
  await start();
  const { socket } = await open();
  const messages: Message[] = [];
  const parser = new FrameParser({ maxHeaders: 65_536, maxBody: 65_536 }, (frame) => messages.push(messageOf(frame)));
  socket.on("data", (chunk: Buffer) => parser.push(chunk));
  const opening = Buffer.concat([AGENT_MAGIC, Buffer.of(AgentOp.ApplicationChannel, ROUTER_APPLICATION)]);
  const hello = encodeMessage({ contentType: BaseType.Hello, body: Buffer.from("agent") }, -1);
  if (how === "in one piece") socket.write(Buffer.concat([opening, hello]));
  else {
    socket.write(opening);
    await new Promise((resolve) => setImmediate(resolve));
    socket.write(hello);
  }
  await expect.poll(() => messages.length).toBe(1);
  expect(messages[0]?.headers.getBool(BaseHeader.ResultSuccess)).toBe(true);
  expect(messages[0]?.headers.getString(BaseHeader.Id)).toBe("r1");
  socket.write(encodeMessage({ contentType: 10_075 }, 1));
  await expect.poll(() => messages.length).toBe(2);
  expect(messages[1]?.body.toString()).toBe("no links");
  expect(messages[1]?.headers.getI32(BaseHeader.ReplyFor)).toBe(1);
  socket.destroy();
});

it("takes the place of a socket that no process serves any more, and no other", async () => {
  const dead = createServer();
  await new Promise<void>((resolve) => dead.listen(join(dir, "dead"), resolve));
  const { rename } = await import("node:fs/promises");
  await rename(join(dir, "dead"), path);
  await new Promise((resolve) => dead.close(resolve));
  await start();
  expect(await ask(AgentOp.RuntimeVersion)).toContain("node");

  const warn = vi.fn();
  const log = { ...silentLogger, warn };
  const { application } = { application: { info: { type: "router" }, request: () => undefined, serve: () => {} } };
  expect(await Agent.start({ application, log, path })).toBeUndefined();
  expect(warn.mock.calls[0]?.[0]).toMatchObject({ reason: expect.stringContaining("another process listens") });
  const file = join(dir, "file");
  await writeFile(file, "precious");
  expect(await Agent.start({ application, log, path: file })).toBeUndefined();
  expect(warn.mock.calls[1]?.[0]).toMatchObject({ reason: expect.stringContaining("is no socket") });
  expect((await lstat(file)).size).toBe(8);
});

it("reads numbers in zig-zag form", () => {
  expect(readZigZag(Buffer.of(0))).toEqual({ value: 0, length: 1 });
  expect(readZigZag(Buffer.of(1))).toEqual({ value: -1, length: 1 });
  expect(readZigZag(Buffer.of(0xac, 0x02, 9))).toEqual({ value: 150, length: 2 });
  expect(readZigZag(Buffer.of(0x80))).toBeUndefined();
  expect(() => readZigZag(Buffer.alloc(11, 0x80))).toThrow(RangeError);
});
