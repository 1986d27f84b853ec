import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { unlessHanging } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";

/** What a controller says of one of the network, as far as it is used here. */
interface ListedController {
  readonly apiAddresses?: Readonly<Record<string, readonly { readonly url?: string | undefined }[]>> | undefined;
}

/** How long a call may take before its controller is asked whether it answers at all. */
const PATIENCE_MS = 1_000;

/** How a controller that can be called is asked. */
export interface ReachOptions {
  /** Whether the controller at an address answers something that needs no session and no database. */
  readonly answers: (controller: string) => Promise<boolean>;
  /** Another one is asked from now on. `isHanging`: what the former one was asked gets no answer, and it must not do that later. */
  readonly onSwitch: (isHanging: boolean) => void;
}

/** A controller answers nothing, on connections that are open or on new ones. */
class ControllerHangsError extends ApiTransportError {}

/**
 * The controllers of a network by their addresses, `https://host:port`. One is asked until it cannot be reached, then
 * the next. All of them know the same sessions (docs/sdk.md, "Several controllers").
 *
 * @internal
 */
export class ControllerSet {
  readonly #log: Logger;
  #configured: readonly string[];
  /** As the network told last, in an order of its own for each program. */
  #learned: readonly string[] = [];
  #current: string;
  /** Those that failed last: they are tried after the others. */
  readonly #failed = new Set<string>();
  /** Controllers that are asked whether they answer, once for all calls that wait for them. */
  readonly #probes = new Map<string, Promise<boolean>>();

  /** @param configured at least one */
  constructor(configured: readonly string[], log: Logger) {
    this.#log = log;
    this.#configured = configured;
    this.#current = configured[0] ?? "";
  }

  /** The one that is asked. */
  get current(): string {
    return this.#current;
  }

  get all(): string[] {
    return [...new Set([...this.#learned, ...this.#configured])];
  }

  /** Takes the addresses that are configured now; whether they differ from those before, and the first of them is asked. */
  configure(configured: readonly string[]): boolean {
    if (configured.join() === this.#configured.join()) return false;
    this.#configured = configured;
    this.#current = configured[0] ?? this.#current;
    return true;
  }

  /** Takes the controllers that the network names. One that it names no more is not asked again. */
  learn(listed: readonly ListedController[]): void {
    const origins = originsOf(listed);
    if (origins.length === 0) return;
    this.#learned = shuffled(origins);
    for (const failed of this.#failed) if (!this.all.includes(failed)) this.#failed.delete(failed);
    if (!this.all.includes(this.#current)) this.#current = this.#learned[0] ?? this.#current;
  }

  /**
   * Does what asks a controller; when that one cannot be reached, hangs or has no database at the moment, asks each of the others
   * once. Rejects as the last of them did. The last one keeps the work for as long as its calls may take.
   *
   * @param work its signal aborts when it is withdrawn from a controller that hangs
   */
  async reach<T>(work: (signal: AbortSignal) => Promise<T>, o: ReachOptions): Promise<T> {
    const left = new Set(this.all);
    for (;;) {
      const asked = this.#current;
      left.delete(asked);
      try {
        const done = await unlessHanging({
          work,
          patienceMs: PATIENCE_MS,
          answers: () => this.#answers(asked, o),
          hasAlternative: () => left.size > 0,
          hangs: () => new ControllerHangsError(`${asked} answers nothing, but its connections stay open`),
        });
        this.#failed.delete(asked);
        return done;
      } catch (error) {
        if (!isUnreachable(error)) throw error;
        this.#failed.add(asked);
        // A concurrent call may have been first.
        if (this.#current !== asked && left.has(this.#current)) continue;
        const next = [...left].find((each) => !this.#failed.has(each)) ?? [...left][0];
        if (next === undefined) throw error;
        this.#log.warn(
          { controller: asked, next, reason: error.message },
          "the controller cannot be reached; another one is asked",
        );
        this.#current = next;
        o.onSwitch(error instanceof ControllerHangsError);
      }
    }
  }

  #answers(controller: string, { answers }: ReachOptions): Promise<boolean> {
    const underWay = this.#probes.get(controller);
    if (underWay !== undefined) return underWay;
    const probe = answers(controller).finally(() => this.#probes.delete(controller));
    this.#probes.set(controller, probe);
    return probe;
  }
}

/** Nothing answers, or what answers cannot serve at the moment. */
export function isUnreachable(error: unknown): error is ApiTransportError | ApiError {
  return error instanceof ApiTransportError || (error instanceof ApiError && error.status === 503);
}

/** Where the Client API of the listed controllers is, `https://host:port`. */
export function originsOf(listed: readonly ListedController[]): string[] {
  const named = listed.flatMap(({ apiAddresses }) => apiAddresses?.["edge-client"] ?? []);
  return [...new Set(named.flatMap(({ url }) => originOf(url) ?? []))];
}

function originOf(url: string | undefined): string | undefined {
  const parsed = url !== undefined && URL.canParse(url) ? new URL(url) : undefined;
  return parsed?.protocol === "https:" ? parsed.origin : undefined;
}

/** Programs that lose a controller together do not all ask the same next one. */
function shuffled(items: readonly string[]): string[] {
  return items
    .map((item) => [Math.random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}
