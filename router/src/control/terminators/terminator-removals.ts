import { Backoff, errorText } from "@sallyport/async";
import { BaseHeader, BaseType, ControlHeader, ControlType, ctrlPb, encodeControl, type Logger } from "@sallyport/wire";
import type { Controllers } from "../controllers/controllers.ts";
import type { AdaptiveWindow, WindowOutcome } from "./adaptive-window.ts";

export interface RemovalOptions {
  readonly controllers: Controllers;
  /** Bounds what is on its way to the controllers, all terminators together. */
  readonly window?: AdaptiveWindow | undefined;
  readonly log: Logger;
}

/** Wait after the first failure; it doubles up to the maximum. */
const RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/** Terminators removed with one message. */
const BATCH = 50;
const MAX_PENDING = 100_000;

/**
 * Has terminators removed at the controllers, in batches, until one took it: again when it is busy, does not answer or is
 * not there (docs/protocol/control.md, "Terminators").
 */
export class TerminatorRemovals {
  readonly #o: RemovalOptions;
  readonly #pending = new Set<string>();
  #running = false;
  #retry: NodeJS.Timeout | undefined;
  readonly #backoff = new Backoff({ firstMs: RETRY_MS, maxMs: MAX_RETRY_MS });
  #closed = false;

  constructor(options: RemovalOptions) {
    this.#o = options;
    options.controllers.onConnected(() => this.#kick());
  }

  get pending(): number {
    return this.#pending.size;
  }

  add(ids: readonly string[]): void {
    for (const id of ids) {
      if (this.#pending.size >= MAX_PENDING) break;
      this.#pending.add(id);
    }
    this.#kick();
  }

  /** A terminator is wanted again. */
  cancel(id: string): void {
    this.#pending.delete(id);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
  }

  #kick(): void {
    if (this.#running || this.#closed || this.#pending.size === 0) return;
    clearTimeout(this.#retry);
    this.#running = true;
    // Removals of one turn of the event loop leave together.
    setImmediate(() => {
      this.#drain()
        .catch((error: unknown) => {
          const reason = errorText(error);
          this.#o.log.info({ pending: this.#pending.size, reason }, "terminators are not yet removed; trying again");
          if (this.#closed) return;
          this.#retry = setTimeout(() => this.#kick(), this.#backoff.next());
          this.#retry.unref();
        })
        .finally(() => {
          this.#running = false;
        });
    });
  }

  async #drain(): Promise<void> {
    while (this.#pending.size > 0 && !this.#closed) {
      const terminatorIds = [...this.#pending].slice(0, BATCH);
      const body = encodeControl(ctrlPb.RemoveTerminatorsRequestSchema, { terminatorIds });
      const leave = await this.#o.window?.enter();
      let outcome: WindowOutcome = "lost";
      try {
        const reply = await this.#o.controllers.repeatableRequest("removing terminators", {
          contentType: ControlType.RemoveTerminatorsRequest,
          body,
        });
        const ok = reply.contentType === BaseType.Result && reply.headers.getBool(BaseHeader.ResultSuccess) === true;
        const busy = reply.headers.getU32(ControlHeader.RateLimited) === 1;
        outcome = busy ? "busy" : "success";
        if (!ok) throw new Error(busy ? "the controller is busy" : reply.body.toString("utf8"));
      } finally {
        leave?.(outcome);
      }
      for (const id of terminatorIds) this.#pending.delete(id);
      this.#backoff.reset();
    }
  }
}
