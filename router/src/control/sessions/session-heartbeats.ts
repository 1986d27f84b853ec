import { setTimeout as delay } from "node:timers/promises";
import { EdgeCtrlType, edgeCtrlPb, encodeControl, type Logger } from "@sallyport/wire";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";

/** Knows which tokens are in use on this router. */
export interface TokenSource {
  apiSessionTokens(): Iterable<string>;
  sessionTokens(): Iterable<string>;
}

export interface SessionHeartbeatOptions {
  readonly controllers: Controllers;
  readonly heartbeatIntervalMs: number;
  readonly validate: { readonly chunkSize: number; readonly minPauseMs: number; readonly maxPauseMs: number };
  readonly log: Logger;
}

const MAX_TOKENS = 10_000;

/**
 * Keeps the API sessions in use alive at every controller, and after a reconnect asks which session tokens are still
 * valid; the controller names the others (docs/protocol/control.md, "API sessions").
 */
export class SessionHeartbeats {
  readonly #o: SessionHeartbeatOptions;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #source: TokenSource | undefined;

  constructor(options: SessionHeartbeatOptions) {
    this.#o = options;
    this.#timer = setInterval(() => this.beat(), options.heartbeatIntervalMs);
    this.#timer.unref();
    options.controllers.onConnected((controller) => {
      this.#validate(controller).catch((error: unknown) => {
        if (!this.#stop.signal.aborted) options.log.warn({ err: error }, "could not have sessions validated");
      });
    });
  }

  setSource(source: TokenSource): void {
    this.#source = source;
  }

  /** Reports the tokens in use now; called by the timer. */
  beat(): void {
    const tokens = [...(this.#source?.apiSessionTokens() ?? [])];
    for (let at = 0; at < tokens.length; at += MAX_TOKENS) {
      const body = encodeControl(edgeCtrlPb.ApiSessionHeartbeatSchema, { tokens: tokens.slice(at, at + MAX_TOKENS) });
      this.#o.controllers.broadcast({ contentType: EdgeCtrlType.ApiSessionHeartbeat, body });
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }

  async #validate(controller: ControllerConnection): Promise<void> {
    const isOpaque = (token: string) => !token.startsWith("ey");
    const tokens = [...new Set(this.#source?.sessionTokens() ?? [])].filter(isOpaque);
    const { chunkSize: size, minPauseMs: min, maxPauseMs: max } = this.#o.validate;
    for (let at = 0; at < tokens.length; at += size) {
      if (at > 0) await delay(min + Math.random() * Math.max(0, max - min), undefined, { signal: this.#stop.signal });
      if (controller.channel.isClosed) return;
      const sessionTokens = tokens.slice(at, at + size);
      const body = encodeControl(edgeCtrlPb.ValidateSessionsRequestSchema, { sessionTokens });
      controller.channel.send({ contentType: EdgeCtrlType.ValidateSessionsRequest, body });
    }
  }
}
