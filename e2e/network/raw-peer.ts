import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** How a stranger connects: plain TCP, or TLS with whatever it has. */
export interface RawPeerOptions {
  readonly isPlain?: boolean;
  readonly cert?: string;
  readonly key?: string;
  readonly alpn?: string;
}

/** The other end of a program's port, byte by byte: sends anything, and tells what came back and when it was over. */
export class RawPeer {
  readonly socket: Socket;
  /** As the program sees us: `ip:port`. */
  readonly address: string;
  /** Resolves with everything that came, when the connection is gone. */
  readonly closed: Promise<Buffer>;
  #received: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.socket = socket;
    this.address = `127.0.0.1:${socket.localPort}`;
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => socket.once("close", () => resolve(this.#received)));
  }

  /** Rejects when the TLS handshake fails; the error's `peer` says who we were. */
  static async connect(port: number, o: RawPeerOptions = {}): Promise<RawPeer> {
    const raw = connectTcp({ host: "127.0.0.1", port });
    await once(raw, "connect");
    if (o.isPlain === true) return new RawPeer(raw);
    const peer = `127.0.0.1:${raw.localPort}`;
    const socket = connectTls({
      socket: raw,
      rejectUnauthorized: false,
      ...(o.cert === undefined ? {} : { cert: o.cert }),
      ...(o.key === undefined ? {} : { key: o.key }),
      ...(o.alpn === undefined ? {} : { ALPNProtocols: [o.alpn] }),
    });
    try {
      await once(socket, "secureConnect");
    } catch (error) {
      throw Object.assign(error as Error, { peer });
    }
    return new RawPeer(socket);
  }

  get received(): Buffer {
    return this.#received;
  }

  write(bytes: Buffer | string): this {
    this.socket.write(bytes);
    return this;
  }

  /** No more bytes from us. */
  end(): this {
    this.socket.end();
    return this;
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** An answer of an HTTP server as it stands on the wire. */
export interface RawAnswer {
  readonly status: number;
  /** Names and values, in order, nothing changed. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

/** Sends the text of one request and reads the answer to the end of the connection. */
export async function rawRequest(port: number, text: string | Buffer, o: RawPeerOptions = {}): Promise<RawAnswer> {
  const peer = await RawPeer.connect(port, o);
  peer.write(text);
  const answer = (await peer.closed).toString("utf8");
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  const [first = "", ...lines] = head.split("\r\n");
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1] ?? 0),
    headers: lines.map((line) => {
      const at = line.indexOf(":");
      return [line.slice(0, at), line.slice(at + 1).trim()] as const;
    }),
    body: rest.join("\r\n\r\n"),
  };
}
