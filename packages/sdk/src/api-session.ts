import { arch, hostname, platform, release, version } from "node:os";
import { type ApiClient, ApiError, ApiTransportError, createClient } from "@sallyport/api";
import { createCsr, createKeyPair, type Identity, identityFromPem, type Logger } from "@sallyport/wire";
import { AuthenticationError, ControllerError, reasonOf, SdkError } from "./errors.ts";

/** How to prove who we are. */
export type Credentials =
  | { readonly kind: "certificate"; readonly identity: Identity }
  | { readonly kind: "password"; readonly username: string; readonly password: string; readonly caPem: string };

/** The client API, as the SDK calls it. */
export type ClientApi = ApiClient<"client">;

/** What a login gives. */
export interface Login {
  /** Token of the API session. */
  readonly token: string;
  readonly identityId: string;
  readonly identityName: string;
  /** Certificate and trust for router connections: our own, or the one of this API session. */
  readonly identity: Identity;
}

/** What the controller knows of an identity; hosting values by service id count more than the defaults. */
export interface IdentityInfo {
  readonly id: string;
  readonly name: string;
  readonly appData: Readonly<Record<string, unknown>>;
  /** Cost and precedence of terminators that say nothing else. */
  readonly defaultHostingCost: number;
  readonly defaultHostingPrecedence: "default" | "required" | "failed";
  readonly serviceHostingCosts: Readonly<Record<string, number>>;
  readonly serviceHostingPrecedences: Readonly<Record<string, "default" | "required" | "failed">>;
}

/** What the API's client throws, as an error of the SDK; other errors stay what they are. */
export function fromController(error: unknown): unknown {
  if (error instanceof ApiError) {
    return new ControllerError(error.code, `the controller refused a request: ${error.message}`, { cause: error });
  }
  if (error instanceof ApiTransportError) {
    return new ControllerError("CONTROLLER_UNREACHABLE", `${error.message}; is the controller running?`, {
      cause: error,
    });
  }
  return error;
}

const shortestRefreshMs = 10_000;
const longestRefreshMs = 10 * 60_000;
/** A controller that does not answer must not keep who closes waiting. */
const logoutMs = 3_000;

/**
 * The session with the controller: logs in when it is first needed, keeps the session alive, and logs in again when the
 * controller no longer knows it.
 */
export class ApiSession {
  readonly #api: ClientApi;
  readonly #credentials: Credentials;
  readonly #configTypes: readonly string[];
  readonly #controllerUrl: string;
  readonly #log: Logger;
  readonly #onReplaced: () => void;
  #login: Promise<Login> | undefined;
  #refresh: NodeJS.Timeout | undefined;
  #isLoggedIn = false;
  #isClosed = false;

  /** @param o.onReplaced called when the controller ended the session: everything that used its token is void */
  constructor(o: {
    controllerUrl: string;
    credentials: Credentials;
    configTypes: readonly string[];
    log: Logger;
    onReplaced: () => void;
  }) {
    const { credentials } = o;
    const trust = credentials.kind === "certificate" ? credentials.identity.caPem : credentials.caPem;
    this.#api = createClient("client", {
      baseUrl: o.controllerUrl,
      ...(trust === "" ? {} : { ca: trust, tls: { allowPartialTrustChain: true } }),
      ...(credentials.kind === "certificate"
        ? { cert: credentials.identity.certPem, key: credentials.identity.keyPem }
        : {}),
    });
    this.#controllerUrl = o.controllerUrl;
    this.#credentials = credentials;
    this.#configTypes = o.configTypes;
    this.#log = o.log;
    this.#onReplaced = o.onReplaced;
  }

  /** The current login; logs in when there is none. @throws AuthenticationError */
  login(): Promise<Login> {
    if (this.#isClosed)
      return Promise.reject(new SdkError("CONTEXT_CLOSED", "this context was closed; load a new one"));
    this.#login ??= this.#authenticate().catch((error: unknown) => {
      this.#login = undefined;
      throw error;
    });
    return this.#login;
  }

  /**
   * Calls the controller as the logged-in identity; when the session is gone, logs in again and repeats the call once.
   *
   * @throws AuthenticationError, ApiError, ApiTransportError
   */
  async call<T>(work: (api: ClientApi) => Promise<T>): Promise<T> {
    const login = this.login();
    await login;
    try {
      return await work(this.#api);
    } catch (error) {
      // A connection that was kept alive may have ended meanwhile, with the controller's restart for example.
      if (error instanceof ApiTransportError) return await work(this.#api);
      if (!(error instanceof ApiError && error.status === 401)) throw error;
      // Of several calls that find the session gone, one starts over.
      if (this.#login === login) this.#drop();
      await this.login();
      return await work(this.#api);
    }
  }

  /** Who we are, as the controller knows it now. @throws as `call` */
  async identity(): Promise<IdentityInfo> {
    const { data } = await this.call((api) => api.getCurrentIdentity());
    return {
      id: data.id,
      name: data.name,
      appData: data.appData ?? {},
      defaultHostingCost: data.defaultHostingCost ?? 0,
      defaultHostingPrecedence: data.defaultHostingPrecedence ?? "default",
      serviceHostingCosts: data.serviceHostingCosts ?? {},
      serviceHostingPrecedences: data.serviceHostingPrecedences ?? {},
    };
  }

  /** Host names and IP addresses of the controller and of the routers that this identity may use. @throws as `call` */
  async hosts(): Promise<string[]> {
    const { data } = await this.call((api) => api.getCurrentIdentityEdgeRouters());
    const urls = [this.#controllerUrl, ...data.flatMap((router) => Object.values(router.supportedProtocols ?? {}))];
    const names = urls.flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname.replace(/^\[|\]$/g, "")] : []));
    return [...new Set(names)].filter((name) => name !== "");
  }

  /** Asks the controller whether the session still exists, and starts over when it does not. */
  async verify(): Promise<void> {
    await this.call((api) => api.getCurrentAPISession());
  }

  /** Logs out; calls under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#refresh);
    this.#login = undefined;
    if (this.#isLoggedIn) {
      this.#isLoggedIn = false;
      await this.#api.deleteCurrentAPISession({}, { signal: AbortSignal.timeout(logoutMs) }).catch((error: unknown) => {
        this.#log.debug({ reason: reasonOf(error) }, "logging out failed; the session ends by itself");
      });
    }
    this.#api.close();
  }

  #drop(): void {
    this.#log.info({ controller: this.#controllerUrl }, "the API session is gone; logging in again");
    clearTimeout(this.#refresh);
    this.#login = undefined;
    this.#isLoggedIn = false;
    this.#onReplaced();
  }

  async #authenticate(): Promise<Login> {
    const credentials = this.#credentials;
    this.#api.setToken(undefined);
    const { data } = await this.#api
      .authenticate({
        query: { method: credentials.kind === "certificate" ? "cert" : "password" },
        body: {
          configTypes: [...this.#configTypes],
          envInfo: {
            arch: arch(),
            os: platform(),
            osRelease: release(),
            osVersion: version().slice(0, 255),
            hostname: hostname(),
          },
          sdkInfo: { type: "sallyport-sdk", version: "0.1.0" },
          ...(credentials.kind === "password"
            ? { username: credentials.username, password: credentials.password }
            : {}),
        },
      })
      .catch((error: unknown) => {
        throw this.#refused(error);
      });
    if (data.authQueries?.length > 0) {
      throw new AuthenticationError(
        "SECOND_FACTOR_REQUIRED",
        `${this.#controllerUrl} asks for a second factor (${data.authQueries.map((query) => query.typeId ?? query.provider)}); ` +
          "this SDK cannot give one: use an authentication policy without it",
      );
    }
    this.#api.setToken(data.token);
    const identity =
      credentials.kind === "certificate"
        ? credentials.identity
        : await this.#sessionCertificate(data.identityId, credentials.caPem);
    if (!this.#isClosed) this.#scheduleRefresh(data.expiresAt);
    this.#isLoggedIn = true;
    this.#log.debug({ controller: this.#controllerUrl, identity: data.identity.name }, "logged in");
    return {
      token: data.token,
      identityId: data.identityId,
      identityName: data.identity.name ?? identity.id,
      identity,
    };
  }

  /** Router connections need a certificate; who logs in by password gets one for this session. */
  async #sessionCertificate(identityId: string, caPem: string): Promise<Identity> {
    const { keyPem } = await createKeyPair();
    const csr = await createCsr({ commonName: identityId, subject: { O: "Sallyport" }, keyPem });
    const { data } = await this.#api.createCurrentApiSessionCertificate({ body: { csr } });
    return identityFromPem({ certPem: data.certificate, keyPem, caPem });
  }

  #scheduleRefresh(expiresAt: string): void {
    const left = Date.parse(expiresAt) - Date.now();
    const delay = Math.min(Math.max(left / 2 || 0, shortestRefreshMs), longestRefreshMs);
    clearTimeout(this.#refresh);
    this.#refresh = setTimeout(() => void this.#keepAlive(), delay);
    this.#refresh.unref();
  }

  async #keepAlive(): Promise<void> {
    try {
      const { data } = await this.call((api) => api.getCurrentAPISession());
      if (!this.#isClosed) this.#scheduleRefresh(data.expiresAt);
    } catch (error) {
      this.#log.warn(
        { controller: this.#controllerUrl, reason: reasonOf(error) },
        "the API session could not be refreshed",
      );
      if (!this.#isClosed) this.#scheduleRefresh(new Date().toISOString());
    }
  }

  #refused(error: unknown): AuthenticationError {
    const isRefusal = error instanceof ApiError && error.status === 401;
    return isRefusal
      ? new AuthenticationError(
          "CREDENTIALS_REFUSED",
          `${this.#controllerUrl} does not accept this identity: ${error.message}; was it deleted or disabled? Enroll again`,
          { cause: error },
        )
      : new AuthenticationError(
          "CONTROLLER_UNREACHABLE",
          `cannot log in at ${this.#controllerUrl}: ${reasonOf(error)}`,
          {
            cause: error,
          },
        );
  }
}
