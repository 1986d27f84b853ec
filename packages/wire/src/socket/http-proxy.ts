import { BlockList, connect, isIP, type Socket } from "node:net";
import { formatHostPort, type HostPort } from "../address.ts";
import { HandshakeError } from "../errors.ts";

/** An HTTP proxy that opens tunnels (RFC 9110, "CONNECT"). */
export interface HttpProxy extends HostPort {
  /** Both or none: for the scheme Basic. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

const MAX_ANSWER = 16 * 1024;
const END_OF_HEAD = "\r\n\r\n";

/**
 * A connection to `host:port` through the proxy. The target is named as it was given, so that the proxy resolves it.
 *
 * @throws HandshakeError `PROXY_REFUSED` when the proxy answers with anything but 2xx, `PROXY_FAILED` when it cannot be
 * reached or its answer is none; or the signal's reason
 */
export async function connectThroughProxy(
  proxy: HttpProxy,
  target: HostPort,
  o: { readonly signal: AbortSignal; readonly localAddress?: string | undefined },
): Promise<Socket> {
  const name = `${proxy.host}:${proxy.port}`;
  const authority = formatHostPort(target);
  o.signal.throwIfAborted();
  // A host that ends a line would be a request of its own, with the proxy's password or without.
  if (!/^[!-~]+$/.test(authority)) throw failed(name, `${JSON.stringify(target.host)} is no host to ask it for`);
  const socket = connect({ host: proxy.host, port: proxy.port, localAddress: o.localAddress });
  const abort = (): void => {
    socket.destroy(o.signal.reason instanceof Error ? o.signal.reason : new Error("aborted"));
  };
  o.signal.addEventListener("abort", abort, { once: true });
  try {
    const head = await new Promise<string>((resolve, reject) => {
      let read = "";
      socket.once("connect", () => socket.write(request(proxy, authority)));
      socket.on("data", (chunk: Buffer) => {
        read += chunk.toString("latin1");
        const end = read.indexOf(END_OF_HEAD);
        if (end >= 0 && end + END_OF_HEAD.length < read.length && / 2\d\d/.test(read.slice(0, 12))) {
          // The other end of a tunnel waits for us to begin.
          reject(failed(name, "it sent data behind its answer"));
        } else if (end >= 0) resolve(read.slice(0, end));
        else if (read.length > MAX_ANSWER) reject(failed(name, "its answer has no end"));
      });
      socket.once("error", (error) => reject(failed(name, error.message, error)));
      socket.once("close", () => reject(failed(name, "it closed the connection without an answer")));
    });
    const [line = ""] = head.split("\r\n");
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0);
    if (status < 200 || status > 299) {
      const why = status === 407 ? "; it wants proxy.username and proxy.password, or others" : "";
      throw new HandshakeError(
        "PROXY_REFUSED",
        `the proxy ${name} does not connect to ${authority}: ${line.slice(0, 120)}${why}`,
      );
    }
    for (const event of ["data", "error", "close"]) socket.removeAllListeners(event);
    socket.pause();
    return socket;
  } catch (error) {
    socket.on("error", () => {});
    socket.destroy();
    throw o.signal.aborted ? o.signal.reason : error;
  } finally {
    o.signal.removeEventListener("abort", abort);
  }
}

function request(proxy: HttpProxy, authority: string): string {
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
  if (proxy.username !== undefined) {
    const credentials = Buffer.from(`${proxy.username}:${proxy.password ?? ""}`).toString("base64");
    lines.push(`Proxy-Authorization: Basic ${credentials}`);
  }
  return `${lines.join("\r\n")}${END_OF_HEAD}`;
}

function failed(name: string, reason: string, cause?: Error): HandshakeError {
  return new HandshakeError("PROXY_FAILED", `the proxy ${name} cannot be used: ${reason}`, { cause });
}

type ProxyEnvironment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy for a URL, from the environment: `HTTPS_PROXY` for `https:`, `HTTP_PROXY` for `http:`, in upper or lower case, except what `NO_PROXY` lists.
 * This machine is never reached through a proxy.
 *
 * `NO_PROXY` is a list with commas. An entry is `*`, a name (with everything below it; `.example` means only what is below), an address, or a block such
 * as `10.0.0.0/8`. Names and addresses may end with a port.
 *
 * @throws TypeError for a proxy that is not `http://[user:password@]host[:port]`
 */
export function proxyOf(url: URL, env: ProxyEnvironment): HttpProxy | undefined {
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

const variable = (env: ProxyEnvironment, name: string): string => (env[name] || env[name.toLowerCase()] || "").trim();

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
