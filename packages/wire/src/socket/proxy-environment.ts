import { BlockList, isIP } from "node:net";
import type { HttpProxy } from "./http-connect.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy for a URL, from the environment: `HTTPS_PROXY` for `https:`, `HTTP_PROXY` for `http:`, in upper or lower case, except what `NO_PROXY` lists.
 * This machine is never reached through a proxy.
 *
 * `NO_PROXY` is a list with commas. An entry is `*`, a name (with everything below it; `.example` means only what is below), an address, or a block such
 * as `10.0.0.0/8`. Names and addresses may end with a port.
 *
 * @throws TypeError for a proxy that is not `http://[user:password@]host[:port]`
 */
export function proxyOf(url: URL, env: Environment): HttpProxy | undefined {
  const name = url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const text = variable(env, name);
  if (text === "") return undefined;
  const host = plain(url.hostname);
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  if (isOwn(host)) return undefined;
  const exceptions = variable(env, "NO_PROXY").split(",");
  if (exceptions.some((each) => matches(each.trim().toLowerCase(), host, port))) return undefined;
  return parsed(name, text);
}

const variable = (env: Environment, name: string): string => (env[name] || env[name.toLowerCase()] || "").trim();

const plain = (hostname: string): string => hostname.replace(/^\[|\]$/g, "").toLowerCase();

const isOwn = (host: string): boolean =>
  host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));

function matches(exception: string, host: string, port: string): boolean {
  if (exception === "") return false;
  if (exception === "*") return true;
  const block = /^([0-9a-f.:]+)\/(\d{1,3})$/.exec(exception);
  if (block !== null) return isWithin(host, block[1] ?? "", Number(block[2]));
  // Of an IPv6 address the port stands behind its brackets.
  const [, bracketed, name, only] = /^(?:\[([0-9a-f:]+)\]|([^:]*|[0-9a-f:]+))(?::(\d+))?$/.exec(exception) ?? [];
  if (only !== undefined && only !== port) return false;
  const excepted = (bracketed ?? name ?? "").replace(/^\*(?=\.)/, "");
  if (excepted.startsWith(".")) return host.endsWith(excepted);
  return excepted !== "" && (host === excepted || (isIP(host) === 0 && host.endsWith(`.${excepted}`)));
}

function isWithin(host: string, network: string, prefix: number): boolean {
  const family = isIP(host);
  if (family === 0 || isIP(network) !== family || prefix > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  list.addSubnet(network, prefix, family === 4 ? "ipv4" : "ipv6");
  return list.check(host, family === 4 ? "ipv4" : "ipv6");
}

function parsed(name: string, text: string): HttpProxy {
  const whole = text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(whole) ? new URL(whole) : undefined;
  if (url === undefined || url.protocol !== "http:" || url.hostname === "") {
    throw new TypeError(`${name}: expected a proxy as http://host:port, with user:password@ where it wants that`);
  }
  const { username, password } = url;
  return {
    host: plain(url.hostname),
    port: url.port === "" ? 80 : Number(url.port),
    ...(username === "" ? {} : { username: decodeURIComponent(username), password: decodeURIComponent(password) }),
  };
}
