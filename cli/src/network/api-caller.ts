/** Calls of a controller's APIs, by method and path. */
import { Buffer } from "node:buffer";
import {
  type ApiCredential,
  ApiError,
  ApiTransportError,
  credentialHeaders,
  HttpsCaller,
  type HttpsOptions,
  reportedError,
} from "@sallyport/api/client";
import { answersWithin, unlessHanging } from "@sallyport/async";
import { controllerTrust } from "@sallyport/wire/controller-trust";
import { CommandError, ExitStatus } from "../errors.ts";

export interface ApiRequest {
  readonly method: string;
  /** From the root of the server. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Begins a session: a refusal of it is no end of one. */
  readonly isLogin?: true;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** JSON in an envelope. */
export interface Envelope {
  readonly data: unknown;
  readonly meta: { readonly pagination?: { readonly totalCount: number } };
  /** The version of the one entity that was asked for. OpenZiti's controller names none. */
  readonly etag?: string;
}

/** How to reach a controller, and with what certificate. */
export interface Endpoint {
  /** `https://host:port` */
  readonly controller: string;
  /** Other controllers of the network, for when it is away. */
  readonly others?: readonly string[] | undefined;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

const TIMEOUT_MS = 30_000;
/** How long a call may take before its controller is asked whether it answers at all, and how long the answer to that may take. */
const PATIENCE_MS = 2_000;
const PROBE_MS = 2_000;

/** A controller with a session, or before there is one. When it is away, another one of the network is called in its place. */
export class ApiCaller {
  #base: string;
  /** Those that were not called yet. */
  readonly #others: string[];
  /** Called with the addresses of one that is away and of the next. */
  onSwitch: ((former: string, next: string) => void) | undefined;
  readonly #https: HttpsCaller;
  readonly #signal: AbortSignal;
  #credential: ApiCredential | undefined;
  /** Begins a new session after the controller refused the old one; undefined when it cannot. */
  #renew: (() => Promise<string | undefined>) | undefined;
  /** Under way, or done: calls side by side meet the end of a session together. */
  #renewal: Promise<string | undefined> | undefined;

  constructor({ controller, others = [], ca, cert, key }: Endpoint, signal: AbortSignal) {
    const tls: HttpsOptions["tls"] = controllerTrust(ca ?? "");
    this.#base = controller;
    this.#others = others.filter((other) => other !== controller);
    this.#signal = signal;
    this.#https = new HttpsCaller({ tls, timeoutMs: TIMEOUT_MS, ...(cert && { cert }), ...(key && { key }) });
  }

  /** The one that is called now. */
  get controller(): string {
    return this.#base;
  }

  /** @param renew called once, for the token of a new session, when a call was refused */
  useSession(token: string, renew?: () => Promise<string | undefined>): void {
    this.#credential = { kind: "session", token };
    this.#renew = renew;
  }

  /** The answer whatever its status. @throws CommandError `Unreachable` */
  async send(request: ApiRequest): Promise<ApiAnswer> {
    const answer = await this.#send(request);
    if (answer.status !== 401 || request.isLogin === true) return answer;
    const renew = this.#renew;
    this.#renew = undefined;
    this.#renewal ??= renew?.();
    const token = await this.#renewal;
    if (token === undefined) return answer;
    this.#credential = { kind: "session", token };
    return await this.#send(request);
  }

  /** The JSON that the controller answers with. @throws CommandError, ApiError */
  async json(request: ApiRequest): Promise<Envelope> {
    const answer = await this.send(request);
    const url = this.#url(request);
    if (answer.status < 200 || answer.status > 299) throw failure(reportedError(answer, url), this.#base);
    if (answer.body.byteLength === 0) return { data: {}, meta: {} };
    try {
      const envelope = JSON.parse(answer.body.toString("utf8")) as Partial<Envelope> | null;
      if (typeof envelope === "object" && envelope !== null && "data" in envelope)
        return { data: envelope.data, meta: envelope.meta ?? {}, ...etagOf(answer) };
    } catch {
      // Said below.
    }
    throw notController(this.#base, `${url.pathname} answered with something that is no JSON envelope`);
  }

  /** The JSON of an operation whose answer has no envelope. @throws CommandError, ApiError */
  async bare(request: ApiRequest): Promise<unknown> {
    const answer = await this.send(request);
    const url = this.#url(request);
    if (answer.status < 200 || answer.status > 299) throw failure(reportedError(answer, url), this.#base);
    try {
      return JSON.parse(answer.body.toString("utf8")) as unknown;
    } catch {
      throw notController(this.#base, `${url.pathname} answered with something that is no JSON`);
    }
  }

  close(): void {
    this.#https.close();
  }

  async #send(request: ApiRequest): Promise<ApiAnswer> {
    const { method, body: value } = request;
    const body = value === undefined ? undefined : Buffer.from(JSON.stringify(value));
    const headers = {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json", "content-length": String(body.byteLength) }),
      ...(this.#credential !== undefined && credentialHeaders(this.#credential)),
      ...request.headers,
    };
    const isRepeatable = method === "GET";
    for (;;) {
      let isSent = false;
      const asked = this.#base;
      // What a controller may have done already is not asked of another one.
      const mayMove = () => (isRepeatable || !isSent) && (this.#others.length > 0 || this.#base !== asked);
      const send = async (withdrawn: AbortSignal) =>
        await this.#https.send(this.#url(request), {
          ...{ method, headers, body, isRepeatable, signal: AbortSignal.any([this.#signal, withdrawn]) },
          onSent: () => {
            isSent = true;
          },
        });
      try {
        const answer = await unlessHanging({
          ...{ work: send, patienceMs: PATIENCE_MS, hasAlternative: mayMove },
          answers: () => this.#answers(),
          hangs: () => new ApiTransportError(`${asked} answers nothing: aborted due to timeout`),
        });
        // One without its database, for example.
        if (answer.status !== 503 || !isRepeatable || !mayMove()) return answer;
        this.#next(asked);
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!(error instanceof ApiTransportError)) throw error;
        if (!mayMove() || isDistrusted(error)) throw unreachable(asked, error);
        this.#next(asked);
      }
    }
  }

  /** Calls side by side may find one controller away together. */
  #next(asked: string): void {
    const next = this.#base === asked ? this.#others.shift() : undefined;
    if (next === undefined) return;
    this.#base = next;
    this.onSwitch?.(asked, next);
  }

  async #answers(): Promise<boolean> {
    return await answersWithin(PROBE_MS, async (signal) => {
      const call = { method: "GET", headers: {}, body: undefined, isRepeatable: true, signal };
      return await this.#https.send(new URL("/version", this.#base), call).then(
        () => true,
        () => false,
      );
    });
  }

  #url({ path, query = {} }: ApiRequest): URL {
    const url = new URL(path, this.#base);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
  }
}

function etagOf({ headers: { etag } }: ApiAnswer): Pick<Envelope, "etag"> {
  return typeof etag === "string" ? { etag } : {};
}

/** What the user is told of a refused call. */
function failure(error: ApiError | ApiTransportError, controller: string): Error {
  if (error instanceof ApiTransportError) return notController(controller, error.message);
  if (error.status === 401 && error.code === "UNAUTHORIZED") {
    return new CommandError(
      `${controller} refused the session: it has ended, or its identity is no administrator; 'sallyport login' begins a new one`,
      ExitStatus.LoggedOut,
      { cause: error },
    );
  }
  // The message of such an error is the same for every field.
  const { field, reason } = error.cause ?? {};
  if (field === undefined) return error;
  const what = `${controller} refused the request: ${field}: ${reason ?? "invalid"}`;
  return new ApiError(error.status, error.code, what, error.cause);
}

function notController(controller: string, what: string): CommandError {
  return new CommandError(`${controller} does not answer as a controller does: ${what}`, ExitStatus.Failed);
}

/** Something answers there, and is not the controller that was trusted: the user has to know. */
function isDistrusted(error: ApiTransportError): boolean {
  return DISTRUST.some((pattern) => pattern.test(causeOf(error)));
}

const DISTRUST = [/self-signed|unable to (get|verify)|certificate/i, /Hostname\/IP does not match/i];

function causeOf(error: ApiTransportError): string {
  return `${error.message} ${(error.cause as NodeJS.ErrnoException | undefined)?.code ?? ""}`;
}

/** Words of Node and OpenSSL for what a user can put right. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, "no program listens there; is the controller running, and is the port right?"],
  [/ENOTFOUND|EAI_AGAIN/, "the host name cannot be resolved"],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|aborted due to timeout/, "it does not answer; is a firewall between?"],
  [
    /self-signed|unable to (get|verify)|certificate chain/i,
    "its certificate is not one of the authorities that were trusted at the login; if the network's authority was replaced, log out and in again",
  ],
  [/Hostname\/IP does not match/i, "its certificate is for another host name; log in with the name that is in it"],
];

function unreachable(controller: string, error: ApiTransportError): CommandError {
  const cause = causeOf(error);
  const reason = REASONS.find(([pattern]) => pattern.test(cause))?.[1] ?? error.message;
  return new CommandError(`cannot reach ${controller}: ${reason}`, ExitStatus.Unreachable, { cause: error });
}
