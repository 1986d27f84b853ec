import { ApiError, ApiTransportError } from "@sallyport/api/client";
import type { Logger } from "@sallyport/wire";

/** What a controller says of one of the network, as far as it is used here. */
interface ListedController {
  readonly apiAddresses?: Readonly<Record<string, readonly { readonly url?: string | undefined }[]>> | undefined;
}

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
    const named = listed.flatMap(({ apiAddresses }) => apiAddresses?.["edge-client"] ?? []);
    const origins = named.flatMap(({ url }) => originOf(url) ?? []);
    if (origins.length === 0) return;
    this.#learned = shuffled([...new Set(origins)]);
    if (!this.all.includes(this.#current)) this.#current = this.#learned[0] ?? this.#current;
  }

  /**
   * Does what asks a controller; when that one cannot be reached or has no database at the moment, asks each of the others
   * once. Rejects as the last of them did.
   *
   * @param onSwitch called when another one is asked from now on
   */
  async reach<T>(work: () => Promise<T>, onSwitch: () => void): Promise<T> {
    const left = new Set(this.all);
    for (;;) {
      const asked = this.#current;
      left.delete(asked);
      try {
        return await work();
      } catch (error) {
        if (!isUnreachable(error)) throw error;
        // A concurrent call may have been first.
        if (this.#current !== asked && left.has(this.#current)) continue;
        const [next] = left;
        if (next === undefined) throw error;
        this.#log.warn(
          { controller: asked, next, reason: error.message },
          "the controller cannot be reached; another one is asked",
        );
        this.#current = next;
        onSwitch();
      }
    }
  }
}

/** Nothing answers, or what answers cannot serve at the moment. */
export function isUnreachable(error: unknown): error is ApiTransportError | ApiError {
  return error instanceof ApiTransportError || (error instanceof ApiError && error.status === 503);
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
