import { once } from "node:events";
import { errorText } from "@sallyport/async";
import type { Context, EdgeConnection } from "@sallyport/sdk";
import { Contexts } from "../../e2e/network/contexts.ts";
import { eventually } from "../../e2e/network/eventually.ts";
import { hostEcho } from "../../e2e/network/hosted-echo.ts";
import { ADMIN_PASSWORD, administrator, declareService } from "../../e2e/network/network.ts";
import type { ControllerSet } from "./controller-set.ts";
import { paced } from "./paced.ts";

const SERVICE = "echo";
const OPEN = 20;
const BEAT_MS = 100;
const DIAL_MS = 10_000;
const BYTE = Buffer.from("x");

/** What became of new circuits. Times of the steady clock. */
export interface Dialled {
  /** When each circuit had its first byte back, in order. */
  readonly at: number[];
  /** How many of those were dialled a second time. */
  retried: number;
  /** Why the others failed twice. */
  readonly failures: string[];
}

/** Circuits over the routers `r1` and `r2`: some that stay open and carry bytes, and new ones. */
export class Traffic {
  readonly #contexts: Contexts;
  readonly #client: Context;
  readonly #open: EdgeConnection[] = [];
  readonly #timers: NodeJS.Timeout[] = [];
  #isClosing = false;
  /** Open circuits that have ended. */
  ended = 0;
  /** The longest time without a byte back on an open circuit. */
  longestSilenceMs = 0;

  private constructor(contexts: Contexts, client: Context) {
    this.#contexts = contexts;
    this.#client = client;
  }

  static async start(set: ControllerSet, folder: string): Promise<Traffic> {
    const management = await administrator(set.at(0).apiPort, ADMIN_PASSWORD);
    const contexts = new Contexts();
    try {
      const { hostFile, clientFile } = await declareService({ management, folder }, { name: SERVICE });
      await hostEcho(await contexts.load(hostFile), SERVICE);
      const traffic = new Traffic(contexts, await contexts.load(clientFile));
      await eventually("a first circuit", () => traffic.#exchange().then(() => true), 60_000);
      for (let n = 0; n < OPEN; n++) await traffic.#keepOpen();
      return traffic;
    } catch (error) {
      await contexts.close();
      throw error;
    } finally {
      management.close();
    }
  }

  /** Opens circuits at a rate, each for one byte, with one retry. */
  async dial(perSecond: number, forMs: number, isOver: () => boolean): Promise<Dialled> {
    const dialled: Dialled = { at: [], retried: 0, failures: [] };
    await paced(
      perSecond,
      forMs,
      async () => {
        try {
          await this.#exchange().catch(async () => {
            await this.#exchange();
            dialled.retried += 1;
          });
          dialled.at.push(performance.now());
        } catch (error) {
          dialled.failures.push(errorText(error));
        }
      },
      isOver,
    );
    return dialled;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const circuit of this.#open) circuit.destroy();
    await this.#contexts.close();
  }

  async #exchange(): Promise<void> {
    const circuit = await this.#client.dial(SERVICE, { timeoutMs: DIAL_MS });
    try {
      circuit.write(BYTE);
      await once(circuit, "data", { signal: AbortSignal.timeout(DIAL_MS) });
    } finally {
      circuit.on("error", () => {});
      circuit.destroy();
    }
  }

  async #keepOpen(): Promise<void> {
    const circuit = await this.#client.dial(SERVICE, { timeoutMs: DIAL_MS });
    this.#open.push(circuit);
    let heardAt = performance.now();
    const heard = (): void => {
      const now = performance.now();
      this.longestSilenceMs = Math.max(this.longestSilenceMs, now - heardAt);
      heardAt = now;
    };
    circuit.on("data", heard);
    circuit.on("error", () => {});
    circuit.once("close", () => {
      if (!this.#isClosing) this.ended += 1;
    });
    this.#timers.push(
      setInterval(() => {
        if (!circuit.destroyed) circuit.write(BYTE);
      }, BEAT_MS),
    );
  }
}

/** The longest time between two of these, or from the last one to `until`. */
export function longestGap(times: readonly number[], until: number): number {
  if (times.length === 0) return Number.POSITIVE_INFINITY;
  return Math.max(...[...times.slice(1), until].map((time, index) => time - (times[index] ?? time)));
}
