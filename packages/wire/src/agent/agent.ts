import { unlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { errorText } from "@sallyport/async";
import type { Channel } from "../channel/channel.ts";
import { acceptOn } from "../channel/listener.ts";
import type { Logger } from "../log.ts";
import { agentSocketPath, clearStaleSocket, listenForOwner } from "./agent-socket.ts";
import { AGENT_MAGIC, AgentOp, type ApplicationInfo, LOG_LEVELS, readZigZag } from "./protocol.ts";
import { collectGarbage, cpuProfile, heapProfile, memoryText, stackText, statsText } from "./runtime.ts";

/** What the agent's answers are made of. */
export interface AgentApplication {
  readonly info: ApplicationInfo;
  /** What tools may ask applications of this kind only; absent when that is nothing. */
  readonly operations?: AgentOperations;
  /** Absent when the log's level is fixed. */
  readonly setLogLevel?: ((level: string) => void) | undefined;
}

export interface AgentOperations {
  /** The application's id in such requests. */
  readonly applicationId: number;
  /** Answers an {@link AgentOp.Application} request; `undefined`: there is no such one. */
  request(code: number): Promise<string | undefined> | string | undefined;
  /** Takes the requests of a channel; handlers are set before it returns. */
  serve(channel: Channel): void;
}

export interface AgentOptions {
  readonly application: AgentApplication;
  readonly log: Logger;
  /** The socket; in the system's temporary folder, named after this process, when absent. */
  readonly path?: string | undefined;
}

/** A request must be there in this time. */
const READ_MS = 1_000;
const MAX_REQUEST = 4_096;
const MAX_CONNECTIONS = 16;
/** How long the answer to an operator may take to be read. */
const WRITE_MS = 60_000;

/**
 * Answers OpenZiti's CLI and Sallyport's own commands on a Unix socket that only the owner of this process may use
 * (docs/router/observability.md, "The agent").
 */
export class Agent {
  readonly path: string;
  readonly #o: AgentOptions;
  readonly #server: Server;
  readonly #connections = new Set<Socket>();

  private constructor(options: AgentOptions, path: string) {
    this.#o = options;
    this.path = path;
    this.#server = createServer((socket) => this.#connected(socket));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** A program runs without an agent, too: when it cannot listen the log says why. */
  static async start(options: AgentOptions): Promise<Agent | undefined> {
    const path = options.path ?? agentSocketPath(process.pid);
    const agent = new Agent(options, path);
    try {
      await clearStaleSocket(path);
      await agent.#listen();
      return agent;
    } catch (error) {
      const reason = errorText(error);
      options.log.warn({ path, reason }, "local tools cannot reach this process: its agent does not listen");
      await agent.close();
      return undefined;
    }
  }

  /** Stops listening, ends every connection, removes the socket. */
  async close(): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    try {
      unlinkSync(this.path);
    } catch {
      // Node removes the socket itself.
    }
  }

  async #listen(): Promise<void> {
    await listenForOwner(this.#server, this.path);
    this.#server.on("error", (err) => this.#o.log.warn({ path: this.path, err }, "the agent's socket failed"));
    this.#o.log.debug({ path: this.path }, "the agent listens");
  }

  #connected(socket: Socket): void {
    this.#connections.add(socket);
    socket.once("close", () => this.#connections.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.setTimeout(READ_MS, () => socket.destroy());
    let read = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      read = Buffer.concat([read, chunk]);
      const magic = read.subarray(0, AGENT_MAGIC.length);
      if (!AGENT_MAGIC.subarray(0, magic.length).equals(magic) || read.length > MAX_REQUEST) {
        socket.destroy();
        return;
      }
      const [op] = read.subarray(AGENT_MAGIC.length);
      if (op === undefined) return;
      let answer: AgentAnswer | undefined;
      try {
        answer = this.#take(socket, op, read.subarray(AGENT_MAGIC.length + 1));
      } catch {
        socket.destroy();
        return;
      }
      if (answer === undefined) return;
      socket.off("data", onData);
      socket.setTimeout(WRITE_MS);
      void this.#answer(socket, answer);
    };
    socket.on("data", onData);
  }

  /** How to answer a request; `undefined`: more of it is to come. */
  #take(socket: Socket, op: number, parameters: Buffer): AgentAnswer | undefined {
    const { application } = this.#o;
    switch (op) {
      case AgentOp.Stack:
        return stackText;
      case AgentOp.CollectGarbage:
        return collectGarbage;
      case AgentOp.MemoryStats:
        return memoryText;
      case AgentOp.RuntimeVersion:
        return () => `node ${process.version}\n`;
      case AgentOp.Stats:
        return statsText;
      case AgentOp.ApplicationInfo:
        return () => JSON.stringify(application.info);
      case AgentOp.CpuProfile:
        return cpuProfile;
      case AgentOp.HeapProfile:
        return heapProfile;
      case AgentOp.ExecutionTrace:
        return () => "Node.js has no execution trace of this kind; pprof-cpu gives a profile for Chrome DevTools\n";
      case AgentOp.ProgramFile:
      case AgentOp.HeapDump:
        return () => "refused: a copy of the memory or the program would hold its private keys\n";
      case AgentOp.GarbagePercent:
        return readZigZag(parameters) && (() => "Node.js has no such setting; nothing was changed\n");
      case AgentOp.LogLevel: {
        const [level] = parameters;
        return level === undefined ? undefined : () => this.#logLevel(level);
      }
      case AgentOp.ChannelLogLevel:
      case AgentOp.ClearChannelLogLevel:
        return () => "the log has one level for everything (ziti agent set-log-level); nothing was changed\n";
      case AgentOp.Application:
      case AgentOp.ApplicationChannel: {
        const [id, code] = parameters;
        if (id === undefined) return undefined;
        const operations = this.#operationsOf(id);
        if (operations === undefined) return () => `invalid operation for ${application.info.type}`;
        if (op === AgentOp.ApplicationChannel) return () => this.#channel(socket, operations, parameters.subarray(1));
        if (code === undefined) return undefined;
        return async () => (await operations.request(code)) ?? `invalid operation ${code} for ${application.info.type}`;
      }
      default:
        return () => `unknown operation ${op}\n`;
    }
  }

  #operationsOf(applicationId: number): AgentOperations | undefined {
    const { operations } = this.#o.application;
    return operations?.applicationId === applicationId ? operations : undefined;
  }

  async #answer(socket: Socket, answer: AgentAnswer): Promise<void> {
    try {
      const text = await answer();
      if (text !== undefined) socket.end(text);
    } catch (error) {
      const reason = errorText(error);
      this.#o.log.warn({ reason }, "an agent request failed");
      socket.end(reason);
    }
  }

  /** The connection goes on as a channel. */
  #channel(socket: Socket, operations: AgentOperations, early: Buffer): undefined {
    const { application, log } = this.#o;
    acceptOn(socket, {
      name: "agent",
      id: application.info.id ?? "",
      early,
      helloTimeoutMs: READ_MS,
      onChannel: (channel) => operations.serve(channel),
      log,
    }).catch((error: unknown) => {
      log.debug({ reason: errorText(error) }, "an agent channel failed");
      socket.destroy();
    });
    return undefined;
  }

  #logLevel(code: number): string {
    const level = LOG_LEVELS[code];
    const { setLogLevel } = this.#o.application;
    if (level === undefined) return `expected a level from 0 (panic) to 6 (trace), got ${code}\n`;
    if (setLogLevel === undefined) return "the log's level is fixed in this process\n";
    setLogLevel(level);
    this.#o.log.info({ level }, "the log's level was changed by a local tool");
    return `log level set to ${level}\n`;
  }
}

type AgentAnswer = () => string | undefined | Promise<string | undefined>;
