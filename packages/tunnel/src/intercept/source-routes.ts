import { readFileSync } from "node:fs";
import type { Logger } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { parseRange } from "./ip-range.ts";
import { LocalRanges, type Release } from "./local-ranges.ts";

/**
 * Makes the addresses local that connections to hosted targets are to come from. Nothing is done, and no privilege needed,
 * before the first one is asked for.
 */
export class SourceRoutes {
  readonly #log: Logger;
  readonly #held = new Map<string, Release>();
  #ranges: Promise<LocalRanges> | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param prefix an IP address or a CIDR range. @throws InterceptError */
  async add(prefix: string): Promise<void> {
    const range = parseRange(prefix);
    if (range === undefined) {
      throw new InterceptError("BAD_ADDRESS", `"${prefix}" is neither an IP address nor a CIDR range`);
    }
    if (this.#held.has(prefix)) return;
    this.#ranges ??= LocalRanges.open(this.#log);
    const ranges = await this.#ranges.catch((error: unknown) => {
      // The next one tries again: the privilege may be there by then.
      this.#ranges = undefined;
      throw error;
    });
    this.#held.set(prefix, await ranges.acquire([range]));
    if (range.family === 6 && !mayBindNonlocal()) {
      this.#log.warn(
        { prefix },
        "connections can come from IPv6 addresses that the host has only by a route only with the setting net.ipv6.ip_nonlocal_bind=1 of the kernel",
      );
    }
  }

  async remove(prefix: string): Promise<void> {
    const release = this.#held.get(prefix);
    this.#held.delete(prefix);
    await release?.();
  }

  /** Removes all of them. */
  async close(): Promise<void> {
    const ranges = this.#ranges;
    this.#ranges = undefined;
    this.#held.clear();
    await (await ranges)?.close();
  }
}

function mayBindNonlocal(): boolean {
  try {
    return readFileSync("/proc/sys/net/ipv6/ip_nonlocal_bind", "utf8").trim() === "1";
  } catch {
    return false;
  }
}
