import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { errorText } from "@sallyport/async";
import { BaseHeader, ControlType, type Logger } from "@sallyport/wire";
import type { Controllers } from "../control/controllers/controllers.ts";

export interface QuiesceOptions {
  readonly controllers: Controllers;
  /** File that remembers, from a stop to the next start, that the controllers avoid this router. */
  readonly marker: string;
  readonly log: Logger;
}

/** A controller that has not answered by then is not waited for. */
const ANSWER_MS = 2_000;

/**
 * Has the controllers avoid this router while it stops: its terminators count as failed, so that circuits go to others
 * where there are any (docs/protocol/control.md, "Life cycle"). The next start takes it back, and only what a stop has set.
 */
export class Quiesce {
  readonly #o: QuiesceOptions;
  #isStopping = false;

  constructor(options: QuiesceOptions) {
    this.#o = options;
  }

  /** @returns whether a controller did it */
  async begin(): Promise<boolean> {
    const { marker, log } = this.#o;
    this.#isStopping = true;
    try {
      await writeFile(marker, "", { mode: 0o600 });
    } catch (error) {
      // The next start would not know that it has something to take back.
      log.warn({ marker, err: error }, "the controllers are not told to avoid this router: that cannot be remembered");
      return false;
    }
    const done = await this.#ask("avoiding this router", ControlType.QuiesceRouter);
    if (!done) await rm(marker, { force: true });
    return done;
  }

  /** Takes back what the last stop has set. To be called when a controller is connected. */
  async end(): Promise<void> {
    if (this.#isStopping || !existsSync(this.#o.marker)) return;
    if (await this.#ask("using this router again", ControlType.DequiesceRouter)) {
      await rm(this.#o.marker, { force: true });
      this.#o.log.info({}, "the controllers use this router again");
    }
  }

  async #ask(what: string, contentType: number): Promise<boolean> {
    const { controllers, log } = this.#o;
    try {
      const reply = await controllers.repeatableRequest(what, { contentType }, { timeoutMs: ANSWER_MS });
      if (reply.headers.getBool(BaseHeader.ResultSuccess) === true) return true;
      log.warn({ reason: reply.body.toString("utf8") }, `${what}: the controller refused`);
    } catch (error) {
      log.warn({ reason: errorText(error) }, `${what}: no controller did it`);
    }
    return false;
  }
}
