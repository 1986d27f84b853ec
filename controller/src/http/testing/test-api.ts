/** A server of the APIs for tests, with handlers of the test's own, and a TLS socket to speak to it byte by byte. */
import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { apiError, type clientOperations, type managementOperations, type operations } from "@sallyport/api";
import { type Logger, TlsPort } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import type { ApiHandlers, ApiSessionContext, Authenticate } from "../context.ts";
import type { Endpoint } from "../endpoints.ts";
import type { HttpLimits } from "../limits.ts";
import type { Within } from "../reply.ts";
import { type HttpApi, startHttp } from "../server.ts";
import type { Upgrade } from "../upgrade.ts";

export interface TestHandlers {
  readonly client?: Partial<ApiHandlers<typeof clientOperations>>;
  readonly management?: Partial<ApiHandlers<typeof managementOperations>>;
  readonly fabric?: Partial<ApiHandlers<(typeof operations)["fabric"]>>;
}

export interface TestApi {
  readonly authority: TestAuthority;
  readonly port: number;
  readonly api: HttpApi;
  /** Everything logged, one object per line. */
  readonly logged: { level: string; msg: string; fields: Record<string, unknown> }[];
  /** Sends bytes on a connection of their own and gives all that came back until the server closed it. */
  exchange(bytes: string | Uint8Array, options?: ConnectionOptions): Promise<string>;
  open(options?: ConnectionOptions): Promise<TLSSocket>;
  close(): Promise<void>;
}

/** A session for tests; the token is the key it is found under. */
export function testSession(token: string, change: Partial<ApiSessionContext> = {}): ApiSessionContext {
  return {
    apiSessionId: `session-of-${token}`,
    kind: "legacy",
    token,
    identityId: "identity-1",
    isAdmin: false,
    isFullyAuthenticated: true,
    authQueries: [],
    configTypes: [],
    expirationSeconds: 1800,
    expiresAt: new Date("2026-01-02T15:04:05.123Z"),
    ...change,
  };
}

/** The sessions of `admin`, `full`, and `partial`, whose second factor is open. */
const SESSIONS: readonly ApiSessionContext[] = [
  testSession("admin", { isAdmin: true }),
  testSession("full"),
  testSession("partial", { isAdmin: true, isFullyAuthenticated: false }),
];

/** Starts a server on a free port. A handler that the test did not bring answers 500. */
export async function startTestApi(o: {
  handlers: TestHandlers;
  sessions?: readonly ApiSessionContext[];
  authenticate?: Authenticate;
  limits?: Partial<HttpLimits>;
  upgrades?: readonly Upgrade[];
  endpoints?: readonly Endpoint[];
  within?: Within;
  allowedOrigins?: readonly string[];
}): Promise<TestApi> {
  const authority = await TestAuthority.create();
  const identity = await authority.identity("controller");
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
  const logged: TestApi["logged"] = [];
  const at =
    (level: string) =>
    (fields: object, msg: string): void => {
      logged.push({ level, msg, fields: fields as Record<string, unknown> });
    };
  const log: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const api = await startHttp({
    port,
    handlers: {
      client: complete(o.handlers.client),
      management: complete(o.handlers.management),
      fabric: complete(o.handlers.fabric),
    },
    authenticate:
      o.authenticate ??
      (async ({ sessionToken }) =>
        (o.sessions ?? SESSIONS).find(({ token }) => token === sessionToken) ?? {
          refused: sessionToken === undefined ? "missing" : "invalid",
          scheme: sessionToken === undefined ? "any" : "zt-session",
        }),
    log,
    instanceId: "instance-1",
    validateResponses: true,
    limits: o.limits,
    allowedOrigins: o.allowedOrigins,
    upgrades: o.upgrades,
    endpoints: o.endpoints,
    ...(o.within !== undefined && { within: o.within }),
  });

  const open = async (options: ConnectionOptions = {}): Promise<TLSSocket> => {
    const socket = connect({
      host: "127.0.0.1",
      port: port.port,
      ca: authority.certPem,
      servername: "localhost",
      ...options,
    });
    await once(socket, "secureConnect");
    return socket;
  };
  return {
    authority,
    port: port.port,
    api,
    logged,
    open,
    async exchange(bytes, options) {
      const socket = await open(options);
      const chunks: Buffer[] = [];
      socket.on("data", (chunk: Buffer) => chunks.push(chunk));
      socket.on("error", () => socket.destroy());
      socket.write(bytes);
      await once(socket, "close");
      return Buffer.concat(chunks).toString();
    },
    async close() {
      await api.close();
      await port.close();
    },
  };
}

function complete<T extends object>(some: Partial<T> = {}): T {
  return new Proxy(some, {
    get: (target, name) =>
      Reflect.get(target, name) ??
      (async () => Promise.reject(apiError("UNHANDLED", { message: `no ${String(name)}` }))),
  }) as T;
}

// Requests as they go over the wire, one on a connection, and their answers.

export const CLOSE = "Connection: close\r\n";
export const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${headers}\r\n`;
export const send = (method: string, path: string, body: string, headers = "Content-Type: application/json\r\n") =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${CLOSE}${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Status line, header lines in order without the date, and the body. */
export function split(response: string): {
  status: number;
  headers: string[];
  header: (name: string) => string[];
  body: string;
} {
  const end = response.indexOf("\r\n\r\n");
  const [statusLine = "", ...headers] = response.slice(0, end).split("\r\n");
  return {
    status: Number(statusLine.split(" ")[1]),
    headers: headers.filter((line) => !/^date:/i.test(line)),
    header: (name) =>
      headers.flatMap((line) => (line.toLowerCase().startsWith(`${name}: `) ? [line.slice(name.length + 2)] : [])),
    body: response.slice(end + 4),
  };
}
export const json = (response: string) => JSON.parse(split(response).body);

/** A version document that the contract accepts. */
export const version = {
  apiVersions: { edge: { v1: { apiBaseUrls: ["https://localhost:1/edge/client/v1"], path: "/edge/client/v1" } } },
  buildDate: "2026-01-01T00:00:00Z",
  capabilities: [],
  revision: "x",
  runtimeVersion: "node",
  version: "v1.6.20",
};
