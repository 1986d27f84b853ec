import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type NetConnectOpts, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { PostgresConnection } from "../postgres/embedded.ts";

/** For tests: a socket that leads to a database server until it is cut, and again once it is restored. */
export class BreakableWay {
  /** The same database, over this way. */
  readonly connection: PostgresConnection;
  readonly #folder: string;
  readonly #sockets = new Set<Socket>();
  readonly #target: NetConnectOpts;
  #server = createServer();
  #silencing: string | undefined;
  #isSilent = false;

  private constructor(target: PostgresConnection, folder: string) {
    this.#target = isAbsolute(target.host) ? { path: socketOf(target) } : { host: target.host, port: target.port };
    this.#folder = folder;
    // In a URL, which names a socket by its folder alone, the port is the usual one.
    this.connection = { ...target, host: folder, port: 5432 };
  }

  static async to(target: PostgresConnection): Promise<BreakableWay> {
    const way = new BreakableWay(target, await mkdtemp(join(tmpdir(), "sallyport-way-")));
    await way.restore();
    return way;
  }

  /**
   * Silences the next connection on which a client sends `text`: nothing, not even that text, reaches the other side, and neither side learns of the
   * other's end. Other connections work as before.
   */
  silenceAt(text: string): void {
    this.#silencing = text;
  }

  /** All connections go silent, and new ones are silent from their beginning. */
  silence(): void {
    this.#isSilent = true;
  }

  /** Ends all connections; further ones are refused. */
  async cut(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async restore(): Promise<void> {
    this.#server = createServer((socket) => {
      const onward = connect(this.#target);
      let isSilent = this.#isSilent;
      for (const [one, other] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        this.#sockets.add(one);
        one.on("error", () => undefined);
        one.on("close", () => {
          this.#sockets.delete(one);
          if (!isSilent) other.destroy();
        });
        one.on("data", (sent) => {
          if (one === socket && this.#silencing !== undefined && sent.includes(this.#silencing)) {
            this.#silencing = undefined;
            isSilent = true;
          }
          if (this.#isSilent) isSilent = true;
          if (!isSilent) other.write(sent);
        });
      }
    });
    await new Promise<void>((resolve) => this.#server.listen(socketOf(this.connection), resolve));
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.cut();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function socketOf({ host, port }: PostgresConnection): string {
  return join(host, `.s.PGSQL.${port}`);
}
