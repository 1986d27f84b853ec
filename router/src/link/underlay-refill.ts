import { errorText, pause } from "@sallyport/async";
import { dialUnderlay, LinkUnderlay, type Logger } from "@sallyport/wire";
import type { Link } from "./link.ts";

/** How many connections a grouped link is to have. */
export interface RefillTarget {
  readonly maxDefaultConnections: number;
  readonly maxAckConnections: number;
  /** Wait before the first further connection of a link. */
  readonly startupDelay: number;
  /** 0: 15 s. */
  readonly connectTimeoutMs: number;
}

/** A grouped link as far as its connections are concerned. */
export type RefillableLink = Pick<Link, "id" | "isClosed" | "channel" | "count">;

const STEP_MS = 2000;
const MAX_PAUSE_MS = 60_000;
const DIAL_MS = 15_000;

/** The pause after so many failures in a row, in milliseconds. */
export function refillPause(failures: number): number {
  return Math.min(STEP_MS * failures, MAX_PAUSE_MS);
}

/** Which connection a link lacks: those of the default type first. */
function missingType(link: RefillableLink, target: RefillTarget): string | undefined {
  if (link.count(LinkUnderlay.Default) < target.maxDefaultConnections) return LinkUnderlay.Default;
  return link.count(LinkUnderlay.Ack) < target.maxAckConnections ? LinkUnderlay.Ack : undefined;
}

/** Dials the further connections of grouped links, and those that were lost, one after the other (docs/protocol/links.md, "Forms"). */
export class UnderlayRefill {
  readonly #signal: AbortSignal;
  readonly #log: Logger;
  readonly #running = new Set<RefillableLink>();
  /** Links whose startup delay is over: a connection they lose is dialled again without it. */
  readonly #started = new WeakSet<RefillableLink>();
  readonly #dial: typeof dialUnderlay;
  readonly #pause: typeof pause;

  constructor(o: {
    signal: AbortSignal;
    log: Logger;
    dial?: typeof dialUnderlay;
    pause?: typeof pause;
  }) {
    this.#signal = o.signal;
    this.#log = o.log;
    this.#dial = o.dial ?? dialUnderlay;
    this.#pause = o.pause ?? pause;
  }

  /** Starts to dial what the link lacks, unless that is under way. */
  look(link: RefillableLink, target: RefillTarget): void {
    if (this.#running.has(link) || this.#isOver(link) || missingType(link, target) === undefined) return;
    this.#running.add(link);
    void this.#fill(link, target).finally(() => this.#running.delete(link));
  }

  async #fill(link: RefillableLink, target: RefillTarget): Promise<void> {
    if (!this.#started.has(link)) await this.#pause(target.startupDelay, this.#signal, { ref: false });
    this.#started.add(link);
    let failures = 0;
    for (;;) {
      const type = this.#isOver(link) ? undefined : missingType(link, target);
      if (type === undefined) return;
      try {
        const timeoutMs = target.connectTimeoutMs || DIAL_MS;
        await this.#dial(link.channel, { type, timeoutMs, signal: this.#signal });
        failures = 0;
      } catch (error) {
        failures++;
        if (this.#isOver(link)) return;
        const reason = errorText(error);
        this.#log.info({ linkId: link.id, underlay: type, failures, reason }, "a further connection of a link failed");
        await this.#pause(refillPause(failures), this.#signal, { ref: false });
      }
    }
  }

  #isOver(link: RefillableLink): boolean {
    return link.isClosed || this.#signal.aborted;
  }
}
