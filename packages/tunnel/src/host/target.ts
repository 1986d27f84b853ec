import type { AppData } from "../config/app-data.ts";
import type { HostConfig } from "../config/host-config.ts";
import type { Protocol } from "../interceptor.ts";
import { contains, parseUnscopedIp } from "../ip-range.ts";

/** Where a circuit is to be connected to. */
export interface Target {
  readonly protocol: Protocol;
  /** Name or IP address. */
  readonly host: string;
  readonly port: number;
  /** Where the connection is to come from; port 0: any. */
  readonly source?: { readonly ip: string; readonly port: number } | undefined;
}

const MAX_SHOWN = 100;

/** A dial asks for what the service's config does not allow. */
export class TargetError extends Error {
  override readonly name = "TargetError";
}

/**
 * Where a dial goes to by a terminator's config and the dialer's app data (docs/protocol/tunneler.md, "Where a circuit
 * goes").
 *
 * @throws TargetError
 */
export function targetOf(config: HostConfig, appData: AppData): Target {
  return {
    protocol: protocolOf(config, appData),
    host: hostOf(config, appData),
    port: portOf(config, appData),
    source: sourceOf(config, appData),
  };
}

/** A dialer's words as the log and the dialer get them: not more of them than helps, and nothing that moves a cursor. */
function shown(text: string): string {
  const start = text.slice(0, MAX_SHOWN).replaceAll(/[^ -~]/g, "?");
  return text.length > MAX_SHOWN ? `${start}...` : start;
}

function required(appData: AppData, key: keyof AppData): string {
  const value = appData[key];
  if (value === undefined || value === "") throw new TargetError(`${key} required but not provided`);
  return value;
}

function protocolOf({ protocol }: HostConfig, appData: AppData): Protocol {
  if ("fixed" in protocol) return protocol.fixed;
  const wanted = required(appData, "dst_protocol").toLowerCase();
  const found = protocol.allowed.find((each) => each === wanted);
  if (found === undefined) throw new TargetError(`protocol '${shown(wanted)}' is not in allowed protocols`);
  return found;
}

function hostOf({ address, translations }: HostConfig, appData: AppData): string {
  if ("fixed" in address) return address.fixed;
  // A name that is not allowed is not tried by its address: that one is the dialing tunneler's invention.
  const name = appData.dst_hostname?.toLowerCase();
  if (name !== undefined && name !== "") {
    if (address.allowed.hasName(name)) return name;
    throw new TargetError(`address '${shown(name)}' is not in allowed addresses`);
  }
  const ip = required(appData, "dst_ip");
  if (!address.allowed.hasIp(ip)) throw new TargetError(`address '${shown(ip)}' is not in allowed addresses`);
  return translations.apply(ip);
}

function portOf({ port }: HostConfig, appData: AppData): number {
  if ("fixed" in port) return port.fixed;
  const text = required(appData, "dst_port");
  const wanted = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  const isAllowed =
    wanted >= 1 && wanted <= 65_535 && port.allowed.some(({ low, high }) => low <= wanted && wanted <= high);
  if (!isAllowed) throw new TargetError(`port ${shown(text)} is not in allowed port ranges`);
  return wanted;
}

function sourceOf(config: HostConfig, appData: AppData): Target["source"] {
  const text = appData.source_addr;
  if (text === undefined || text === "") return undefined;
  const source = splitSource(text);
  const ip = parseUnscopedIp(source.ip);
  if (ip === undefined) throw new TargetError(`source address '${shown(text)}' is not an IP address`);
  // A dialer must not choose among this machine's own addresses.
  if (!config.sourcePrefixes.some((prefix) => contains(prefix, ip))) {
    throw new TargetError(`source address '${shown(source.ip)}' is not in allowed source addresses`);
  }
  return source;
}

/** `ip`, `ip:port`, `[ip]:port`; more than one colon without brackets is an IPv6 address. */
function splitSource(text: string): { ip: string; port: number } {
  const [, bracketed, plain, port = "0"] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const ip = bracketed ?? plain;
  if (ip === undefined) return { ip: text, port: 0 };
  const number = Number(port);
  if (number > 65_535) throw new TargetError(`source address '${shown(text)}' has no valid port`);
  return { ip, port: number };
}
