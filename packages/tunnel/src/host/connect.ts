import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { isIP, isIPv6, Socket, type TcpSocketConnectOpts } from "node:net";
import { errorText } from "@sallyport/async";
import { hostPort } from "../config/template.ts";
import { type DatagramEnd, DatagramInbox } from "../relay/datagram-relay.ts";
import type { Target } from "./target.ts";

/** A connection to the application that a circuit goes to. */
export type Connected =
  | { readonly protocol: "tcp"; readonly socket: Socket; readonly addresses: ConnectedAddresses }
  | { readonly protocol: "udp"; readonly end: DatagramEnd; readonly addresses: ConnectedAddresses };

interface ConnectedAddresses {
  readonly localAddress: string;
  readonly remoteAddress: string;
}

export interface TargetConnectOptions {
  readonly timeoutMs: number;
  readonly proxy?: { readonly host: string; readonly port: number } | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Connects to a target.
 *
 * @returns a paused TCP socket with `allowHalfOpen`, or a UDP socket that knows only its target
 * @throws Error with a message for the dialer
 */
export async function connectTarget(target: Target, o: TargetConnectOptions): Promise<Connected> {
  const timeout = AbortSignal.timeout(o.timeoutMs);
  const signal = o.signal === undefined ? timeout : AbortSignal.any([timeout, o.signal]);
  const where = `${target.protocol}:${hostPort(target.host, target.port)}`;
  try {
    return await (target.protocol === "tcp"
      ? connectTcp(target, o.proxy, signal)
      : connectUdp(target, o.proxy, signal));
  } catch (cause) {
    const reason = timeout.aborted ? `no connection within ${o.timeoutMs} ms` : textOf(cause);
    const from = target.source === undefined ? "" : ` from ${hostPort(target.source.ip, target.source.port)}`;
    throw new Error(`connecting to ${where}${from} failed: ${reason}`, { cause });
  }
}

async function connectTcp(
  target: Target,
  proxy: TargetConnectOptions["proxy"],
  signal: AbortSignal,
): Promise<Connected> {
  const { source } = target;
  const to = proxy ?? target;
  const socket = new Socket({ allowHalfOpen: true });
  // What fails later belongs to who has the socket by then.
  const ignore = () => {};
  socket.on("error", ignore);
  try {
    const options: TcpSocketConnectOpts & { noDelay: boolean } = { host: to.host, port: to.port, noDelay: true };
    if (source !== undefined) Object.assign(options, { localAddress: source.ip, family: isIPv6(source.ip) ? 6 : 4 });
    if (source !== undefined && source.port !== 0) options.localPort = source.port;
    socket.connect(options);
    await once(socket, "connect", { signal });
    socket.pause();
    if (proxy !== undefined) await connectThroughProxy(socket, target, signal);
  } catch (error) {
    socket.destroy();
    throw error;
  }
  return {
    protocol: "tcp",
    socket,
    addresses: {
      localAddress: hostPort(socket.localAddress ?? "", socket.localPort ?? 0),
      remoteAddress: hostPort(socket.remoteAddress ?? "", socket.remotePort ?? 0),
    },
  };
}

async function connectUdp(
  target: Target,
  proxy: TargetConnectOptions["proxy"],
  signal: AbortSignal,
): Promise<Connected> {
  if (proxy !== undefined) throw new Error("an http proxy carries no udp");
  const { source } = target;
  const family = source === undefined ? 0 : isIPv6(source.ip) ? 6 : 4;
  const address =
    isIP(target.host) !== 0 ? target.host : (await lookup(target.host, family === 0 ? {} : { family })).address;
  const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
  try {
    if (source !== undefined) {
      socket.bind({ address: source.ip, port: source.port, exclusive: true });
      await once(socket, "listening", { signal });
    }
    socket.connect(target.port, address);
    await once(socket, "connect", { signal });
  } catch (error) {
    socket.close();
    throw error;
  }
  const [local, remote] = [socket.address(), socket.remoteAddress()];
  return {
    protocol: "udp",
    end: new UdpTargetSocket(socket),
    addresses: {
      localAddress: hostPort(local.address, local.port),
      remoteAddress: hostPort(remote.address, remote.port),
    },
  };
}

function textOf(error: unknown): string {
  // A host with several addresses fails with all of their errors.
  if (error instanceof AggregateError) return error.errors.map((each) => textOf(each)).join("; ");
  return errorText(error);
}

const MAX_HEAD = 16 * 1024;

/** Asks an HTTP proxy at the other end of a paused socket for a connection to a target. @throws Error with the proxy's status line */
async function connectThroughProxy(
  socket: Socket,
  target: { readonly host: string; readonly port: number },
  signal: AbortSignal,
): Promise<void> {
  const authority = hostPort(target.host, target.port);
  // A name that ends a line would be a request of its own.
  if (!/^[!-~]+$/.test(authority))
    throw new Error(`${JSON.stringify(target.host)} is no host to ask an http proxy for`);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const head = await readHead(socket, signal);
  const [statusLine = ""] = head.split("\r\n", 1);
  if (!/^HTTP\/1\.[01] 2\d\d\b/.test(statusLine)) {
    throw new Error(`the http proxy refused: ${JSON.stringify(statusLine.slice(0, 200))}`);
  }
}

function readHead(socket: Socket, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const settle = (act: () => void) => {
      socket.off("readable", onReadable).off("end", onEnd).off("close", onEnd);
      signal.removeEventListener("abort", onAbort);
      act();
    };
    const onReadable = () => {
      for (let chunk: unknown = socket.read(); Buffer.isBuffer(chunk); chunk = socket.read()) {
        bytes = Buffer.concat([bytes, chunk]);
      }
      const end = bytes.indexOf("\r\n\r\n");
      if (end >= 0) {
        const rest = bytes.subarray(end + 4);
        settle(() => {
          socket.pause();
          if (rest.length > 0) socket.unshift(rest);
          resolve(bytes.toString("latin1", 0, end));
        });
      } else if (bytes.length > MAX_HEAD) {
        settle(() => reject(new Error(`the http proxy's answer has no end within ${MAX_HEAD} bytes`)));
      }
    };
    const onEnd = () => settle(() => reject(new Error("the http proxy closed the connection")));
    const onAbort = () => settle(() => reject(signal.reason));
    socket.on("readable", onReadable).on("end", onEnd).on("close", onEnd);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** Datagrams to and from one target; others' are not seen. A target that refuses them closes it. */
class UdpTargetSocket implements DatagramEnd {
  readonly #socket: UdpSocket;
  readonly #inbox = new DatagramInbox();
  #onClose: ((reason?: string) => void) | undefined;
  #isClosed = false;
  #failure: string | undefined;

  constructor(socket: UdpSocket) {
    this.#socket = socket;
    socket.on("message", (datagram) => this.#inbox.take(datagram));
    socket.on("error", (error) => this.#fail(`the target refuses datagrams: ${error.message}`));
  }

  onMessage(listener: (datagram: Buffer) => void): void {
    this.#inbox.listen(listener);
  }

  send(buffer: Buffer, start: number, end: number): void {
    if (this.#isClosed) return;
    // The bytes belong to the caller again when this returns.
    this.#socket.send(Buffer.from(buffer.subarray(start, end)), (error) => {
      if (error !== null) this.#fail(`a datagram cannot be sent: ${error.message}`);
    });
  }

  onClose(listener: (reason?: string) => void): void {
    this.#onClose = listener;
    if (this.#failure !== undefined) listener(this.#failure);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#socket.close();
  }

  #fail(reason: string): void {
    if (this.#isClosed) return;
    this.#failure = reason;
    this.close();
    this.#onClose?.(reason);
  }
}
