/** Where one database server listens: a host name, an address, or the folder of a Unix socket. */
export interface ServerPlace {
  readonly host: string;
  readonly port: number;
}

/** The URL of a PostgreSQL database, taken apart. */
export interface DatabaseUrl {
  /** A URL of one server, with all settings of the given one: the given one itself unless it names several servers. */
  readonly connectionString: string;
  /** The servers, in their order, if there are several; they replace the one in the connection string. Otherwise empty. */
  readonly servers: readonly ServerPlace[];
}

/** Not a URL of a PostgreSQL database that a controller can use. The message says what is expected, and shows nothing of the URL: it may hold a password. */
export class DatabaseUrlError extends Error {
  override name = "DatabaseUrlError";
}

const EXPECTED = "a PostgreSQL URL, postgres://user:password@host/database";
const DEFAULT_PORT = 5432;
const FORM = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)([^?#]*)(\?[^#]*)?$/;
const SERVER = /^(\[[^\]]*\]|[^:[\]]*)(?::([^:]*))?$/;
/** What libpq knows besides; the controller writes. */
const TARGETS = ["read-write", "primary"];

/**
 * Takes a URL apart as libpq does: `postgres://user:password@h1:5432,h2:5433/database`, or the lists in the parameters `host` and `port`, where one port
 * counts for all hosts. All other parameters are left to the client library.
 * @throws DatabaseUrlError
 */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [, start = "", authority = "", path = "", query = ""] = (/\s/.test(text) ? null : FORM.exec(text)) ?? [];
  if (start === "") throw new DatabaseUrlError(EXPECTED);
  const parameters = new URLSearchParams(query);
  const target = parameters.get("target_session_attrs");
  if (target !== null && !TARGETS.includes(target)) {
    throw new DatabaseUrlError(
      `${EXPECTED}, whose target_session_attrs is ${TARGETS.join(" or ")}: the controller needs a server that takes writes`,
    );
  }
  const places = authority.split(",").map((place) => {
    const [, host, port] = SERVER.exec(place) ?? [];
    if (host === undefined) throw new DatabaseUrlError(`${EXPECTED}, with IPv6 addresses in brackets, [::1]:5432`);
    return { host: decoded(host), port };
  });
  const hosts = parameters.get("host")?.split(",") ?? places.map(({ host }) => host);
  const ports = parameters.get("port")?.split(",") ?? places.map(({ port }) => port ?? "");
  for (const [i, port] of ports.entries()) {
    if (port !== "" && !isPort(port)) {
      throw new DatabaseUrlError(`${EXPECTED}, with ports from 1 to 65535: port ${i + 1} is none`);
    }
  }
  if (hosts.length === 1 && ports.length === 1) return { connectionString: parsable(text), servers: [] };
  if (ports.length !== 1 && ports.length !== hosts.length) {
    throw new DatabaseUrlError(
      `${EXPECTED}, with one port for all hosts or one for each: it has ${hosts.length} hosts and ${ports.length} ports`,
    );
  }
  const servers = hosts.map((host, i): ServerPlace => {
    if (host === "") throw new DatabaseUrlError(`${EXPECTED}, with a name for each host: host ${i + 1} has none`);
    const port = ports.length === 1 ? ports[0] : ports[i];
    return { host, port: port ? Number(port) : DEFAULT_PORT };
  });
  for (const name of ["host", "port"]) parameters.delete(name);
  const rest = parameters.size > 0 ? `?${parameters}` : "";
  return { connectionString: parsable(`${start}localhost${path}${rest}`), servers };
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}

/** A host of the URL itself; the folder of a socket is percent-encoded there. */
function decoded(host: string): string {
  try {
    return decodeURIComponent(host.replace(/^\[(.*)\]$/, "$1"));
  } catch {
    throw new DatabaseUrlError(`${EXPECTED}, with valid percent-encoding`);
  }
}

function parsable(url: string): string {
  if (!URL.canParse(url)) throw new DatabaseUrlError(EXPECTED);
  return url;
}
