import type { Socket } from "node:net";

export type Protocol = "tcp" | "udp";

/** Ports from `low` to `high`, both included. */
export interface PortRange {
  readonly low: number;
  readonly high: number;
}

/** What is to be intercepted for one service. */
export interface InterceptTarget {
  /** Of the service. */
  readonly id: string;
  readonly name: string;
  readonly protocols: readonly Protocol[];
  /** IP addresses, CIDR ranges, host names, `*.domain`. */
  readonly addresses: readonly string[];
  readonly portRanges: readonly PortRange[];
  /** IP addresses and CIDR ranges of the only clients; empty: all. */
  readonly allowedSourceAddresses: readonly string[];
}

/** A service that an identity may use. */
export interface OfferedService {
  readonly name: string;
  readonly canDial: boolean;
}

/** Gives clients of services to the tunneler: by interception of their packets, or by ports of its own. */
export interface Interceptor {
  /** Services are intercepted by their names, whether they have an intercept config or not. */
  readonly interceptsByName?: boolean | undefined;
  /** @throws InterceptError which says what failed, for what, and what to do */
  intercept(target: InterceptTarget, clients: InterceptedClients): Promise<Interception>;
  /** What clients were promised and do not have yet, each in words; nothing when left out. */
  pending?(): readonly string[];
  /** What was asked for and is not among the services of an identity, each in words; nothing when left out. */
  missing?(services: Iterable<OfferedService>): readonly string[];
  /** Ends everything and removes every rule, route and address. */
  close(): Promise<void>;
}

/** A service that is being intercepted. */
export interface Interception {
  /** Ends it; established connections go on. */
  close(): Promise<void>;
}

/** Who is given what was intercepted. */
export interface InterceptedClients {
  tcp(client: TcpClient): void;
  udp(flow: UdpFlow): void;
}

/** The two ends of a client's connection as the client sees them. */
export interface ClientAddresses {
  readonly protocol: Protocol;
  readonly sourceIp: string;
  readonly sourcePort: number;
  readonly destinationIp: string;
  readonly destinationPort: number;
  /** The name that the client asked our name server for, when there is one. */
  readonly destinationHostname?: string | undefined;
}

export interface TcpClient {
  readonly addresses: ClientAddresses;
  /** Paused, with `allowHalfOpen`; nothing was read from it. */
  readonly socket: Socket;
}

/** Datagrams of one client socket to one destination. */
export interface UdpFlow {
  readonly addresses: ClientAddresses;
  /** Datagrams from the client, those that came before this call first. Valid during the call only. */
  onMessage(listener: (datagram: Buffer) => void): void;
  /** A datagram to the client, from the destination it sent to. The bytes are copied or sent before it returns. */
  send(buffer: Buffer, start: number, end: number): void;
  /** Called once when the flow has ended here: idle, or the interceptor closed. */
  onClose(listener: () => void): void;
  close(): void;
}

/** An interception cannot be made, or was asked for wrongly. */
export class InterceptError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InterceptError";
    this.code = code;
  }
}
