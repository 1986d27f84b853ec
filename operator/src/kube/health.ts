import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { listen } from "@sallyport/wire";
import { KubeError } from "./client/errors.ts";
import type { ResourceKind } from "./kinds.ts";

/** Answers what is wrong, or nothing. */
export type Check = () => string | undefined;

interface HealthServerOptions {
  /** All addresses by default. */
  readonly host?: string;
  readonly port: number;
  /** The process must be restarted when one of them fails. */
  readonly live: Readonly<Record<string, Check>>;
  /** The process is not to be counted on while one of them fails. A standby is ready. */
  readonly ready: Readonly<Record<string, Check>>;
  /** In the text format of Prometheus, at `/metrics`; absent: no such page. */
  readonly metrics?: () => Promise<string>;
}

/**
 * `/healthz`, `/readyz` and `/metrics` over plain HTTP (docs/operator/machinery.md, "Probes"). A probe gets 200 or 503 and, as other controllers say it, a line for each check;
 * `/healthz/<check>` asks for one.
 */
export class HealthServer {
  readonly #http: Server;
  readonly #o: HealthServerOptions;

  private constructor(o: HealthServerOptions) {
    this.#o = o;
    this.#http = createServer((request, response) => {
      this.#answer(request.method ?? "GET", request.url ?? "/", response).catch((error: unknown) => {
        if (!response.headersSent) text(response, 500, `${String(error)}\n`);
        else response.destroy();
      });
    });
  }

  /** @throws the error of the socket when the port is taken */
  static async listen(o: HealthServerOptions): Promise<HealthServer> {
    const server = new HealthServer(o);
    // A probe that cannot be accepted fails by itself.
    await listen(server.#http, { port: o.port, host: o.host }, () => {});
    return server;
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  async #answer(method: string, url: string, response: ServerResponse): Promise<void> {
    const [, page = "", one] = new URL(url, "http://operator").pathname.split("/");
    const checks =
      page === "healthz" || page === "livez" ? this.#o.live : page === "readyz" ? this.#o.ready : undefined;
    if (method !== "GET" && method !== "HEAD") text(response, 405, "only GET\n");
    else if (page === "metrics" && this.#o.metrics !== undefined) {
      text(response, 200, await this.#o.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    } else if (checks === undefined) text(response, 404, "no such page\n");
    else if (one !== undefined && !Object.hasOwn(checks, one)) text(response, 404, "no such check\n");
    else this.#probe(response, page, one === undefined ? Object.entries(checks) : [[one, checks[one]]]);
  }

  #probe(response: ServerResponse, page: string, checks: readonly (readonly [string, Check | undefined])[]): void {
    const results = checks.map(([name, check]) => ({ name, problem: check?.() }));
    const isGood = results.every(({ problem }) => problem === undefined);
    const lines = results.map(({ name, problem }) =>
      problem === undefined ? `[+]${name} ok` : `[-]${name} failed: ${problem}`,
    );
    text(response, isGood ? 200 : 503, `${[...lines, `${page} check ${isGood ? "passed" : "failed"}`].join("\n")}\n`);
  }
}

function text(response: ServerResponse, code: number, body: string, type = "text/plain; charset=utf-8"): void {
  response.writeHead(code, { "content-type": type, "content-length": Buffer.byteLength(body) }).end(body);
}

/** What a check must know of a reflector. */
export interface Watched {
  readonly kind: ResourceKind;
  readonly isSynced: boolean;
  readonly silentMs: number;
  readonly lastError: Error | undefined;
}

/** A reflector that hears nothing although nothing is known to be wrong for longer than this is stuck: even a silent watch ends and starts again sooner. */
const STUCK_MS = 10 * 60_000;

/**
 * Ready once everything was listed; not ready says what is missing and why. What was listed and may not be watched is
 * missing, too, and so is a kind that the server does not know any more: unlike a server that is away, nothing would end that by itself.
 */
export function syncedCheck(reflectors: Iterable<Watched>): Check {
  return () => {
    const missing = [...reflectors].filter(({ isSynced, lastError }) => !isSynced || isRefused(lastError));
    if (missing.length === 0) return undefined;
    return missing
      .map(({ kind, lastError }) => `${kind.plural} ${lastError?.message ?? "are not listed yet"}`)
      .join("; ");
  };
}

/**
 * Live while every reflector hears its server or knows why it does not. A server that is away is no reason to restart:
 * the reflector tries again by itself, and a restart would only lose what it knows.
 */
export function stuckCheck(reflectors: Iterable<Watched>, stuckMs = STUCK_MS): Check {
  return () => {
    const stuck = [...reflectors].filter(({ lastError, silentMs }) => lastError === undefined && silentMs > stuckMs);
    if (stuck.length === 0) return undefined;
    return `nothing heard of ${stuck.map(({ kind }) => kind.plural).join(", ")} for ${stuckMs / 1000} s`;
  };
}

const isRefused = (error: Error | undefined): boolean =>
  error instanceof KubeError && (error.isForbidden || error.isNotFound);
