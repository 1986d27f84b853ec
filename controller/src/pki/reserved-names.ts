import { isIP } from "node:net";
import type { x509 } from "@sallyport/wire";

/**
 * Hosts of the controller's server certificate, in canonical form, that no other certificate may have. Names of the local machine, and hosts shared with
 * routers, are left out.
 */
export function reservedHosts(own: readonly x509.GeneralName[], shared: readonly string[]): ReadonlySet<string> {
  const free = new Set(shared.map(canonicalHost));
  const hosts = own.filter(({ type }) => type === "dns" || type === "ip").map(({ value }) => canonicalHost(value));
  return new Set(hosts.filter((host) => !isLoopback(host) && !free.has(host)));
}

/** The reserved host that a requested alternative name stands for or covers, however it is written; `undefined` when there is none. */
export function reservedHostOf(name: x509.GeneralName, reserved: ReadonlySet<string>): string | undefined {
  for (const host of hostsIn(name).map(canonicalHost)) {
    if (reserved.has(host)) return host;
    const covered = host.includes("*") ? [...reserved].find((each) => isCoveredBy(each, host)) : undefined;
    if (covered !== undefined) return covered;
  }
  return undefined;
}

/** Scheme, then perhaps `//` and a user, then the host: also of addresses such as `tls:host:6262`. */
const HOST_OF_URI = /^[a-z][a-z0-9+.-]*:(?:\/\/)?(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/i;

function hostsIn({ type, value }: x509.GeneralName): string[] {
  switch (type) {
    case "email":
      return [value.slice(value.lastIndexOf("@") + 1)];
    case "url":
      return [HOST_OF_URI.exec(value)?.[1] ?? "", URL.canParse(value) ? new URL(value).hostname : ""];
    default:
      return [value];
  }
}

/** One form for all in which a host can be written: letters, dots at the end, internationalized names, and every notation of an address. */
function canonicalHost(text: string): string {
  const bare = text.trim().replace(/^\[(.*)\]$/, "$1");
  const url = `http://${isIP(bare) === 6 ? `[${bare}]` : bare.replace(/\.+$/, "")}/`;
  const host = URL.canParse(url) ? new URL(url).hostname : bare;
  return plainAddress(
    host
      .replace(/^\[(.*)\]$/, "$1")
      .replace(/\.+$/, "")
      .toLowerCase(),
  );
}

/** An IPv4 address that is written as one of IPv6 is the same host. */
function plainAddress(host: string): string {
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host) ?? [];
  if (high === undefined || low === undefined) return host;
  return [high, low].flatMap((part) => [Number.parseInt(part, 16) >> 8, Number.parseInt(part, 16) & 0xff]).join(".");
}

function isLoopback(host: string): boolean {
  if (isIP(host) === 0) return host === "localhost" || host.endsWith(".localhost");
  return host === "::1" || host.startsWith("127.");
}

/** A `*` stands for any part of one label. */
function isCoveredBy(host: string, pattern: string): boolean {
  const labels = host.split(".");
  const patterns = pattern.split(".");
  return (
    isIP(host) === 0 && labels.length === patterns.length && labels.every((label, i) => isLike(label, patterns[i]))
  );
}

function isLike(label: string, pattern = ""): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return label === first;
  if (!label.startsWith(first) || !label.endsWith(last) || label.length < first.length + last.length) return false;
  const end = label.length - last.length;
  let at = first.length;
  for (const part of rest) {
    const found = label.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
