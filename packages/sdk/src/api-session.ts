import { arch, hostname, platform, release, version } from "node:os";
import { type ApiClient, ApiError, ApiTransportError, createClient, listAll } from "@sallyport/api/client";
import { errorText } from "@sallyport/async";
import {
  controllerTrust,
  createCsr,
  createKeyPair,
  type Identity,
  identityFromPem,
  type Logger,
  type PrecedenceName,
} from "@sallyport/wire";
import { AuthenticationError, ControllerError, SdkError } from "./errors.ts";
import { type LoadedIdentity, withTrust } from "./identity-file.ts";
import { type RouterAddress, routerAddresses } from "./router-address.ts";

/** How to prove who we are. */
export type LoginCredentials =
  | { readonly kind: "certificate"; readonly identity: Identity }
  | { readonly kind: "password"; readonly username: string; readonly password: string; readonly caPem: string };

export type ClientApi = ApiClient<"client">;

export interface LoginResult {
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
  readonly defaultHostingPrecedence: PrecedenceName;
  readonly serviceHostingCosts: Readonly<Record<string, number>>;
  readonly serviceHostingPrecedences: Readonly<Record<string, PrecedenceName>>;
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

const MIN_REFRESH_MS = 10_000;
const MAX_REFRESH_MS = 10 * 60_000;
/** `close` does not wait longer for a silent controller. */
const LOGOUT_MS = 3_000;
/** Longer than any call: then nothing is under way any more at a client that was replaced. */
const REPLACED_CLIENT_MS = 30_000;

function clientOf(baseUrl: string, credentials: LoginCredentials): ClientApi {
  if (credentials.kind === "password")
    return createClient("client", { baseUrl, tls: controllerTrust(credentials.caPem) });
  const { certPem: cert, keyPem: key, caPem } = credentials.identity;
  return createClient("client", { baseUrl, tls: controllerTrust(caPem), cert, key });
}

interface ApiSessionOptions {
  readonly controllerUrl: string;
  readonly credentials: LoginCredentials;
  readonly configTypes: readonly string[];
  readonly log: Logger;
  /** Called when the controller ended the session: everything that used its token is void. */
  readonly onReplaced: () => void;
  /** Reads the identity again, which may have been renewed where it is kept. */
  readonly newest?: (() => Promise<LoadedIdentity>) | undefined;
}

/**
 * The session with the controller: logs in when it is first needed, keeps the session alive, and logs in again when the
 * controller no longer knows it.
 */
export class ApiSession {
  #api: ClientApi;
  #credentials: LoginCredentials;
  readonly #o: ApiSessionOptions;
  #controllerUrl: string;
  readonly #log: Logger;
  #lastUnreadable = "";
  #token: string | undefined;
  #login: Promise<LoginResult> | undefined;
  /** What `login` has given. */
  #held: { -readonly [K in keyof LoginResult]: LoginResult[K] } | undefined;
  readonly #replaced = new Map<ClientApi, NodeJS.Timeout>();
  #refresh: NodeJS.Timeout | undefined;
  #isLoggedIn = false;
  #isClosed = false;

  constructor(o: ApiSessionOptions) {
    this.#o = o;
    this.#log = o.log;
    this.#api = clientOf(o.controllerUrl, o.credentials);
    this.#controllerUrl = o.controllerUrl;
    this.#credentials = o.credentials;
  }

  /** The current login; logs in when there is none. @throws AuthenticationError */
  login(): Promise<LoginResult> {
    if (this.#isClosed)
      return Promise.reject(new SdkError("CONTEXT_CLOSED", "this context was closed; load a new one"));
    this.#login ??= this.#authenticate().catch((error: unknown) => {
      this.#login = undefined;
      throw error;
    });
    return this.#login;
  }

  /** Calls the controller; when the session is gone, logs in again and repeats the call once. @throws ApiError, ApiTransportError */
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

  /**
   * Takes an identity that was renewed where it is kept: its address and trust at once, its certificate for the next login,
   * because routers know a session by the certificate that it began with. An unreadable one is logged, and the former stays.
   */
  async renew(): Promise<void> {
    const credentials = this.#credentials;
    if (this.#o.newest === undefined || credentials.kind !== "certificate") return;
    try {
      const { controllerUrl, identity } = await this.#o.newest();
      this.#lastUnreadable = "";
      const { certPem, keyPem, caPem } = credentials.identity;
      const isSame = identity.certPem === certPem && identity.keyPem === keyPem && identity.caPem === caPem;
      // A concurrent renewal may have been first.
      if (this.#isClosed || this.#credentials !== credentials || (isSame && controllerUrl === this.#controllerUrl))
        return;
      this.#take(controllerUrl, identity);
    } catch (error) {
      const reason = errorText(error);
      if (reason !== this.#lastUnreadable) {
        this.#log.warn({ reason }, "the identity cannot be read again; the former one stays in use");
      }
      this.#lastUnreadable = reason;
    }
  }

  #take(controllerUrl: string, identity: Identity): void {
    const former = this.#api;
    this.#credentials = { kind: "certificate", identity };
    this.#controllerUrl = controllerUrl;
    this.#api = clientOf(controllerUrl, this.#credentials);
    this.#api.setToken(this.#token);
    if (this.#held !== undefined) this.#held.identity = withTrust(this.#held.identity, identity.caPem);
    const fields = { controller: controllerUrl, identity: identity.id, validTo: identity.leaf.validTo };
    this.#log.info(fields, "the identity was read again: it was renewed");
    const end = setTimeout(() => {
      this.#replaced.delete(former);
      former.close();
    }, REPLACED_CLIENT_MS);
    end.unref();
    this.#replaced.set(former, end);
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
    const routers = await this.#ownRouters();
    const urls = [this.#controllerUrl, ...routers.flatMap((router) => Object.values(router.supportedProtocols ?? {}))];
    const names = urls.flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname.replace(/^\[|\]$/g, "")] : []));
    return [...new Set(names)].filter((name) => name !== "");
  }

  /** The routers that this identity may use and that are online. @throws as `call` */
  async routers(): Promise<RouterAddress[]> {
    return routerAddresses((await this.#ownRouters()).filter(({ isOnline }) => isOnline));
  }

  async #ownRouters() {
    return await listAll((query) => this.call((api) => api.getCurrentIdentityEdgeRouters({ query })));
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
      await this.#api
        .deleteCurrentAPISession({}, { signal: AbortSignal.timeout(LOGOUT_MS) })
        .catch((error: unknown) => {
          this.#log.debug({ reason: errorText(error) }, "logging out failed; the session ends by itself");
        });
    }
    this.#api.close();
    for (const [former, end] of this.#replaced) {
      clearTimeout(end);
      former.close();
    }
    this.#replaced.clear();
  }

  #useToken(token: string | undefined): void {
    this.#token = token;
    this.#api.setToken(token);
  }

  #drop(): void {
    this.#log.info({ controller: this.#controllerUrl }, "the API session is gone; logging in again");
    clearTimeout(this.#refresh);
    this.#login = undefined;
    this.#held = undefined;
    this.#isLoggedIn = false;
    this.#o.onReplaced();
  }

  async #authenticate(): Promise<LoginResult> {
    await this.renew();
    const credentials = this.#credentials;
    this.#useToken(undefined);
    const { data } = await this.#api
      .authenticate({
        query: { method: credentials.kind === "certificate" ? "cert" : "password" },
        body: {
          configTypes: [...this.#o.configTypes],
          envInfo: {
            arch: arch(),
            os: platform(),
            osRelease: release(),
            osVersion: version().slice(0, 255),
            hostname: hostname(),
          },
          sdkInfo: { type: "sallyport-sdk", version: "0.1.0" },
          ...(credentials.kind === "password" && { username: credentials.username, password: credentials.password }),
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
    this.#useToken(data.token);
    const identity =
      credentials.kind === "certificate"
        ? credentials.identity
        : await this.#sessionCertificate(data.identityId, credentials.caPem);
    if (!this.#isClosed) this.#scheduleRefresh(data.expiresAt);
    this.#isLoggedIn = true;
    this.#log.debug({ controller: this.#controllerUrl, identity: data.identity.name }, "logged in");
    this.#held = {
      token: data.token,
      identityId: data.identityId,
      identityName: data.identity.name ?? identity.id,
      identity,
    };
    return this.#held;
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
    const delay = Math.min(Math.max(left / 2 || 0, MIN_REFRESH_MS), MAX_REFRESH_MS);
    clearTimeout(this.#refresh);
    this.#refresh = setTimeout(() => void this.#keepAlive(), delay);
    this.#refresh.unref();
  }

  async #keepAlive(): Promise<void> {
    try {
      const { data } = await this.call((api) => api.getCurrentAPISession());
      if (!this.#isClosed) this.#scheduleRefresh(data.expiresAt);
    } catch (error) {
      const fields = { controller: this.#controllerUrl, reason: errorText(error) };
      this.#log.warn(fields, "the API session could not be refreshed");
      if (!this.#isClosed) this.#scheduleRefresh(new Date().toISOString());
    }
  }

  #refused(cause: unknown): AuthenticationError {
    const [code, text] =
      cause instanceof ApiError && cause.status === 401
        ? [
            "CREDENTIALS_REFUSED",
            `${this.#controllerUrl} does not accept this identity: ${cause.message}; was it deleted or disabled? Enroll again`,
          ]
        : ["CONTROLLER_UNREACHABLE", `cannot log in at ${this.#controllerUrl}: ${errorText(cause)}`];
    return new AuthenticationError(code, text, { cause });
  }
}
