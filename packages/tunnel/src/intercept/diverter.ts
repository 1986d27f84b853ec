import type { Logger } from "@sallyport/wire";
import type { Protocol } from "../interceptor.ts";
import { formatIp, type IpRange } from "../ip-range.ts";
import { runOnHost } from "./host-command.ts";
import type { Intercept } from "./intercept-set.ts";
import type { ListenerPorts } from "./rules.ts";

/** One call of a diverter, without its first option. */
interface DiverterEntry {
  /** Options that name the entry, at insertion and removal. */
  readonly key: readonly string[];
  /** Further ones of the insertion. */
  readonly more: readonly string[];
}

/** Asks a diverter for its version, to see that it can be started. @throws InterceptError when it cannot */
export async function probeDiverter(program: string): Promise<void> {
  await runOnHost(program, ["-V"]);
}

/**
 * A program of the user that diverts packets to the tunneler's listeners in the place of nft (`tproxy:<program>`). It is told each address,
 * source and range of ports: `-I -c <ip> -m <length> -o <source> -n <length> -p <protocol> -l <low> -h <high> -t <port> -s <service id>`,
 * and `-D` with the first seven to take it back. IPv4 only.
 */
export class Diverter {
  readonly #program: string;
  readonly #log: Logger;
  /** What the program was told and has not been told to take back. */
  readonly #entries = new Map<string, DiverterEntry>();

  constructor(program: string, log: Logger) {
    this.#program = program;
    this.#log = log;
  }

  /**
   * Tells the program what has changed, every entry even after failures. What is not taken back is logged and told again.
   * @throws InterceptError `COMMAND_FAILED` with the program's words when an entry could not be made
   */
  async apply(intercepts: readonly Intercept[], listeners: ListenerPorts): Promise<void> {
    const wanted = entriesOf(intercepts, listeners);
    for (const err of await this.#takeBack((text) => !wanted.has(text))) {
      this.#log.warn({ err }, "the diverter has not taken an entry back; it is told again with the next change");
    }
    const errors: unknown[] = [];
    for (const [text, entry] of wanted) {
      if (this.#entries.has(text)) continue;
      try {
        await runOnHost(this.#program, ["-I", ...entry.key, ...entry.more]);
        this.#entries.set(text, entry);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }

  /** Takes everything back. @throws InterceptError of the first entry that was not */
  async close(): Promise<void> {
    const [error] = await this.#takeBack(() => true);
    if (error !== undefined) throw error;
  }

  async #takeBack(isGone: (text: string) => boolean): Promise<unknown[]> {
    const errors: unknown[] = [];
    for (const [text, entry] of [...this.#entries].filter(([text]) => isGone(text))) {
      try {
        await runOnHost(this.#program, ["-D", ...entry.key]);
        this.#entries.delete(text);
      } catch (error) {
        errors.push(error);
      }
    }
    return errors;
  }
}

const ALL_CLIENTS: IpRange = { family: 4, base: 0n, length: 0 };

function entriesOf(intercepts: readonly Intercept[], listeners: ListenerPorts): Map<string, DiverterEntry> {
  const entries = new Map<string, DiverterEntry>();
  const add = (intercept: Intercept, protocol: Protocol, to: IpRange, from: IpRange): void => {
    for (const { low, high } of intercept.ports) {
      const key = [
        ...["-c", formatIp(4, to.base), "-m", String(to.length)],
        ...["-o", formatIp(4, from.base), "-n", String(from.length)],
        ...["-p", protocol, "-l", String(low), "-h", String(high)],
      ];
      const text = key.join(" ");
      const port = listeners[protocol][4];
      // Services that share a range share its entry: the connection's service is found when it has been accepted.
      if (port === undefined || entries.has(text)) continue;
      entries.set(text, { key, more: ["-t", String(port), "-s", intercept.id] });
    }
  };
  for (const intercept of intercepts) {
    const sources =
      intercept.sources.length === 0 ? [ALL_CLIENTS] : intercept.sources.filter((range) => range.family === 4);
    for (const to of intercept.ranges.filter((range) => range.family === 4)) {
      for (const from of sources) for (const protocol of intercept.protocols) add(intercept, protocol, to, from);
    }
  }
  return entries;
}
