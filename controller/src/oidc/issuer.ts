/** The name of the provider, which follows the host that a client asks: one controller has several. */

/** Host names, with or without `*` for one label, under which clients reach the provider. */
export interface HostNames {
  readonly exact: readonly string[];
  /** Names that the operator added. */
  readonly more: readonly string[];
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::([0-9]+))?$/;
const MAX_PORT = 65_535;

/** A port of an address, as digits. */
export function isPort(text: string): boolean {
  return /^[1-9][0-9]{0,4}$/.test(text) && Number(text) <= MAX_PORT;
}

/**
 * The issuer for a `Host` header; undefined for an unknown host. Every port is taken: behind a forwarded port the client sees another one, and a
 * client that lies about it harms itself only.
 */
export function issuerOf(host: string, names: HostNames): string | undefined {
  const [, name = "", port] = HOST.exec(host.toLowerCase()) ?? [];
  if (name === "" || !isPort(port ?? "443") || !isKnown(bare(name), names)) return undefined;
  return `https://${name}${port === undefined || port === "443" ? "" : `:${port}`}/oidc`;
}

function isKnown(name: string, { exact, more }: HostNames): boolean {
  const is = (known: string) => bare(known.toLowerCase()) === name;
  if (exact.some(is)) return true;
  const dot = name.indexOf(".");
  return more.some((known) => is(known) || (dot > 0 && known.toLowerCase() === `*${name.slice(dot)}`));
}

/** An IPv6 address without its brackets. */
function bare(name: string): string {
  return name.startsWith("[") ? name.slice(1, -1) : name;
}
