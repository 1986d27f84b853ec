import { type ApiCredential, ApiError, ApiTransportError, announcedOidc, listAll } from "@sallyport/api/client";
import { errorText, jittered, outsideDates } from "@sallyport/async";
import type { Identity, Logger, PrecedenceName } from "@sallyport/wire";
import { ControllerSet } from "./controller-set.ts";
import { AuthenticationError, ControllerError, SdkError } from "./errors.ts";
import type { LoadedIdentity } from "./identity-file.ts";
import { legacyLogin } from "./login/legacy-login.ts";
import {
  answersSomething,
  type ClientApi,
  clientOf,
  type HeldLogin,
  identityOf,
  type LoginCredentials,
  type LoginResult,
  trustOf,
} from "./login/login.ts";
import { oidcLogin } from "./login/oidc-login.ts";
import type { SecondFactors } from "./login/second-factors.ts";
import { type RouterAddress, routerAddresses } from "./router-address.ts";

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

/**
 * What the API's client throws, as an error of the SDK; other errors stay what they are.
 *
 * @internal
 */
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

/** `close` does not wait longer for a silent controller. */
const LOGOUT_MS = 3_000;
/** How often the network is asked which controllers it has. */
const LEARN_MS = 10 * 60_000;
/** Longer than any call: then nothing is under way any more at a client that was replaced. */
const REPLACED_CLIENT_MS = 30_000;

/** What the controller refused, by kind of credentials, and what the user can do about it. */
const REFUSED: Record<LoginCredentials["kind"], readonly [what: string, hint: string]> = {
  certificate: ["this identity", "was it deleted or disabled? Enroll again"],
  password: ["this username and password", "check both; the controller also refuses a disabled or locked identity"],
  external: ["this token", "has it ended, is its signer enabled, and is its subject the external id of an identity?"],
};

interface ApiSessionOptions {
  /** `https://host:port`, one at least; the others of the network are learned from it. */
  readonly controllerUrls: readonly string[];
  readonly credentials: LoginCredentials;
  readonly configTypes: readonly string[];
  readonly factors: SecondFactors;
  readonly log: Logger;
  /** Called when the session goes on with another token, which routers have to learn. */
  readonly onToken: (token: string) => void;
  /** Called when the controller ended the session: everything that used its token is void. */
  readonly onReplaced: () => void;
  /** Reads the identity again, which may have been renewed where it is kept. */
  readonly newest?: (() => Promise<LoadedIdentity>) | undefined;
}

/**
 * The session with the controller: logs in when it is first needed, by OpenID Connect where the controller announces it, keeps the session alive, and logs in again
 * when the controller no longer knows it.
 *
 * @internal
 */
export class ApiSession {
  #api: ClientApi;
  /** What the calls of `#api` come with. */
  #caller: Identity | undefined;
  #credentials: LoginCredentials;
  readonly #o: ApiSessionOptions;
  readonly #controllers: ControllerSet;
  #learning: NodeJS.Timeout | undefined;
  readonly #log: Logger;
  #lastUnreadable = "";
  #login: Promise<LoginResult> | undefined;
  #held: HeldLogin | undefined;
  readonly #replaced = new Map<ClientApi, NodeJS.Timeout>();
  /** A session was given up: a kept one would be that same one. */
  #hasDropped = false;
  #isClosed = false;

  constructor(o: ApiSessionOptions) {
    this.#o = o;
    this.#log = o.log;
    this.#caller = identityOf(o.credentials);
    this.#controllers = new ControllerSet(o.controllerUrls, o.log);
    this.#api = clientOf(this.#controllers.current, trustOf(o.credentials), this.#caller);
    this.#credentials = o.credentials;
  }

  /** The current login, as it is now; logs in when there is none. @throws AuthenticationError */
  async login(): Promise<LoginResult> {
    const first = await this.#begun();
    return this.#held?.result ?? first;
  }

  #begun(): Promise<LoginResult> {
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
    const login = this.#begun();
    await login;
    const held = this.#held;
    const credential = held?.credential;
    try {
      return await this.#ask(work);
    } catch (error) {
      if (!isUnauthorized(error)) throw error;
    }
    if (held !== undefined && (await this.#isRecovered(held, credential))) {
      try {
        return await this.#ask(work);
      } catch (error) {
        if (!isUnauthorized(error)) throw error;
      }
    }
    // Of several calls that find the session gone, one starts over.
    if (this.#login === login) this.#drop();
    await this.#begun();
    return await this.#ask(work);
  }

  /** Calls a controller that answers. A call that is withdrawn from one that hangs ends with its client. */
  async #ask<T>(work: (api: ClientApi) => Promise<T>): Promise<T> {
    return await this.#reach(async () => {
      try {
        return await work(this.#api);
      } catch (error) {
        // A connection that was kept alive may have ended meanwhile, with the controller's restart for example.
        if (error instanceof ApiTransportError && this.#controllers.all.length === 1) return await work(this.#api);
        throw error;
      }
    });
  }

  async #reach<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return await this.#controllers.reach(work, {
      answers: (controller) => answersSomething(controller, trustOf(this.#credentials)),
      onSwitch: (isHanging) => {
        const former = this.#api;
        this.#callAs(this.#caller);
        if (isHanging) this.#end(former);
        this.#learnSoon();
      },
    });
  }

  /** Asks which controllers the network has now, at once and then from time to time. */
  #learnSoon(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#learning);
    this.#learning = setTimeout(() => this.#learnSoon(), jittered(LEARN_MS, [0.9, 1.1]));
    this.#learning.unref();
    const api = this.#api;
    listAll((query) => api.listControllers({ query })).then(
      (listed) => {
        const { current } = this.#controllers;
        this.#controllers.learn(listed);
        if (!this.#isClosed && this.#controllers.current !== current) this.#callAs(this.#caller);
      },
      (error: unknown) => this.#log.debug({ reason: errorText(error) }, "the controllers of the network are not known"),
    );
  }

  /** Of several calls whose credential was refused, the first renews it. */
  async #isRecovered(held: HeldLogin, refused: ApiCredential | undefined): Promise<boolean> {
    if (this.#held !== held) return false;
    return held.credential !== refused || (await held.recover());
  }

  /**
   * Takes an identity that was renewed where it is kept: its address and trust at once, its certificate for the next login,
   * because routers know a session by the certificate that it began with. An unreadable one is logged, and the former stays.
   */
  async renew(): Promise<void> {
    const credentials = this.#credentials;
    if (this.#o.newest === undefined || credentials.kind !== "certificate") return;
    try {
      const { controllerUrls, identity } = await this.#o.newest();
      this.#lastUnreadable = "";
      const { certPem, keyPem, caPem } = credentials.identity;
      const isSame = identity.certPem === certPem && identity.keyPem === keyPem && identity.caPem === caPem;
      // A concurrent renewal may have been first.
      if (this.#isClosed || this.#credentials !== credentials) return;
      const hasMoved = this.#controllers.configure(controllerUrls);
      if (!isSame || hasMoved) this.#take(identity);
    } catch (error) {
      const reason = errorText(error);
      if (reason !== this.#lastUnreadable) {
        this.#log.warn({ reason }, "the identity cannot be read again; the former one stays in use");
      }
      this.#lastUnreadable = reason;
    }
  }

  #take(identity: Identity): void {
    this.#credentials = { kind: "certificate", identity };
    this.#held?.trust(identity.caPem);
    // A session that is bound to a certificate goes on with it.
    this.#callAs(this.#held?.boundIdentity ?? identity);
    const fields = { controller: this.#controllers.current, identity: identity.id, validTo: identity.leaf.validTo };
    this.#log.info(fields, "the identity was read again: it was renewed");
  }

  /** Calls come with this certificate from now on; those under way end as they began. */
  #callAs(caller: Identity | undefined): void {
    const former = this.#api;
    this.#caller = caller;
    this.#api = clientOf(this.#controllers.current, trustOf(this.#credentials), caller);
    this.#api.setCredential(this.#held?.credential);
    const timer = setTimeout(() => this.#end(former), REPLACED_CLIENT_MS);
    timer.unref();
    this.#replaced.set(former, timer);
  }

  #end(former: ClientApi): void {
    clearTimeout(this.#replaced.get(former));
    this.#replaced.delete(former);
    former.close();
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

  /** Host names and IP addresses of the controllers and of the routers that this identity may use. @throws as `call` */
  async hosts(): Promise<string[]> {
    const routers = await this.#ownRouters();
    const urls = [
      ...this.#controllers.all,
      ...routers.flatMap((router) => Object.values(router.supportedProtocols ?? {})),
    ];
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
    clearTimeout(this.#learning);
    this.#login = undefined;
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) await this.#logout(held);
    this.#api.close();
    for (const former of this.#replaced.keys()) this.#end(former);
  }

  async #logout(held: HeldLogin): Promise<void> {
    held.stop();
    await held.end(AbortSignal.timeout(LOGOUT_MS)).catch((error: unknown) => {
      this.#log.debug({ reason: errorText(error) }, "logging out failed; the session ends by itself");
    });
  }

  #drop(): void {
    this.#log.info({ controller: this.#controllers.current }, "the API session is gone; logging in again");
    this.#held?.stop();
    this.#login = undefined;
    this.#held = undefined;
    this.#hasDropped = true;
    this.#o.onReplaced();
  }

  async #authenticate(): Promise<LoginResult> {
    await this.renew();
    const credentials = this.#credentials;
    const caller = identityOf(credentials);
    if (this.#caller?.certPem !== caller?.certPem) this.#callAs(caller);
    const begun = this.#reach((signal) => {
      this.#api.setCredential(undefined);
      return this.#begin(credentials, signal);
    });
    const held = await begun.catch((error: unknown) => {
      throw this.#refused(error);
    });
    const { identityName, kind } = held.result;
    this.#log.debug({ controller: this.#controllers.current, identity: identityName, kind }, "logged in");
    if (this.#isClosed) {
      // Closed while it was logging in: nothing else ends the session.
      await this.#logout(held);
      return held.result;
    }
    this.#held = held;
    const bound = held.boundIdentity ?? caller;
    if (bound?.certPem === this.#caller?.certPem) this.#api.setCredential(held.credential);
    else this.#callAs(bound);
    this.#keep(held);
    this.#learnSoon();
    return held.result;
  }

  /** The way to log in is what the controller announces now: one that does not answer is not taken for an old one. */
  async #begin(credentials: LoginCredentials, signal: AbortSignal): Promise<HeldLogin> {
    const { configTypes, factors } = this.#o;
    const { data: version } = await this.#api.listVersion({}, { signal });
    const oidc = announcedOidc(version);
    const parts = {
      ...{ credentials, configTypes, factors, log: this.#log, mayResume: !this.#hasDropped },
      controllerUrl: () => this.#controllers.current,
      api: () => this.#api,
      reach: <T>(work: (signal: AbortSignal) => Promise<T>) => this.#reach(work),
    };
    return await (oidc === undefined ? legacyLogin(parts) : oidcLogin(parts, oidc, signal));
  }

  #keep(held: HeldLogin): void {
    held.keep({
      onToken: () => {
        if (this.#held !== held) return;
        this.#api.setCredential(held.credential);
        this.#o.onToken(held.result.token);
      },
      onGone: () => {
        if (this.#held !== held) return;
        this.#drop();
        this.#begun().catch((error: unknown) => {
          const fields = { controller: this.#controllers.current, reason: errorText(error) };
          this.#log.warn(fields, "a new login failed; it is tried again when it is needed");
        });
      },
    });
  }

  #refused(cause: unknown): unknown {
    if (cause instanceof AuthenticationError) return cause;
    if (isUnauthorized(cause)) {
      const [what, hint] = REFUSED[this.#credentials.kind];
      const leaf = identityOf(this.#credentials)?.leaf;
      // The controller says the same of every refusal.
      const why = (leaf && outsideDates(leaf, { name: "its certificate", renewal: "enroll again" })) ?? hint;
      const text = `${this.#controllers.current} does not accept ${what}: ${errorText(cause)}; ${why}`;
      return new AuthenticationError("CREDENTIALS_REFUSED", text, { cause });
    }
    const isAnswer = cause instanceof ApiError || cause instanceof ApiTransportError;
    const text = `cannot log in at ${this.#controllers.current}: ${errorText(cause)}`;
    return new AuthenticationError(isAnswer ? "CONTROLLER_UNREACHABLE" : "LOGIN_FAILED", text, { cause });
  }
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}
