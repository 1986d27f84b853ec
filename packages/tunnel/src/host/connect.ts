import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { isIP, isIPv6, Socket, type TcpSocketConnectOpts } from "node:net";
import { errorText } from "@sallyport/async";
import { hostPort } from "../config/template.ts";
import { connectThroughProxy } from "./proxy-connect.ts";
import type { Target } from "./target.ts";
import type { UdpTarget } from "./udp-target.ts";
import { UdpTargetSocket } from "./udp-target.ts";

/** A connection to the application that a circuit goes to. */
export type Connected =
  | { readonly protocol: "tcp"; readonly socket: Socket; readonly addresses: ConnectedAddresses }
  | { readonly protocol: "udp"; readonly end: UdpTarget; readonly addresses: ConnectedAddresses };

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
