/**
 * A client that costs little beside what it measures: keep-alive TLS connections with one request at a time each, answers cut by hand.
 * Certificates are not checked: both sides run on this machine, with authorities of their own.
 */
import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";

export interface HttpRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  /** Goes out as a form in place of a body. */
  readonly form?: Readonly<Record<string, string>>;
  /** An access token, in place of a session. */
  readonly bearer?: string;
  /** The session to use in place of the client's own; empty for none. */
  readonly token?: string;
}

/** A request was refused. */
export class RefusedError extends Error {
  readonly answer: HttpAnswer;

  constructor({ method, path }: HttpRequest, answer: HttpAnswer) {
    super(`${method} ${path} answered ${answer.status}: ${answer.text}`);
    this.answer = answer;
  }
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: string;
  readonly text: string;
}

/** One keep-alive connection. */
class Connection {
  readonly #socket: TLSSocket;
  #received: Buffer = Buffer.alloc(0);
  #settle: { resolve(answer: HttpAnswer): void; reject(error: Error): void } | undefined;

  private constructor(socket: TLSSocket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      const answer = this.#cut();
      if (answer === undefined) return;
      const settle = this.#settle;
      this.#settle = undefined;
      settle?.resolve(answer);
    });
    const broken = (error?: Error): void => {
      socket.destroy();
      this.#settle?.reject(error ?? new Error("the server closed the connection in the middle of an answer"));
    };
    socket.on("error", broken);
    socket.on("close", () => broken());
  }

  static async open(port: number, options: ConnectionOptions): Promise<Connection> {
    const own = { host: "localhost", port, rejectUnauthorized: false, ALPNProtocols: ["http/1.1"] };
    const socket = connect({ ...own, ...options });
    socket.setNoDelay(true);
    await once(socket, "secureConnect");
    return new Connection(socket);
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed && this.#socket.writable;
  }

  send(text: string): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#socket.write(text);
    });
  }

  close(): void {
    this.#settle = undefined;
    this.#socket.destroy();
  }

  /** Takes one whole answer from what was received, if it is there. */
  #cut(): HttpAnswer | undefined {
    const bytes = this.#received;
    const end = bytes.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const headers = bytes.toString("latin1", 0, end);
    const status = Number(headers.slice(9, 12));
    const bodyAt = end + 4;
    const length = /\r\ncontent-length: *(\d+)/i.exec(headers)?.[1];
    if (length !== undefined || !/\r\ntransfer-encoding: *chunked/i.test(headers)) {
      const total = bodyAt + Number(length ?? 0);
      if (bytes.length < total) return undefined;
      this.#received = bytes.subarray(total);
      return { status, headers, text: bytes.toString("utf8", bodyAt, total) };
    }
    const parts: Buffer[] = [];
    for (let at = bodyAt; ; ) {
      const line = bytes.indexOf("\r\n", at);
      if (line < 0) return undefined;
      const size = Number.parseInt(bytes.toString("latin1", at, line), 16);
      const next = line + 2 + size + 2;
      if (bytes.length < next) return undefined;
      if (size === 0) {
        this.#received = bytes.subarray(next);
        return { status, headers, text: Buffer.concat(parts).toString("utf8") };
      }
      parts.push(bytes.subarray(line + 2, line + 2 + size));
      at = next;
    }
  }
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Requests over a fixed number of connections, with an administrator's session. */
export class LoadClient {
  readonly #port: number;
  readonly #connections: Connection[] = [];
  readonly #options: ConnectionOptions;
  /** The last connection that was begun. */
  #opened: Promise<unknown> = Promise.resolve();
  #token = "";

  /** @param options of its connections, such as a client certificate */
  constructor(port: number, options: ConnectionOptions = {}) {
    this.#port = port;
    this.#options = options;
  }

  async login(username: string, password: string): Promise<void> {
    const answer = await this.ask({
      method: "POST",
      path: "/edge/management/v1/authenticate?method=password",
      body: { username, password },
      token: "",
    });
    this.#token = (JSON.parse(answer.text) as { data: { token: string } }).data.token;
  }

  /** The session of the client, also for one at another controller of the network. */
  get token(): string {
    return this.#token;
  }

  set token(token: string) {
    this.#token = token;
  }

  /** One request that must succeed. @throws RefusedError, and what ends its connection */
  async ask(request: HttpRequest): Promise<HttpAnswer> {
    const connection = await this.#take();
    try {
      return await this.#on(connection, request);
    } finally {
      this.#connections.push(connection);
    }
  }

  /** The data of a successful answer. */
  async data<T>(request: HttpRequest): Promise<T> {
    return (JSON.parse((await this.ask(request)).text) as { data: T }).data;
  }

  /** `count` calls, `concurrency` at a time; the request of each is made by `request` from its number. */
  async load(
    count: number,
    concurrency: number,
    request: (index: number) => HttpRequest,
    onAnswer: (answer: HttpAnswer, index: number) => void = () => {},
  ): Promise<LoadResult> {
    return await this.run(count, concurrency, async (index, ask) => onAnswer(await ask(request(index)), index));
  }

  /** Like {@link load} for work of several requests, one after the other on one connection. */
  async run(
    count: number,
    concurrency: number,
    work: (index: number, ask: (request: HttpRequest) => Promise<HttpAnswer>) => Promise<unknown>,
  ): Promise<LoadResult> {
    const times: number[] = [];
    let next = 0;
    const connections = await Promise.all(Array.from({ length: concurrency }, () => this.#take()));
    const started = performance.now();
    await Promise.all(
      connections.map(async (connection) => {
        const ask = (request: HttpRequest): Promise<HttpAnswer> => this.#on(connection, request);
        for (let index = next++; index < count; index = next++) {
          const began = performance.now();
          await work(index, ask);
          times.push(performance.now() - began);
        }
      }),
    );
    const took = performance.now() - started;
    this.#connections.push(...connections);
    times.sort((a, b) => a - b);
    return {
      perSecond: (count / took) * 1_000,
      p50Ms: quantile(times, 0.5),
      p99Ms: quantile(times, 0.99),
      maxMs: times.at(-1) ?? Number.NaN,
    };
  }

  close(): void {
    for (const connection of this.#connections.splice(0)) connection.close();
  }

  async #take(): Promise<Connection> {
    for (let known = this.#connections.pop(); known !== undefined; known = this.#connections.pop()) {
      if (known.isOpen) return known;
    }
    // One handshake at a time: a controller that is busy with many ends those that take it more than 5 seconds.
    const opened = this.#opened.then(() => Connection.open(this.#port, this.#options));
    this.#opened = opened.catch(() => {});
    return await opened;
  }

  async #on(connection: Connection, request: HttpRequest): Promise<HttpAnswer> {
    const { method, path, body } = request;
    const token = request.token ?? (request.bearer === undefined ? this.#token : "");
    const text = request.form
      ? String(new URLSearchParams(request.form))
      : body === undefined
        ? ""
        : JSON.stringify(body);
    const type = request.form
      ? "application/x-www-form-urlencoded"
      : body === undefined
        ? undefined
        : "application/json";
    const answer = await connection.send(
      `${method} ${path} HTTP/1.1\r\nhost: localhost:${this.#port}\r\naccept: application/json\r\n` +
        (token === "" ? "" : `zt-session: ${token}\r\n`) +
        (request.bearer === undefined ? "" : `authorization: Bearer ${request.bearer}\r\n`) +
        (type === undefined ? "" : `content-type: ${type}\r\n`) +
        `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
    if (answer.status >= 400) throw new RefusedError(request, answer);
    return answer;
  }
}

/** The value below which the share `q` of the sorted values lies. */
export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}
