import {
  type Channel,
  ControlHello,
  type ControllerCapability,
  hasCapability,
  type VersionInfo,
} from "@sallyport/wire";

/** One connected controller. Lives as long as its channel: a reconnect makes a new one with the same id. */
export class ControllerConnection {
  /** Stable across reconnects: the id the controller announced in its result. */
  readonly id: string;
  readonly channel: Channel;
  readonly version: VersionInfo;
  /** Address that was dialled, `tls:host:port`. */
  readonly address: string;
  readonly connectedAt: number;
  readonly #capabilities: Buffer | undefined;
  #lastLatency: { ms: number; at: number } | undefined;
  #isHanging = false;

  constructor(o: { channel: Channel; version: VersionInfo; address: string; now: number }) {
    this.id = o.channel.remoteId;
    this.channel = o.channel;
    this.version = o.version;
    this.address = o.address;
    this.connectedAt = o.now;
    const { result } = o.channel;
    // In the result of a grouped channel, header 12 names the kind of connection.
    this.#capabilities = result.get(ControlHello.CapabilitiesV2) ?? result.get(ControlHello.Capabilities);
  }

  has(capability: (typeof ControllerCapability)[keyof typeof ControllerCapability]): boolean {
    return hasCapability(this.#capabilities, capability);
  }

  /** A heartbeat was answered. */
  heard(latencyMs: number, now: number): void {
    this.#isHanging = false;
    this.#lastLatency = { ms: latencyMs, at: now };
  }

  /** Whether a heartbeat was answered at that time or later. */
  wasHeardSince(time: number): boolean {
    return (this.#lastLatency?.at ?? Number.NEGATIVE_INFINITY) >= time;
  }

  /** It answers neither a request nor a heartbeat: others are asked first until it answers one. */
  hangs(): void {
    this.#isHanging = true;
  }

  /** Milliseconds of the last answered heartbeat; unknown counts as slow, so that a proven controller is preferred. */
  get latencyMs(): number {
    return this.#lastLatency?.ms ?? Number.MAX_SAFE_INTEGER;
  }

  /** Answers slowly or not at all: others are asked first (docs/protocol/control.md, "Liveness"). */
  isUnresponsive(now: number, o: { unresponsiveAfterMs: number; sendIntervalMs: number }): boolean {
    if (this.channel.isClosed || this.#isHanging) return true;
    if (this.#lastLatency === undefined) return now - this.connectedAt > o.sendIntervalMs + o.unresponsiveAfterMs;
    const silence = now - this.#lastLatency.at;
    return this.#lastLatency.ms > o.unresponsiveAfterMs || silence > o.sendIntervalMs + o.unresponsiveAfterMs;
  }
}
