import { Listeners, unlessHanging } from "@sallyport/async";
import {
  type Address,
  type Channel,
  ChannelClosedError,
  type ChannelLimits,
  CONTROL_ALPN,
  ControlHello,
  formatAddress,
  type Hello,
  type HttpProxy,
  type Identity,
  type Logger,
  type Message,
  type Outgoing,
  parseVersionInfo,
  ReconnectingDialer,
  type RequestOptions,
} from "@sallyport/wire";
import { ControlError, ControllerHangsError, NoControllerError } from "../errors.ts";
import { ControllerConnection } from "./controller-connection.ts";
import { ControllerEndpoints } from "./controller-endpoints.ts";

/** For each request to the controller that is asked. */
export type AskOptions = Required<Pick<RequestOptions, "timeoutMs" | "signal">>;

type ControlHandler = (message: Message, controller: ControllerConnection) => void | Promise<void>;

export interface ControllersOptions {
  /** The current identity, read at every attempt. */
  readonly identity: () => Identity;
  /** The hello of the control channel, read at every attempt. */
  readonly hello: () => Hello;
  readonly localAddress?: string | undefined;
  /** The controllers are dialled through this proxy. */
  readonly proxy?: HttpProxy | undefined;
  readonly connectTimeoutMs: number;
  /** What may wait for a controller that does not read, and for how long. */
  readonly limits?: ChannelLimits;
  readonly requestTimeoutMs: number;
  /** `unresponsiveAfterMs`: others are asked first. `closeUnresponsiveMs`: the channel is closed and dialled again. */
  readonly heartbeats: {
    sendIntervalMs: number;
    checkIntervalMs: number;
    unresponsiveAfterMs: number;
    closeUnresponsiveMs: number;
  };
  readonly log: Logger;
  /** Longest wait between attempts after a loss; 3 s. */
  readonly retryMs?: number;
}

/** How long a request may be unanswered before its controller is asked whether it answers at all. */
const PATIENCE_MS = 750;
/** An answer to a heartbeat counts for so long: requests that take long are no reason for more than four heartbeats a second. */
const FRESH_MS = 250;
/** How long the answer to a probe may take. */
const PROBE_MS = 750;
const FIRST_RETRY_MS = 50;
/** Before the first connection: soon enough for a controller that joins, is restarted elsewhere, or starts after its routers. */
const MAX_RETRY_MS = 30_000;
/** Within the time that a controller which was restarted has dials wait for its routers (docs/protocol/fabric.md, "Restart"). */
const RECONNECT_MS = 3000;

/**
 * The control channels of this router, one per controller: dialled, kept alive and dialled again without end. What is
 * registered here (handlers, listeners) holds for every channel there is and will be.
 */
export class Controllers {
  readonly #options: ControllersOptions;
  readonly #log: Logger;
  readonly #endpoints = new ControllerEndpoints((address) => this.#dialer(address));
  readonly #live = new Map<string, ControllerConnection>();
  readonly #seen = new Set<string>();
  readonly #handlers = new Map<number, ControlHandler>();
  readonly #connected = new Listeners<[controller: ControllerConnection, isReconnect: boolean]>();
  readonly #hanging = new Listeners<[controller: ControllerConnection]>();
  readonly #disconnected = new Listeners<[controller: ControllerConnection, reason: Error | undefined]>();
  #stopped = false;

  constructor(options: ControllersOptions) {
    this.#options = options;
    this.#log = options.log;
  }

  /** Takes messages of a content type from every controller. What a handler throws is logged and ends nothing. */
  handle(contentType: number, handler: ControlHandler): void {
    this.#handlers.set(contentType, handler);
    for (const controller of this.#live.values()) {
      controller.channel.handle(contentType, (message) => handler(message, controller));
    }
  }

  onConnected(listener: (controller: ControllerConnection, isReconnect: boolean) => void): void {
    this.#connected.add(listener);
  }

  onDisconnected(listener: (controller: ControllerConnection, reason: Error | undefined) => void): void {
    this.#disconnected.add(listener);
  }

  /** A controller answers nothing any more, but its channel is still open. */
  onHanging(listener: (controller: ControllerConnection) => void): void {
    this.#hanging.add(listener);
  }

  /**
   * Dials what is new and closes what is no longer listed.
   *
   * @param owners id of the controller that answers at an address (as `formatAddress` writes it), as far as it is known
   */
  setEndpoints(endpoints: readonly Address[], owners: ReadonlyMap<string, string> = new Map()): void {
    if (this.#stopped) return;
    this.#endpoints.replace(endpoints.map(formatAddress), owners, (id) => this.#live.has(id));
  }

  /** Closes the channel to the controller at `address` and dials it no more until {@link resume}. */
  suspend(address: string): void {
    this.#endpoints.suspend(address);
  }

  resume(address: string): void {
    if (!this.#stopped) this.#endpoints.resume(address);
  }

  get endpoints(): string[] {
    return this.#endpoints.addresses;
  }

  all(): ControllerConnection[] {
    return [...this.#live.values()];
  }

  byId(id: string): ControllerConnection | undefined {
    return this.#live.get(id);
  }

  /** The controller to ask: one that answers, the fastest of several; of those that `suits` names. */
  best(suits: (controller: ControllerConnection) => boolean = () => true): ControllerConnection | undefined {
    const rank = (controller: ControllerConnection) => (this.isResponsive(controller) ? 0 : 1);
    return this.all()
      .filter((controller) => !controller.channel.isClosed && suits(controller))
      .sort((a, b) => rank(a) - rank(b) || a.latencyMs - b.latencyMs)[0];
  }

  /**
   * The best controller, or the first to connect within the time. Rejects with NoControllerError afterwards: `what` says
   * for what one was needed.
   */
  async connected(what: string, timeoutMs: number): Promise<ControllerConnection> {
    const found = this.best();
    if (found !== undefined) return found;
    return await new Promise((resolve, reject) => {
      const forget = (): void => {
        clearTimeout(timer);
        remove();
      };
      const came = (controller: ControllerConnection): void => {
        forget();
        resolve(controller);
      };
      const timer = setTimeout(() => {
        forget();
        reject(new NoControllerError(what, timeoutMs));
      }, timeoutMs);
      timer.unref();
      const remove = this.#connected.add(came);
    });
  }

  /**
   * Asks the best controller, or the first to connect. Another one is asked within the same time when its channel closes before the answer
   * (what it may have begun ended with its process), or when it hangs. So what is asked does no harm when it is asked twice, or what a late
   * answer made is undone.
   *
   * @param ask passes the options on to each request
   * @param waits whether a controller is waited for while none is connected
   * @throws NoControllerError, and what `ask` throws
   */
  async ask<T>(
    what: string,
    timeoutMs: number,
    ask: (controller: ControllerConnection, options: AskOptions) => Promise<T>,
    { waits = true }: { readonly waits?: boolean } = {},
  ): Promise<T> {
    const until = performance.now() + timeoutMs;
    for (;;) {
      const leftMs = until - performance.now();
      const controller = waits ? await this.connected(what, leftMs) : this.best();
      if (controller === undefined) throw new NoControllerError(what);
      try {
        return await this.#unlessHanging(controller, (signal) =>
          ask(controller, { timeoutMs: Math.max(1, Math.round(until - performance.now())), signal }),
        );
      } catch (error) {
        const isGone = error instanceof ChannelClosedError && controller.channel.isClosed;
        if (!isGone && !(error instanceof ControllerHangsError)) throw error;
      }
    }
  }

  /** Whether it answered its last heartbeats in time. */
  isResponsive(controller: ControllerConnection): boolean {
    const { sendIntervalMs, unresponsiveAfterMs } = this.#options.heartbeats;
    return !controller.isUnresponsive(performance.now(), { sendIntervalMs, unresponsiveAfterMs });
  }

  /** Asks the best controller. Rejects with NoControllerError (`what` says for what), or as `Channel.request`. */
  async request(
    what: string,
    out: Outgoing,
    o: RequestOptions = {},
  ): Promise<{ reply: Message; controller: ControllerConnection }> {
    const controller = this.best();
    if (controller === undefined) throw new NoControllerError(what);
    const reply = await controller.channel.request(out, { timeoutMs: this.#options.requestTimeoutMs, ...o });
    return { reply, controller };
  }

  /** {@link request} for what does no harm when it is asked twice: another controller is asked when one is lost or hangs. */
  async repeatableRequest(what: string, out: Outgoing, o: RequestOptions = {}): Promise<Message> {
    const timeoutMs = o.timeoutMs ?? this.#options.requestTimeoutMs;
    const ask = ({ channel }: ControllerConnection, options: AskOptions) => channel.request(out, { ...o, ...options });
    return await this.ask(what, timeoutMs, ask, { waits: false });
  }

  /** Sends to one controller; false when it is not connected. */
  sendTo(controllerId: string, out: Outgoing): boolean {
    const controller = this.#live.get(controllerId);
    return controller !== undefined && this.#send(controller, out);
  }

  /** Sends to every connected controller; the number of those. */
  broadcast(out: Outgoing): number {
    return this.all().filter((controller) => this.#send(controller, out)).length;
  }

  stop(): void {
    this.#stopped = true;
    this.#endpoints.stop();
  }

  async #unlessHanging<T>(controller: ControllerConnection, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return await unlessHanging({
      work: ask,
      patienceMs: PATIENCE_MS,
      hangs: () => new ControllerHangsError(controller.id),
      hasAlternative: () => this.all().some((other) => other !== controller && this.isResponsive(other)),
      answers: async () => {
        // The others at the same time: several may hang, as after a partition.
        const answers = this.all().map(async (each) => (await this.#answers(each)) && each === controller);
        return (await Promise.all(answers)).includes(true);
      },
    });
  }

  /** Whether it answers a heartbeat that is sent now. One that does not is asked last until it answers one. */
  async #answers(controller: ControllerConnection): Promise<boolean> {
    if (controller.wasHeardSince(performance.now() - FRESH_MS)) return true;
    if (await controller.channel.probe(PROBE_MS)) return true;
    if (controller.channel.isClosed || !this.isResponsive(controller)) return false;
    controller.hangs();
    this.#log.warn({ controllerId: controller.id }, "the controller answers no heartbeat; others are asked meanwhile");
    this.#hanging.emit(controller);
    return false;
  }

  #send(controller: ControllerConnection, out: Outgoing): boolean {
    if (controller.channel.isClosed) return false;
    try {
      controller.channel.send(out);
    } catch (error) {
      // The message too many for a controller that does not read. Reports leave by timers, where nothing would catch it.
      if (error instanceof ChannelClosedError) return false;
      throw error;
    }
    return true;
  }

  #dialer(address: string): ReconnectingDialer {
    const { identity, hello, localAddress, connectTimeoutMs, limits, proxy } = this.#options;
    return new ReconnectingDialer({
      address,
      // Getters, because every attempt reads them again: a certificate may have been renewed since.
      get identity() {
        return identity();
      },
      get hello() {
        return hello();
      },
      alpn: CONTROL_ALPN,
      isToController: true,
      timeoutMs: connectTimeoutMs,
      ...(localAddress === undefined ? {} : { localAddress }),
      ...(proxy === undefined ? {} : { proxy }),
      ...limits,
      initialDelayMs: FIRST_RETRY_MS,
      maxDelayMs: MAX_RETRY_MS,
      retryMs: this.#options.retryMs ?? RECONNECT_MS,
      log: this.#log,
      onChannel: (channel) => this.#accept(channel, address),
    });
  }

  #accept(channel: Channel, address: string): void {
    let version: ReturnType<typeof parseVersionInfo>;
    try {
      version = parseVersionInfo(channel.result.getString(ControlHello.Version) ?? "");
    } catch (error) {
      this.#log.warn({ address, err: error }, "controller announces no version; closing, it is dialled again");
      channel.close(error instanceof Error ? error : undefined);
      return;
    }
    const controller = new ControllerConnection({ channel, version, address, now: performance.now() });
    const other = this.#live.get(controller.id);
    if (other !== undefined && !other.channel.isClosed && other.address !== address) {
      this.#log.info({ address, controllerId: controller.id, via: other.address }, "controller is already connected");
      this.#endpoints.isAnother(address, controller.id);
      return;
    }
    this.#live.set(controller.id, controller);
    this.#endpoints.connected(address, controller.id);
    for (const [contentType, handler] of this.#handlers) {
      channel.handle(contentType, (message) => handler(message, controller));
    }
    channel.onClose((reason) => this.#closed(controller, reason));
    const { sendIntervalMs, checkIntervalMs, closeUnresponsiveMs } = this.#options.heartbeats;
    channel.enableHeartbeats({
      sendIntervalMs,
      checkIntervalMs,
      closeUnresponsiveMs,
      onLatency: (ns) => controller.heard(Number(ns) / 1e6, performance.now()),
    });
    const isReconnect = this.#seen.has(controller.id);
    this.#seen.add(controller.id);
    const fields = { controllerId: controller.id, address, version: version.version, isReconnect };
    this.#log.info(fields, "connected to the controller");
    this.#connected.emit(controller, isReconnect);
  }

  #closed(controller: ControllerConnection, reason: Error | undefined): void {
    if (this.#live.get(controller.id) === controller) {
      this.#live.delete(controller.id);
      if (!this.#stopped) this.#endpoints.lost(controller.id);
    }
    const fields = { controllerId: controller.id, address: controller.address, reason: reason?.message };
    if (this.#stopped) this.#log.debug(fields, "control channel closed");
    else this.#log.warn(fields, "lost the controller; dialling again");
    this.#disconnected.emit(controller, reason);
  }
}

/** Waits for the first controller; rejects with ControlError `STARTUP_TIMEOUT` after `timeoutMs`, 0: never. */
export function firstController(controllers: Controllers, timeoutMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const text = `no controller was reached within ${timeoutMs / 1000} s (ctrl.startupTimeout)`;
    const late = () => reject(new ControlError("STARTUP_TIMEOUT", text));
    const timer = timeoutMs === 0 ? undefined : setTimeout(late, timeoutMs);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
    controllers.onConnected(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
