import { Backoff, errorText } from "@sallyport/async";
import { boundedLog, type Logger, type Message, TerminatorResult } from "@sallyport/wire";
import { MeasuredPool, type WorkPool } from "../../metrics/work-pool.ts";
import type { KeptTerminator, TerminatorAnswer } from "../control-plane.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { AskOptions, Controllers } from "../controllers/controllers.ts";
import { ControlError } from "../errors.ts";
import type { AdaptiveWindow } from "./adaptive-window.ts";

/** How terminators of one kind of host are created at a controller. */
export interface TerminatorProtocol<R> {
  /** Content type of the answer: one that comes after its request was given up still counts. */
  readonly responseType: number;
  /** Asks the controller. What it throws is no answer: the request is repeated. */
  request(request: R, controller: ControllerConnection, options: AskOptions): Promise<TerminatorAnswer>;
  read(message: Message): TerminatorAnswer;
  /** Whether a failure ends the matter; others are tried again. */
  isFinal(outcome: TerminatorAnswer): boolean;
  /** Do both rest on the same right to host? */
  isSameClaim(a: R, b: R): boolean;
}

export interface TerminatorRegistryOptions<R> {
  readonly controllers: Controllers;
  readonly messages: TerminatorProtocol<R>;
  /** `forwarder.rateLimitedWorkerCount` and `.rateLimitedQueueLength`. */
  readonly workers: number;
  readonly queueLength: number;
  /** Bounds what is on its way to the controllers, all terminators together. */
  readonly window?: AdaptiveWindow | undefined;
  readonly onLost: (id: string, outcome: TerminatorAnswer) => void;
  readonly log: Logger;
  /** For tests; the standard times are those of docs/protocol/control.md, "Terminators". */
  readonly times?: Partial<typeof times>;
}

const times = {
  /** Wait for one answer. */
  answerMs: 30_000,
  /** First wait after "busy"; doubles up to `busyMaxMs`. */
  busyMs: 2000,
  busyMaxMs: 60_000,
  /** Unanswered requests are looked for this often... */
  scanMs: 60_000,
  /** ...and sent again when older than this. */
  staleMs: 120_000,
  /** After a reconnect a controller gets this long to confirm terminators before they are sent again. */
  confirmMs: 10_000,
};

interface RegistryEntry<R> {
  request: R;
  readonly first: PromiseWithResolvers<TerminatorAnswer>;
  state: "waiting" | "sending" | "established";
  /** By the steady clock, in milliseconds; not finite before it was sent. */
  sentAt: number;
  readonly busy: Backoff;
  /** Set by a validation since the last connect. */
  confirmed: boolean;
  retry: NodeJS.Timeout | undefined;
}

/**
 * The terminators hosted here, by id. Each is sent until a controller has it: again when busy, when the answer got
 * lost, and after a reconnect unless the controller's validation named it. The id is chosen here and never changes, so
 * that repeating does no harm.
 */
export class TerminatorRegistry<R extends KeptTerminator> {
  readonly #o: TerminatorRegistryOptions<R>;
  readonly #log: Logger;
  readonly #times: typeof times;
  readonly #entries = new Map<string, RegistryEntry<R>>();
  readonly #queue: MeasuredPool;
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(options: TerminatorRegistryOptions<R>) {
    this.#o = options;
    this.#log = boundedLog(options.log);
    this.#times = { ...times, ...options.times };
    this.#queue = new MeasuredPool(options.workers, options.queueLength);
    options.controllers.onConnected(() => this.#connected());
    // An answer after its request was given up still counts.
    options.controllers.handle(options.messages.responseType, (message) => this.#answered(message));
    const scan = setInterval(() => this.#scan(), this.#times.scanMs);
    scan.unref();
    this.#timers.add(scan);
  }

  get pool(): WorkPool {
    return this.#queue;
  }

  get ids(): string[] {
    return [...this.#entries.keys()];
  }

  inspect(): object {
    const wallTime = (steady: number): string => new Date(Date.now() + steady - performance.now()).toISOString();
    return {
      entries: [...this.#entries].map(([id, { request, state, sentAt, retry }]) => ({
        key: id,
        id,
        state: state === "established" ? state : "establishing",
        instance: request.instanceId,
        cost: request.cost,
        operationActive: state === "sending" || retry !== undefined,
        lastAttempt: Number.isFinite(sentAt) ? wallTime(sentAt) : "",
      })),
      errors: null,
    };
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Whether a controller has said that it has it. */
  isEstablished(id: string): boolean {
    return this.#entries.get(id)?.state === "established";
  }

  /** See ControlPlane.createTerminator. */
  create(request: R, signal?: AbortSignal): Promise<TerminatorAnswer> {
    signal?.throwIfAborted();
    const present = this.#entries.get(request.address);
    const isKnown = present !== undefined && this.#o.messages.isSameClaim(present.request, request);
    const { promise } = (isKnown ? present : this.#enter(request, present)).first;
    if (signal === undefined) return promise;
    return new Promise((resolve, reject) => {
      const aborted = () => reject(signal.reason);
      signal.addEventListener("abort", aborted, { once: true });
      promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", aborted));
    });
  }

  /**
   * A listener that goes on under another session replaces its entry: whether that session may host the service is for a
   * controller to say, and what it said of the old session no longer counts.
   */
  #enter(request: R, replaced: RegistryEntry<R> | undefined): RegistryEntry<R> {
    const { address } = request;
    clearTimeout(replaced?.retry);
    const text = `terminator ${address} goes on under another session`;
    replaced?.first.reject(new ControlError("TERMINATOR_REPLACED", text));
    const entry: RegistryEntry<R> = {
      request,
      first: Promise.withResolvers<TerminatorAnswer>(),
      state: "waiting",
      sentAt: Number.NEGATIVE_INFINITY,
      busy: new Backoff({ firstMs: this.#times.busyMs, maxMs: this.#times.busyMaxMs }),
      confirmed: false,
      retry: undefined,
    };
    entry.first.promise.catch(() => {});
    this.#entries.set(address, entry);
    this.#send(entry);
    return entry;
  }

  /** What was changed is what is created when it has to be created again. */
  revise(id: string, change: { readonly [K in keyof R]?: R[K] | undefined }): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    const said = Object.entries(change).filter(([, value]) => value !== undefined);
    entry.request = { ...entry.request, ...Object.fromEntries(said) };
  }

  /** Stops caring for these terminators; the removal at the controllers is another matter. */
  forget(ids: readonly string[]): void {
    for (const id of ids) {
      const entry = this.#entries.get(id);
      if (entry === undefined) continue;
      clearTimeout(entry.retry);
      this.#entries.delete(id);
      const text = `terminator ${id} was removed before a controller took it`;
      entry.first.reject(new ControlError("TERMINATOR_REMOVED", text));
    }
  }

  /** A controller asked for this terminator: it has it. */
  confirm(id: string): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.confirmed = true;
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.forget(this.ids);
    this.#queue.close();
  }

  #connected(): void {
    for (const entry of this.#entries.values()) {
      entry.confirmed = false;
      if (entry.state === "waiting" && entry.retry === undefined) this.#send(entry);
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      for (const entry of this.#entries.values()) {
        if (entry.state === "established" && !entry.confirmed) this.#send(entry);
      }
    }, this.#times.confirmMs);
    timer.unref();
    this.#timers.add(timer);
  }

  #scan(): void {
    const now = performance.now();
    for (const entry of this.#entries.values()) {
      if (entry.state !== "established" && entry.retry === undefined && now - entry.sentAt >= this.#times.staleMs) {
        this.#send(entry);
      }
    }
  }

  #send(entry: RegistryEntry<R>): void {
    if (entry.state === "sending") return;
    entry.state = "sending";
    entry.sentAt = performance.now();
    const accepted = this.#queue.run(async () => {
      if (this.#entries.get(entry.request.address) !== entry) return;
      try {
        this.#finish(entry, await this.#ask(entry.request));
      } catch (error) {
        // No controller, no answer, or an answer that is none: the next connect or scan sends it again.
        if (entry.state === "sending") entry.state = "waiting";
        const reason = errorText(error);
        this.#log.warn({ terminatorId: entry.request.address, reason }, "a terminator is not yet created");
      }
    });
    if (!accepted) this.#retryLater(entry);
  }

  async #ask(request: R): Promise<TerminatorAnswer> {
    return await this.#o.controllers.ask(
      "creating a terminator",
      this.#times.answerMs,
      (controller, options) => this.#request(request, controller, options),
      { waits: false },
    );
  }

  async #request(request: R, controller: ControllerConnection, options: AskOptions): Promise<TerminatorAnswer> {
    const leave = await this.#o.window?.enter();
    try {
      const outcome = await this.#o.messages.request(request, controller, options);
      leave?.(outcome.result === TerminatorResult.FailedBusy ? "busy" : "success");
      return outcome;
    } catch (error) {
      leave?.("lost");
      throw error;
    }
  }

  #answered(message: Message): void {
    const outcome = this.#o.messages.read(message);
    const entry = this.#entries.get(outcome.terminatorId);
    if (entry !== undefined) this.#finish(entry, outcome);
  }

  #finish(entry: RegistryEntry<R>, outcome: TerminatorAnswer): void {
    if (this.#entries.get(entry.request.address) !== entry) return;
    if (outcome.result === TerminatorResult.FailedBusy) {
      entry.state = "waiting";
      this.#retryLater(entry);
      return;
    }
    clearTimeout(entry.retry);
    entry.retry = undefined;
    entry.busy.reset();
    if (outcome.result === TerminatorResult.Success) {
      entry.state = "established";
      entry.confirmed = true;
      entry.first.resolve(outcome);
      return;
    }
    const { address } = entry.request;
    const fields = { terminatorId: address, result: outcome.result, reason: outcome.message };
    if (!this.#o.messages.isFinal(outcome)) {
      entry.state = "waiting";
      this.#log.warn(fields, "the controller does not take a terminator yet; it is asked again");
      return;
    }
    const wasEstablished = entry.state === "established" || entry.confirmed;
    this.#entries.delete(address);
    entry.first.resolve(outcome);
    this.#log.warn({ ...fields, wasEstablished }, "the controller refused a terminator");
    this.#o.onLost(address, outcome);
  }

  #retryLater(entry: RegistryEntry<R>): void {
    entry.state = "waiting";
    clearTimeout(entry.retry);
    entry.retry = setTimeout(() => {
      entry.retry = undefined;
      this.#send(entry);
    }, entry.busy.next());
    entry.retry.unref();
  }
}
