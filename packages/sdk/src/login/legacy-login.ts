import { type ApiCredential, ApiError } from "@sallyport/api/client";
import { errorText } from "@sallyport/async";
import { createCsr, createKeyPair, type Identity, identityFromPem } from "@sallyport/wire";
import { withTrust } from "../identity-file.ts";
import {
  type ClientApi,
  type HeldLogin,
  type LoginEvents,
  type LoginParts,
  type LoginResult,
  programInfo,
} from "./login.ts";

const MIN_REFRESH_MS = 10_000;
const MAX_REFRESH_MS = 10 * 60_000;

/** Logs in by `authenticate`: the session has one token, and lives as long as it is used. @throws ApiError, ApiTransportError, AuthenticationError */
export async function legacyLogin(parts: LoginParts): Promise<HeldLogin> {
  const { credentials, configTypes, factors } = parts;
  const api = parts.api();
  const { kind } = credentials;
  const names = kind === "password" ? { username: credentials.username, password: credentials.password } : {};
  const headers: Record<string, string> =
    kind === "external" ? { authorization: `Bearer ${await credentials.token()}` } : {};
  const method = kind === "certificate" ? "cert" : kind === "password" ? "password" : "ext-jwt";
  const body = { configTypes: [...configTypes], ...programInfo(), ...names };
  const { data } = await api.authenticate({ query: { method }, body }, { headers });
  const externalTokens: string[] = [];
  const credential: ApiCredential = { kind: "session", token: data.token, externalTokens };
  api.setCredential(credential);
  await factors.proveAll(parts.controllerUrl(), data.authQueries, async (proof) => {
    if ("code" in proof) await api.authenticateMfa({ body: proof });
    else externalTokens.push(proof.token);
    return (await api.getCurrentAPISession()).data.authQueries;
  });
  const identity =
    kind === "certificate" ? credentials.identity : await sessionCertificate(api, data.identityId, credentials.caPem);
  const identityName = data.identity.name ?? identity.id;
  const result = { kind: "legacy", token: data.token, identityId: data.identityId, identityName, identity } as const;
  return new LegacySession(parts, credential, result, data.expiresAt);
}

/** Router connections need a certificate; who logs in without one gets one for this session. */
export async function sessionCertificate(api: ClientApi, identityId: string, caPem: string): Promise<Identity> {
  const { keyPem } = await createKeyPair();
  const csr = await createCsr({ commonName: identityId, subject: { O: "Sallyport" }, keyPem });
  const { data } = await api.createCurrentApiSessionCertificate({ body: { csr } });
  return identityFromPem({ certPem: data.certificate, keyPem, caPem });
}

class LegacySession implements HeldLogin {
  readonly credential: ApiCredential;
  readonly boundIdentity = undefined;
  #result: LoginResult;
  readonly #parts: LoginParts;
  readonly #expiresAt: string;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(parts: LoginParts, credential: ApiCredential, result: LoginResult, expiresAt: string) {
    this.#parts = parts;
    this.credential = credential;
    this.#result = result;
    this.#expiresAt = expiresAt;
  }

  get result(): LoginResult {
    return this.#result;
  }

  keep(events: LoginEvents): void {
    this.#schedule(this.#expiresAt, events);
  }

  async recover(): Promise<boolean> {
    return false;
  }

  trust(caPem: string): void {
    this.#result = { ...this.#result, identity: withTrust(this.#result.identity, caPem) };
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  async end(signal: AbortSignal): Promise<void> {
    await this.#parts.api().deleteCurrentAPISession({}, { signal });
  }

  #schedule(expiresAt: string, events: LoginEvents): void {
    if (this.#isOver) return;
    const left = Date.parse(expiresAt) - Date.now();
    const delay = Math.min(Math.max(left / 2 || 0, MIN_REFRESH_MS), MAX_REFRESH_MS);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#use(events), delay);
    this.#timer.unref();
  }

  async #use(events: LoginEvents): Promise<void> {
    try {
      const { data } = await this.#parts.reach(() => this.#parts.api().getCurrentAPISession());
      this.#schedule(data.expiresAt, events);
    } catch (error) {
      if (this.#isOver) return;
      if (error instanceof ApiError && error.status === 401) {
        events.onGone();
        return;
      }
      const fields = { controller: this.#parts.controllerUrl(), reason: errorText(error) };
      this.#parts.log.warn(fields, "the API session could not be refreshed");
      this.#schedule(new Date().toISOString(), events);
    }
  }
}
