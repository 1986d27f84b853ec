import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** How an unauthenticated client connects: plain TCP, or TLS with whatever it has. */
export interface RawPeerOptions {
  readonly isPlain?: boolean;
  readonly cert?: string;
  readonly key?: string;
  readonly alpn?: string;
}

/** A connection as the program at its other end sees it. */
export interface ConnectionOrigin {
  readonly address: string;
  readonly since: number;
}

/** The program ended the TLS handshake. */
export class HandshakeRefused extends Error implements ConnectionOrigin {
  readonly address: string;
  readonly since: number;

  constructor(origin: ConnectionOrigin, cause: unknown) {
    super("the TLS handshake was refused", { cause });
    this.address = origin.address;
    this.since = origin.since;
  }
}

/** The other end of a program's port, byte by byte: sends anything, and tells what came back and when it was over. */
export class RawPeer {
  readonly socket: Socket;
  /** As the program sees us: `ip:port`. */
  readonly address: string;
  /** `Date.now()` of the connection: the system gives the same port to others, before and after. */
  readonly since: number;
  /** Resolves with everything that came, when the connection is gone. */
  readonly closed: Promise<Buffer>;
  #received: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket, origin: ConnectionOrigin) {
    this.socket = socket;
    this.address = origin.address;
    this.since = origin.since;
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => socket.once("close", () => resolve(this.#received)));
  }

  /** @throws HandshakeRefused when the TLS handshake fails */
  static async connect(port: number, o: RawPeerOptions = {}): Promise<RawPeer> {
    const since = Date.now();
    const raw = connectTcp({ host: "127.0.0.1", port });
    await once(raw, "connect");
    const origin = { address: `127.0.0.1:${raw.localPort}`, since };
    if (o.isPlain === true) return new RawPeer(raw, origin);
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
      throw new HandshakeRefused(origin, error);
    }
    return new RawPeer(socket, origin);
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
