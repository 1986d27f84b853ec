import type { PrecedenceName } from "@sallyport/wire";

/** A service of the identity, with its permissions and configs. */
export interface OverlayService {
  readonly id: string;
  readonly name: string;
  readonly canDial: boolean;
  readonly canBind: boolean;
  /** Connections are encrypted between the two ends. */
  readonly isEncrypted: boolean;
  /** Configs by the name of their type, as the controller gave them. */
  readonly configs: ReadonlyMap<string, unknown>;
  /** What the identity hosts every service with, when nothing more particular is said. */
  readonly defaultCost?: number | undefined;
  readonly defaultPrecedence?: PrecedenceName | undefined;
  /** What the identity hosts this service with; counts more than the service's config. */
  readonly cost?: number | undefined;
  readonly precedence?: PrecedenceName | undefined;
}

/** Who the tunneler is on the network. */
export interface OverlayIdentity {
  readonly id: string;
  readonly name: string;
  readonly appData: Readonly<Record<string, unknown>>;
}

/** How a circuit carries bytes: as one stream whose pieces mean nothing, or message by message. */
export type ConnectionKind = "stream" | "datagrams";

export interface OverlayDial {
  readonly kind: ConnectionKind;
  /** Dial the terminator with this instance id. */
  readonly instanceId?: string | undefined;
  /** What the host is told about the connection; not sent when empty. */
  readonly appData: Readonly<Record<string, string>>;
  /** For everything until the connection exists. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** `ip:port` of the two ends of the client's connection, for who looks at circuits. */
  readonly localAddress?: string | undefined;
  readonly remoteAddress?: string | undefined;
}

export interface OverlayHosting {
  /** Which of the service's terminators: 0, 1, … */
  readonly index: number;
  readonly cost: number;
  readonly precedence: PrecedenceName;
  readonly instanceId?: string | undefined;
  /** Answers every dial, by `accept` or `reject`; what it throws rejects the dial. */
  readonly onDial: (dial: OverlayIncomingDial) => Promise<void>;
}

/** The network under the tunneler: an SDK context, or a router's own fabric. */
export interface Overlay {
  /** For templates and instance ids. It may change between two calls of the services' listener. */
  readonly identity: OverlayIdentity;
  /**
   * Follows the services of the identity; every call is the whole set by id, and the first comes when it is known.
   *
   * @returns ends following
   */
  onServices(listener: (services: ReadonlyMap<string, OverlayService>) => void): () => void;
  /** Makes a circuit. @throws an error whose message says why not, or the signal's reason */
  dial(service: OverlayService, o: OverlayDial): Promise<OverlayConnection>;
  /** Makes a terminator, and keeps it across outages until it is closed; resolves at once, not when it exists. */
  host(service: OverlayService, o: OverlayHosting): Promise<HostedTerminator>;
  /** Takes back every terminator and closes every connection. */
  close(): Promise<void>;
}

/** A terminator of this tunneler. */
export interface HostedTerminator {
  /** It could be dialled, once at least; undefined where that is not known. */
  readonly isEstablished?: boolean | undefined;
  /** Changes what is given; kept for the time when the terminator can be reached again. */
  update(o: { readonly cost?: number | undefined; readonly precedence?: PrecedenceName | undefined }): Promise<void>;
  /** Tells the network about the health of the application behind it; not repeated. */
  healthEvent(passed: boolean): void;
  /** Takes it back; connections that came through it go on. */
  close(): Promise<void>;
}

/** A circuit that wants to end here. */
export interface OverlayIncomingDial {
  readonly appData: Buffer | undefined;
  /** Name of the identity that dialled, when it is known. */
  readonly callerId: string | undefined;
  /** Aborted when the dialer no longer waits for the answer. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Makes the connection. The addresses (`ip:port` of the connection to the target) are told to the dialer where the
   * network can do that.
   */
  accept(o: {
    readonly kind: ConnectionKind;
    readonly localAddress?: string | undefined;
    readonly remoteAddress?: string | undefined;
  }): Promise<OverlayConnection>;
  /** Fails the dial with these words; `cause` is the error behind them, if there is one. */
  reject(reason: string, cause?: unknown): void;
}

/** One circuit as the tunneler sees it: bytes with back-pressure and half close; end-to-end encryption is inside. */
export interface OverlayConnection {
  readonly circuitId: string;
  /** Plain bytes that make one message; longer writes are cut for streams, and go as they are for datagrams. */
  readonly maxMessage: number;
  /** Called once; from then on the handler is called, never before `start` has returned. */
  start(handler: OverlayHandler): void;
  /**
   * Takes bytes that are valid during the call only. After `endWriting` or the end of the connection they are dropped.
   *
   * @returns false: taken, but write no more until `handler.writable()`
   */
  write(buffer: Buffer, start: number, end: number): boolean;
  /** Half close: the other end sees the end of data behind everything written. */
  endWriting(): void;
  /** There is room again after `handler.data` answered false. */
  resume(): void;
  /** Ends both directions; what was written before is still sent. The handler is not called any more. */
  close(reason?: string): void;
}

/** What is told about a connection. */
export interface OverlayHandler {
  /**
   * Bytes, valid during the call only; for datagrams one message.
   *
   * @returns false: not taken (no room); they are given again after `resume()`
   */
  data(buffer: Buffer, start: number, end: number): boolean;
  /** The other end sends nothing more. */
  endOfData(): void;
  /** There is room again after `write` answered false. */
  writable(): void;
  /** The connection has ended: regularly, or with an error. The last call. */
  closed(error?: Error): void;
}
