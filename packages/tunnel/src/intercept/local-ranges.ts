import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { formatRange, type IpFamily, type IpRange, overlaps, parseRange } from "../ip-range.ts";
import { runOnHost } from "./host-command.ts";
import { flushRoutes, HostSlot, routesOfSlots } from "./host-slot.ts";

/** How often routes that have vanished (the kernel removes those whose source address leaves the host) are made again. */
const REPAIR_INTERVAL_MS = 30_000;

/** Ends one use of ranges that were made local. */
export type Release = () => Promise<void>;

/**
 * Ranges of addresses that this host takes for its own, without having each address ("AnyIP"): it accepts what is sent to them and may send
 * from them. Each range counts its uses, so two services may share one. All routes end with `close`, or when the next tunneler starts after a crash.
 */
export class LocalRanges {
  readonly slot: HostSlot;
  readonly #log: Logger;
  readonly #uses = new Map<string, { readonly range: IpRange; count: number }>();
  readonly #repair: NodeJS.Timeout;
  readonly #changes = new SerialQueue();
  #closed: Promise<void> | undefined;

  private constructor(slot: HostSlot, log: Logger) {
    this.slot = slot;
    this.#log = log;
    this.#repair = setInterval(() => void this.#repairRoutes(), REPAIR_INTERVAL_MS);
    this.#repair.unref();
  }

  /** @throws InterceptError when this process may not change routes */
  static async open(log: Logger): Promise<LocalRanges> {
    if (process.platform !== "linux") {
      throw new InterceptError("NOT_LINUX", `local routes are a thing of Linux, and this is ${process.platform}`);
    }
    return new LocalRanges(await HostSlot.claim(log), log);
  }

  /** Makes the ranges local until each caller has released them. @throws InterceptError */
  async acquire(ranges: readonly IpRange[]): Promise<Release> {
    const unique = new Map(ranges.map((range) => [formatRange(range), range]));
    await this.#changes.run(async () => {
      if (this.#closed !== undefined) throw new InterceptError("CLOSED", "interception has been closed");
      const fresh = [...unique].filter(([text]) => !this.#uses.has(text)).map(([, range]) => range);
      await this.#change("replace", fresh);
      for (const [text, range] of unique) {
        const use = this.#uses.get(text) ?? { range, count: 0 };
        use.count++;
        this.#uses.set(text, use);
      }
    });
    let isReleased = false;
    return async () => {
      if (isReleased) return;
      isReleased = true;
      await this.#changes.run(async () => await this.#release([...unique.keys()]));
    };
  }

  /** A range of another living tunneler of this host that has addresses in common with `range`. */
  async takenByAnother(range: IpRange): Promise<string | undefined> {
    for (const route of await routesOfSlots()) {
      const other = parseRange(route.destination);
      if (other === undefined || !overlaps(other, range)) continue;
      if (await this.slot.isTakenByAnother(route.slot)) return route.destination;
    }
    return undefined;
  }

  async close(): Promise<void> {
    this.#closed ??= this.#close();
    await this.#closed;
  }

  async #close(): Promise<void> {
    clearInterval(this.#repair);
    await this.#changes.run(async () => {
      this.#uses.clear();
      await flushRoutes(this.slot.number);
    });
    await this.slot.release();
  }

  async #release(texts: readonly string[]): Promise<void> {
    const unused: IpRange[] = [];
    for (const text of texts) {
      const use = this.#uses.get(text);
      if (use === undefined || --use.count > 0) continue;
      this.#uses.delete(text);
      unused.push(use.range);
    }
    await this.#change("del", unused);
  }

  async #change(verb: "replace" | "del", ranges: readonly IpRange[]): Promise<void> {
    for (const family of [4, 6] as const) {
      const ours = ranges.filter((range) => range.family === family);
      if (ours.length === 0) continue;
      const source = family === 4 && verb === "replace" ? await mainAddress() : undefined;
      const options = `dev lo table local ${this.slot.routeMarks}${source === undefined ? "" : ` src ${source}`}`;
      const lines = ours.map((range) => `route ${verb} local ${formatRange(range)} ${options}\n`);
      // A route that is to go may have gone already, with its source address.
      await runOnHost("ip", [...(verb === "del" ? ["-force"] : []), `-${family}`, "-batch", "-"], lines.join("")).catch(
        (error: unknown) => {
          if (verb !== "del") throw error;
          this.#log.debug({ err: error }, "routes were gone already");
        },
      );
    }
  }

  async #repairRoutes(): Promise<void> {
    await this.#changes
      .run(async () => {
        if (this.#closed !== undefined || this.#uses.size === 0) return;
        const present = new Set<string>();
        for (const route of await routesOfSlots()) {
          const range = parseRange(route.destination);
          if (route.slot === this.slot.number && range !== undefined) present.add(formatRange(range));
        }
        const missing = [...this.#uses].filter(([text]) => !present.has(text));
        if (missing.length === 0) return;
        this.#log.warn({ ranges: missing.map(([text]) => text) }, "local routes had vanished and are made again");
        await this.#change(
          "replace",
          missing.map(([, use]) => use.range),
        );
      })
      .catch((err: unknown) => this.#log.warn({ err }, "local routes could not be made again"));
  }
}

/** Addresses of this host's interfaces, loopback's not. */
export function ownAddresses(family: IpFamily): { readonly device: string; readonly address: string }[] {
  return Object.entries(networkInterfaces()).flatMap(([device, addresses = []]) =>
    addresses
      .filter((each) => !each.internal && each.family === `IPv${family}` && !each.address.startsWith("fe80:"))
      .map((each) => ({ device, address: each.address })),
  );
}

/** The address that programs of this host are seen with: that of the interface of the default route, else the first one. */
async function mainAddress(): Promise<string | undefined> {
  const own = ownAddresses(4);
  const text = await runOnHost("ip", ["-4", "-j", "route", "show", "default"]);
  const [route] = JSON.parse(text.trim() === "" ? "[]" : text) as { dev?: string; prefsrc?: string }[];
  return route?.prefsrc ?? (own.find((each) => each.device === route?.dev) ?? own[0])?.address;
}

/** Makes the source addresses of connections to hosted targets local. Needs no privilege before the first one. */
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
