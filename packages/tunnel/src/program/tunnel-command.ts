import { createServer, type Server, type ServerResponse } from "node:http";
import { Backoff, pause, untilAborted } from "@sallyport/async";
import type { LevelledLogger } from "@sallyport/program/logging";
import { AuthenticationError, ControllerError } from "@sallyport/sdk";
import { listen, listenAdvice } from "@sallyport/wire";
import { hostPort } from "../config/template.ts";
import { SourceRoutes } from "../intercept/local-ranges.ts";
import type { Interceptor } from "../interceptor.ts";
import { describedToken, externalToken } from "../login/external-login.ts";
import { readJoinedIdentity } from "../login/joined-identity.ts";
import { SessionFile } from "../login/session-file.ts";
import { oneTimeCodeOf, TerminalUser, type User } from "../login/terminal.ts";
import { ProxyInterceptor, parseProxyService } from "../proxy/proxy-interceptor.ts";
import { SdkOverlay } from "../sdk-overlay.ts";
import { Tunneler } from "../tunneler.ts";
import type { ProgramCommand } from "./command-line.ts";
import { identityFiles, SetupError } from "./identity-files.ts";

export type TunnelCommand = Extract<ProgramCommand, { name: "tunnel" }>;

/** A controller that cannot be reached is waited for, with growing pauses. */
const loginRetries = { firstMs: 1_000, maxMs: 30_000 };

/**
 * Tunnels for every identity until `stop` is aborted.
 *
 * @throws SetupError, InterceptError, IdentityFileError; AuthenticationError when no identity is accepted
 */
export async function tunnelCommand(command: TunnelCommand, log: LevelledLogger, stop: AbortSignal): Promise<void> {
  const files = await identityFiles(command.identities);
  const running = new Set<Runner>();
  const outside = new Set(files);
  const addresses = () => [...running].flatMap((runner) => runner.addresses());
  const interceptor = await interceptorOf(command, addresses, log);
  const localRoutes = new SourceRoutes(log);
  const user = new TerminalUser();
  const pending = () => [
    ...(stop.aborted ? ["the tunneler stops"] : []),
    ...[...outside].map((file) => `${file} has not logged in`),
    ...[...running].flatMap((runner) => runner.pending()),
    ...(interceptor?.pending?.() ?? []),
  ];
  let probes: ProbeServer | undefined;
  try {
    probes = command.health && (await ProbeServer.listen({ ...command.health, pending }));
    const outcomes = await Promise.allSettled(
      files.map(async (file) => {
        const overlay = await logIn(file, command, user, log, stop);
        if (overlay === undefined) return;
        outside.delete(file);
        running.add(start(overlay, file, { interceptor, localRoutes }, log));
      }),
    );
    const failures = outcomes.filter((outcome) => outcome.status === "rejected");
    for (const { reason } of failures) {
      if (failures.length === files.length) throw reason;
      log.error({ err: reason }, "an identity cannot be used; the others are");
    }
    await untilAborted(stop);
  } finally {
    log.info({ drainMs: command.drainMs }, "stopping");
    await Promise.all([...running].map((runner) => runner.close(command.drainMs)));
    await interceptor?.close();
    await localRoutes.close();
    await probes?.close();
  }
}

interface Runner {
  /** Of the controller and routers that it uses. */
  addresses(): readonly string[];
  /** What has not come about since the start. */
  pending(): readonly string[];
  close(drainMs: number): Promise<void>;
}

function start(
  overlay: SdkOverlay,
  file: string,
  host: { readonly interceptor: Interceptor | undefined; readonly localRoutes: SourceRoutes },
  log: LevelledLogger,
): Runner {
  const identity = overlay.identity.name;
  log.info({ identity, file }, "logged in");
  const tunneler = new Tunneler({ overlay, ...host, log: log.child({ identity }) });
  tunneler.start();
  return {
    addresses: () => overlay.addresses,
    pending: () => tunneler.pending(),
    close: async (drainMs) => {
      await tunneler.close({ drainMs });
      await overlay.close();
    },
  };
}

/** Failures after which the same login may succeed later, and what they are. */
const AWAY: Readonly<Record<string, string>> = {
  CONTROLLER_UNREACHABLE: "the controller cannot be reached",
  PROVIDER_UNREACHABLE: "the provider of the login cannot be reached",
};

/** @returns undefined when stopped meanwhile */
async function logIn(
  file: string,
  { refreshIntervalMs }: TunnelCommand,
  user: User,
  log: LevelledLogger,
  stop: AbortSignal,
): Promise<SdkOverlay | undefined> {
  const options = { log, refreshIntervalMs, signal: stop, oneTimeCode: oneTimeCodeOf(user, file, stop) };
  const backoff = new Backoff(loginRetries);
  for (;;) {
    let given: string | undefined;
    try {
      const joined = await readJoinedIdentity(file);
      if (joined === undefined) return await SdkOverlay.load(file, options);
      const { controller, ca, login } = joined;
      const token = async () => {
        given = (await externalToken(joined, { user, file, signal: stop })).token;
        return given;
      };
      // A file always has a next token; only users are spared a login.
      const store = login.tokenFile === undefined ? new SessionFile(file, controller, log) : undefined;
      return await SdkOverlay.login({ controller, ca, token, store }, options);
    } catch (error) {
      if (stop.aborted) return undefined;
      const isKnown = error instanceof AuthenticationError || error instanceof ControllerError;
      const away = isKnown ? AWAY[error.code] : undefined;
      if (!isKnown || away === undefined) throw given === undefined ? error : withToken(error, given);
      const retryMs = backoff.next();
      log.warn({ file, reason: error.message, retryMs }, away);
      await pause(retryMs, stop);
    }
  }
}

function withToken(error: unknown, token: string): unknown {
  if (!(error instanceof AuthenticationError) || error.code !== "CREDENTIALS_REFUSED") return error;
  return new AuthenticationError(error.code, `${error.message} ${describedToken(token)}`, { cause: error });
}

async function interceptorOf(
  command: TunnelCommand,
  addresses: () => readonly string[],
  log: LevelledLogger,
): Promise<Interceptor | undefined> {
  const { mode, udpIdleTimeoutMs } = command;
  switch (mode.name) {
    case "host":
      return undefined;
    case "proxy":
      return new ProxyInterceptor({
        services: mode.services.map(parseProxyService),
        bindAddress: mode.bindAddress,
        udpIdleTimeoutMs,
        log,
      });
    case "run": {
      if (process.platform !== "linux") {
        throw new SetupError(`run needs Linux, this is ${process.platform}; use proxy or host`);
      }
      const { TproxyInterceptor } = await import("../intercept/tproxy-interceptor.ts");
      return await TproxyInterceptor.open({
        resolver: mode.resolver,
        dnsSvcIpRange: mode.dnsRange,
        lanIf: mode.lanInterface,
        udpIdleTimeoutMs,
        protectedAddresses: addresses,
        log,
      });
    }
  }
}

export interface ProbeServerOptions {
  readonly host: string;
  readonly port: number;
  /** What has not come about since the start, each in words. */
  readonly pending: () => readonly string[];
}

/**
 * Answers probes over plain HTTP: `/health-checks/live` with 200 as long as the process works, `/health-checks/ready` with 200
 * or 503 and a line for each thing that is missing (docs/tunnel.md, "Probes").
 */
export class ProbeServer {
  readonly #http: Server;

  private constructor(o: ProbeServerOptions) {
    this.#http = createServer((request, response) => {
      // Without the query. Any client can send a target that is no address, such as `//`.
      const [page] = (request.url ?? "/").split("?", 1);
      if (request.method !== "GET" && request.method !== "HEAD") text(response, 405, ["only GET"]);
      else if (page === "/health-checks/live") text(response, 200, ["live"]);
      else if (page === "/health-checks/ready") {
        const missing = o.pending();
        text(response, missing.length === 0 ? 200 : 503, missing.length === 0 ? ["ready"] : missing);
      } else text(response, 404, ["no such page"]);
    });
  }

  /** @throws SetupError when the port cannot be had */
  static async listen(o: ProbeServerOptions): Promise<ProbeServer> {
    const server = new ProbeServer(o);
    // A probe that cannot be accepted fails by itself.
    await listen(server.#http, { port: o.port, host: o.host }, () => {}).catch((cause: unknown) => {
      const text = `cannot listen on ${hostPort(o.host, o.port)} (--health-address): ${listenAdvice(cause)}`;
      throw new SetupError(text, { cause });
    });
    return server;
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }
}

function text(response: ServerResponse, code: number, lines: readonly string[]): void {
  const body = `${lines.join("\n")}\n`;
  response
    .writeHead(code, { "content-type": "text/plain; charset=utf-8", "content-length": Buffer.byteLength(body) })
    .end(body);
}
