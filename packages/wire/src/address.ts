import { isIPv6 } from "node:net";
import { WireError } from "./errors.ts";

export interface HostPort {
  /** Name, IPv4 or IPv6 without brackets; empty means all interfaces when listening. */
  readonly host: string;
  /** 0 to 65535; 0 asks the system for a free port when listening. */
  readonly port: number;
}

/** Where something listens or is dialled: `<protocol>:<host>:<port>`, see docs/protocol/identity.md "Addresses". */
export interface Address extends HostPort {
  /** Lower-case carrier name: `tls`, `tcp`, `udp`, … */
  readonly protocol: string;
}

/** The text is not an address. `code` is always `ADDRESS_INVALID`. */
export class AddressError extends WireError {
  constructor(message: string) {
    super("ADDRESS_INVALID", message);
  }
}

const form = /^([a-z][a-z0-9_]*):(\[([0-9a-fA-F:.]+(?:%[^\]\s]+)?)\]|[^:[\]/\s]*):([0-9]{1,5})$/;

/**
 * Reads `<protocol>:<host>:<port>`, e.g. `tls:localhost:1280` or `tls:[::1]:443`.
 * There is no default protocol or port, and IPv6 needs its brackets.
 *
 * @throws AddressError when the text has another form; the message says which part is wrong.
 */
export function parseAddress(text: string): Address {
  const match = form.exec(text);
  if (match === null) throw new AddressError(`${JSON.stringify(text)} is not an address: ${complaint(text)}`);
  const [, protocol = "", plainHost = "", v6Host, portText = ""] = match;
  const port = Number(portText);
  if (port > 65535) throw new AddressError(`${JSON.stringify(text)} is not an address: port ${port} is above 65535`);
  return { protocol, host: v6Host ?? plainHost, port };
}

/** The inverse of {@link parseAddress}; puts the brackets around IPv6 back. */
export function formatAddress(address: Address): string {
  return `${address.protocol}:${formatHostPort(address)}`;
}

/** `host:port`, with brackets around IPv6. */
export function formatHostPort({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * Reads the URL form in which the HTTP API publishes routers, `tls://host:port`; the plain form is accepted as well.
 *
 * @throws AddressError when neither form fits (a path or a missing port, for example).
 */
export function addressFromUrl(url: string): Address {
  return parseAddress(url.replace("://", ":").replace(/\/$/, ""));
}

function complaint(text: string): string {
  const expected = "expected <protocol>:<host>:<port>, such as tls:router.example:3022";
  if (text.includes("://")) return `this is a URL; ${expected}`;
  if (/^[a-z0-9_]*[A-Z]/.test(text.split(":", 1)[0] ?? "")) return `the protocol is written in lower case; ${expected}`;
  if (text.split(":").length > 3 && !text.includes("[")) return `an IPv6 host needs brackets; ${expected}`;
  return expected;
}

const MAPPED = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;
const GROUPS = 8;
/** Groups of a /64. */
const NETWORK_GROUPS = 4;

/** An IP as people write it: an IPv4 client of a socket that listens on IPv6 and IPv4 is shown by its IPv4 address. */
export function plainAddress(ip: string): string {
  return ip.replace(MAPPED, "");
}

/**
 * The unit by which addresses are counted: an IPv6 /64 such as `2001:db8:1:2::/64`, or an IPv4 address, also when mapped into IPv6. Other text counts as
 * it is.
 */
export function countedAddress(ip: string): string {
  const plain = plainAddress(ip);
  if (!isIPv6(plain)) return plain;
  const [address = ""] = plain.split("%", 1);
  const [head = "", tail] = address.split("::", 2);
  const groups = head === "" ? [] : head.split(":");
  const behind = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = tail === undefined ? 0 : Math.max(0, GROUPS - groups.length - behind.length);
  const zeros = Array.from({ length: missing }, () => "0");
  return `${[...groups, ...zeros, ...behind]
    .slice(0, NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}
