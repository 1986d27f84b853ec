/** Ports of this machine that no other program gets. */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { CommandError } from "../errors.ts";

/** Ports that are looked through for a free one. */
const TRIES = 100;

interface Held {
  readonly server: Server;
  /** What a connection to the port is told; undefined: nothing. */
  greeting: string | undefined;
}

/** Holds ports from the moment in which they are chosen: of two runs at once, the second one finds them in use. */
export class HeldPorts {
  readonly #held = new Map<number, Held>();

  /** Takes a port. @returns why it cannot be listened on; undefined when it is held */
  async hold(port: number): Promise<string | undefined> {
    const held: Held = { server: createServer((socket) => greet(socket, held.greeting)), greeting: undefined };
    try {
      const listening = once(held.server, "listening");
      held.server.listen(port);
      await listening;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === "EADDRINUSE") return "another program listens there";
      return code === "EACCES" ? "ports below 1024 are for root" : message;
    }
    // A run that fails ends, whatever it holds.
    held.server.unref();
    this.#held.set(port, held);
    return undefined;
  }

  /** Takes the first free port from `first` on. Those that are taken already do not count as tries. @throws CommandError */
  async holdFrom(first: number, taken: readonly number[] = []): Promise<number> {
    let port = first;
    for (let tries = 0; tries < TRIES && port < 65_536; port++) {
      if (taken.includes(port)) continue;
      if ((await this.hold(port)) === undefined) return port;
      tries++;
    }
    throw new CommandError(`no port from ${first} to ${port - 1} is free: end a program that listens on one of them`);
  }

  has(port: number): boolean {
    return this.#held.has(port);
  }

  /** Answers connections to a held port while the work runs. */
  async greeting<T>(port: number, greeting: string, work: () => Promise<T>): Promise<T> {
    const held = this.#held.get(port);
    if (held === undefined) throw new TypeError(`port ${port} is not held`);
    held.greeting = greeting;
    try {
      return await work();
    } finally {
      held.greeting = undefined;
    }
  }

  /** Gives a port to the program that listens there from now on. One that is not held is left as it is. */
  async release(port: number): Promise<void> {
    const { server } = this.#held.get(port) ?? {};
    this.#held.delete(port);
    if (server !== undefined) await new Promise((resolve) => server.close(resolve));
  }

  async releaseAll(): Promise<void> {
    for (const port of this.#held.keys()) await this.release(port);
  }
}

function greet(socket: Socket, greeting: string | undefined): void {
  socket.on("error", () => undefined);
  if (greeting === undefined) socket.destroy();
  else socket.end(greeting, () => socket.destroy());
}
