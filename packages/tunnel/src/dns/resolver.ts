import { accessSync, appendFileSync, constants, readFileSync } from "node:fs";
import { isIP } from "node:net";
import { fileURLToPath } from "node:url";
import type { Logger } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { NameServer } from "./name-server.ts";
import { type AddressPool, isWildcard, Names, type NamesOptions, normalName, type WildcardListener } from "./names.ts";
import { Upstream } from "./upstream.ts";

const MARK = "# NetFoundry";

/** How the applications of this host find the addresses of intercepted names. */
export interface Resolver {
  readonly kind: "server" | "hosts file" | "none";
  /** Address of the name server that is asked for what is not ours, if there is one. */
  readonly upstream?: string | undefined;
  /** Port of the name server. */
  readonly port?: number | undefined;
  /** The name's address, its until `owner` (a service) and every other service that has it are removed. @throws InterceptError */
  add(name: string, owner: string): string;
  /** @throws InterceptError when wildcards are not possible */
  addWildcard(pattern: string, owner: string, onAddress: WildcardListener, onTaken?: (address: string) => void): void;
  /** Takes all its names from a service. */
  removeOwner(owner: string): void;
  /** The name that stands for an address; undefined for addresses that were not given to a name. */
  nameOf(address: string): string | undefined;
  close(): Promise<void>;
}

export interface ResolverOptions extends NamesOptions {
  readonly pool: AddressPool;
  readonly log: Logger;
}

/** What the text of the `resolver` key means. */
export type ResolverSetting =
  | {
      readonly kind: "server";
      readonly host: string;
      readonly port: number;
      readonly upstream?: { host: string; port: number };
    }
  | { readonly kind: "hosts file"; readonly path: string };

/** `udp://host:port[?upstream=address[:port]]`, `file:///path` or a path. @throws InterceptError */
export function parseResolver(text: string): ResolverSetting {
  const bad = (why: string): InterceptError =>
    new InterceptError(
      "BAD_RESOLVER",
      `resolver "${text}": ${why}; expected udp://<address>:<port>, with ?upstream=<address>[:<port>] if wanted, or the path of a hosts file`,
    );
  if (text.startsWith("/")) return { kind: "hosts file", path: text };
  const url = URL.parse(text);
  if (url === null) throw bad("it is no URL");
  if (url.protocol === "file:") return { kind: "hosts file", path: fileURLToPath(url) };
  if (url.protocol !== "udp:") throw bad(`the scheme ${url.protocol.slice(0, -1)} is not known`);
  const host = withoutBrackets(url.hostname);
  if (isIP(host) === 0) throw bad(`"${host}" is no IP address`);
  const upstream = url.searchParams.get("upstream");
  const setting = { kind: "server", host, port: url.port === "" ? 53 : Number(url.port) } as const;
  if (upstream === null) return setting;
  const parsed = URL.parse(`udp://${isIP(upstream) === 6 ? `[${upstream}]` : upstream}`);
  const upstreamHost = withoutBrackets(parsed?.hostname ?? "");
  if (parsed === null || isIP(upstreamHost) === 0) throw bad(`the upstream "${upstream}" is no IP address`);
  const port = parsed.port === "" ? 53 : Number(parsed.port);
  if (upstreamHost === setting.host && port === setting.port) throw bad("the upstream is the name server itself");
  return { ...setting, upstream: { host: upstreamHost, port } };
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

/**
 * The resolver of a setting. When it cannot be had, the reason is logged and names are not resolved; the tunneler goes on
 * with what is intercepted by address.
 */
export async function openResolver(text: string, options: ResolverOptions): Promise<Resolver> {
  try {
    const setting = parseResolver(text);
    return setting.kind === "server"
      ? await serve(setting, options)
      : new HostsFileResolver(new Names(options.pool, options), setting.path);
  } catch (error) {
    if (!(error instanceof InterceptError)) throw error;
    options.log.error({ code: error.code }, `names of services will not be resolved: ${error.message}`);
    return new NoResolver(new Names(options.pool, options));
  }
}

async function serve(setting: ResolverSetting & { kind: "server" }, options: ResolverOptions): Promise<Resolver> {
  const { log, pool } = options;
  const names = new Names(pool, options);
  const upstream = setting.upstream === undefined ? undefined : new Upstream({ ...setting.upstream, log });
  const server = await NameServer.listen({ host: setting.host, port: setting.port, names, upstream, log });
  log.info({ address: setting.host, port: server.port, upstream: setting.upstream?.host }, "name server listens");
  return new ServerResolver(names, server, setting.upstream?.host, log);
}

/** Names get addresses, but no client can ask for them. */
class NoResolver implements Resolver {
  readonly kind: Resolver["kind"] = "none";
  protected readonly names: Names;

  constructor(names: Names) {
    this.names = names;
  }

  add(name: string, owner: string): string {
    return this.names.add(name, owner);
  }

  addWildcard(pattern: string, ..._rest: unknown[]): void {
    if (!isWildcard(pattern)) return;
    const message = `${pattern} needs our name server: set resolver to udp://<address>:<port>`;
    throw new InterceptError("NO_WILDCARDS", message);
  }

  removeOwner(owner: string): void {
    this.names.removeOwner(owner);
  }

  nameOf(_address: string): string | undefined {
    return undefined;
  }

  async close(): Promise<void> {}
}

class ServerResolver extends NoResolver {
  override readonly kind = "server";
  readonly upstream: string | undefined;
  readonly #server: NameServer;
  readonly #log: Logger;

  constructor(names: Names, server: NameServer, upstream: string | undefined, log: Logger) {
    super(names);
    this.#server = server;
    this.upstream = upstream;
    this.#log = log;
  }

  get port(): number {
    return this.#server.port;
  }

  override addWildcard(
    pattern: string,
    owner: string,
    onAddress: WildcardListener,
    onTaken?: (address: string) => void,
  ): void {
    if (!this.names.addWildcard(pattern, owner, onAddress, onTaken)) return;
    const text = "the wildcard belongs to another service, too; the newest service gets its names";
    this.#log.warn({ pattern, serviceId: owner }, text);
  }

  override nameOf(address: string): string | undefined {
    return this.names.nameOf(address);
  }

  override async close(): Promise<void> {
    await this.#server.close();
  }
}

/** Names as lines of a file in the form of /etc/hosts; lines are added, and never removed. */
class HostsFileResolver extends NoResolver {
  override readonly kind = "hosts file";
  readonly #path: string;

  /** @throws InterceptError when the file cannot be written */
  constructor(names: Names, path: string) {
    super(names);
    try {
      accessSync(path, constants.R_OK | constants.W_OK);
    } catch (error) {
      const message = `the hosts file ${path} cannot be read and written: ${(error as Error).message}`;
      throw new InterceptError("BAD_RESOLVER", message, { cause: error });
    }
    this.#path = path;
  }

  /** The line is added unless it is there: after a restart names get the same addresses in the same order. */
  override add(name: string, owner: string): string {
    const address = super.add(name, owner);
    const line = `${address}\t${normalName(name)}\t${MARK}`;
    const text = readFileSync(this.#path, "utf8");
    if (!text.split("\n").includes(line)) {
      appendFileSync(this.#path, `${text === "" || text.endsWith("\n") ? "" : "\n"}${line}\n`);
    }
    return address;
  }
}
