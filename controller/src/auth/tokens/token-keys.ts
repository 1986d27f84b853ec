import { type webcrypto, X509Certificate } from "node:crypto";
import { apiError, unhandledCause } from "@sallyport/api";
import { Listeners, SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type Kysely, sql, type Transaction } from "kysely";
import type { KeyedCertificate } from "../../pki/issue.ts";
import { JwtSigner, type SigningAlgorithm } from "../../pki/jwt-signer.ts";
import { appendChange, type ChangeLog } from "../../store/changes/change-log.ts";
import type { Database } from "../../store/schema.ts";
import type { Secrets } from "../../store/secrets.ts";
import { type VerificationKey, verificationKey } from "../jwt/verification-key.ts";

/** The part of the store that tokens need. */
export interface TokenStore {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe" | "noticed">;
  transaction<T>(work: (trx: Transaction<Database>) => Promise<T>): Promise<T>;
}

/** How long tokens and the keys that sign them are good, in milliseconds. */
export interface TokenLives {
  readonly accessMs: number;
  readonly idMs: number;
  readonly refreshMs: number;
  readonly keyMs: number;
}

export interface TokenKeysOptions {
  readonly store: TokenStore;
  readonly pki: { createTokenKey(lifetimeMs: number): Promise<KeyedCertificate> };
  readonly secrets: Secrets;
  readonly lives: TokenLives;
  readonly now: () => Date;
  readonly log: Logger;
}

/** A key as verifiers are told of it. */
export interface PublishedKey {
  /** Fingerprint of the certificate: SHA-1, lower-case hex. */
  readonly kid: string;
  readonly certificate: X509Certificate;
  readonly algorithm: SigningAlgorithm;
  /** As it stands in a key set: `kid`, `alg` and `use` included. */
  readonly jwk: webcrypto.JsonWebKey & { readonly kid: string };
  readonly signsFrom: Date;
  /** From then on its tokens count no more; undefined while it may still sign. */
  readonly endsAt: Date | undefined;
}

interface HeldKey extends PublishedKey {
  readonly signer: JwtSigner;
  readonly verification: VerificationKey;
}

/** So long a new key is published before it signs, so that every router and client knows it then. */
export const PUBLISH_MS = 15 * 60_000;
/** So long a key outlives the last token that it can have signed, besides year-long service tokens, which are signed again when a client asks. */
const GRACE_MS = 60 * 60_000;
const LOCK = "token-keys";

/**
 * The keys that sign the network's tokens: one at a time for all controllers of a database, the former ones until their tokens have ended. Their rows hold
 * the private keys sealed. Source: docs/protocol/authentication.md, "Token keys".
 */
export class TokenKeys {
  readonly #options: TokenKeysOptions;
  readonly #listeners = new Listeners();
  readonly #reading = new SerialQueue();
  /** By `kid`, in the order in which they begin to sign. */
  #keys: ReadonlyMap<string, HeldKey> = new Map();
  /** Removed, while the keys that are left or new are read. */
  readonly #removed = new Set<string>();
  /** Counts what makes a read that has begun out of date. */
  #wanted = 0;
  /** How far the keys are read. */
  #read = 0;
  #unsubscribe: (() => void) | undefined;

  constructor(options: TokenKeysOptions) {
    this.#options = options;
  }

  /** Loads the keys and follows them. A database without a key gets its first one. */
  async start(): Promise<void> {
    const { store } = this.#options;
    this.#unsubscribe ??= store.changes.subscribe({
      name: "token keys",
      isPrompt: true,
      onChanges: async (rows) => {
        const own = rows.filter((row) => row.kind === "token_key");
        for (const { key } of own.filter((row) => row.op === "delete")) this.#removed.add(key);
        if (own.length > 0) await this.#load();
      },
      onReset: () => this.#load(),
    });
    await store.transaction(async (trx) => {
      await lock(trx);
      const { rows } = await sql`SELECT FROM token_key LIMIT 1`.execute(trx);
      if (rows.length === 0) await this.#add(trx, this.#options.now());
    });
    await this.#load();
  }

  /** What signs now. @throws ApiError 503 while the keys are read after all were removed */
  signer(): JwtSigner {
    const now = this.#options.now();
    const keys = this.published() as readonly HeldKey[];
    const signing = keys.findLast(({ signsFrom }) => signsFrom <= now) ?? keys[0];
    if (signing === undefined) throw noKeys();
    return signing.signer;
  }

  /** The key with which a token is checked; undefined when it is unknown, or has ended. */
  find(kid: string): VerificationKey | undefined {
    const key = this.#keys.get(kid);
    return key !== undefined && this.#counts(key) ? key.verification : undefined;
  }

  /** Every key whose tokens count, or will. */
  published(): readonly PublishedKey[] {
    return [...this.#keys.values()].filter((key) => this.#counts(key));
  }

  /** {@link published}, for those that need one. @throws ApiError 503 as {@link signer} */
  requirePublished(): readonly PublishedKey[] {
    const keys = this.published();
    if (keys.length === 0) throw noKeys();
    return keys;
  }

  /** Calls `listener` after the keys have changed. @returns how to stop */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Makes the next key when the present one has signed for long enough. @returns whether it did */
  async rotateIfDue(): Promise<boolean> {
    const { store, lives, now } = this.#options;
    const isDue = (newest: Date | undefined) =>
      newest === undefined || newest.getTime() + lives.keyMs - PUBLISH_MS <= now().getTime();
    if (!isDue([...this.#keys.values()].at(-1)?.signsFrom)) return false;
    return store.transaction(async (trx) => {
      await lock(trx);
      const { rows } = await sql<{ newest: Date | null }>`SELECT max(signs_from) AS newest FROM token_key`.execute(trx);
      if (!isDue(rows[0]?.newest ?? undefined)) return false;
      await this.#add(trx, new Date(now().getTime() + PUBLISH_MS));
      return true;
    });
  }

  /**
   * Makes the next key now. `atOnce`, for a key that others may know: the new one signs at once, and no token of a former one counts any more.
   * @returns the new key's id, and since when it signs
   */
  async rotate({ atOnce }: { readonly atOnce: boolean }): Promise<{ readonly kid: string; readonly signsFrom: Date }> {
    const { store, now } = this.#options;
    return store.transaction(async (trx) => {
      await lock(trx);
      const signsFrom = new Date(now().getTime() + (atOnce ? 0 : PUBLISH_MS));
      const kid = await this.#add(trx, signsFrom);
      if (atOnce) await removeKeys(trx, sql`kid <> ${kid}`);
      return { kid, signsFrom };
    });
  }

  /** Removes keys whose time is over. @returns how many */
  sweep(): Promise<number> {
    const { store, now } = this.#options;
    return store.transaction((trx) => removeKeys(trx, sql`ends_at <= ${now()}`));
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#listeners.clear();
  }

  #counts({ kid, endsAt }: PublishedKey): boolean {
    return !this.#removed.has(kid) && (endsAt === undefined || endsAt > this.#options.now());
  }

  /** Resolves when all that was committed before this call is known. */
  #load(): Promise<void> {
    const wanted = ++this.#wanted;
    return this.#reading.run(async () => {
      while (this.#read < wanted) {
        const reads = this.#wanted;
        const rows = await this.#options.store.db.selectFrom("token_key").selectAll().orderBy("signs_from").execute();
        // A key may have been removed while it was read.
        if (reads !== this.#wanted) continue;
        this.#read = reads;
        this.#keys = new Map(rows.map((row) => [row.kid, this.#held(row)]));
        this.#removed.clear();
        this.#listeners.emit();
      }
    });
  }

  #held(row: { kid: string; cert_pem: string; key_box: Buffer; signs_from: Date; ends_at: Date | null }): HeldKey {
    const { kid, cert_pem: certPem } = row;
    const keyPem = this.#options.secrets.decryptText(row.key_box, boxContext(kid));
    const signer = new JwtSigner({ certPem, keyPem });
    const certificate = new X509Certificate(certPem);
    const { algorithm } = signer;
    const jwk = { ...certificate.publicKey.export({ format: "jwk" }), kid, alg: algorithm, use: "sig" };
    const verification = verificationKey(certificate.publicKey, algorithm);
    const endsAt = row.ends_at ?? undefined;
    return { kid, certificate, algorithm, jwk, signsFrom: row.signs_from, endsAt, signer, verification };
  }

  /** Adds a key; those before it end when their last token does. */
  async #add(trx: Transaction<Database>, signsFrom: Date): Promise<string> {
    const { pki, secrets, lives } = this.#options;
    const lastToken = Math.max(lives.accessMs, lives.idMs, lives.refreshMs);
    const { certPem, keyPem } = await pki.createTokenKey(lives.keyMs + PUBLISH_MS + lastToken + GRACE_MS);
    const { algorithm, kid } = new JwtSigner({ certPem, keyPem });
    const former = await trx
      .updateTable("token_key")
      .set({ ends_at: new Date(signsFrom.getTime() + lastToken + GRACE_MS) })
      .where("ends_at", "is", null)
      .returning("kid")
      .execute();
    const key_box = secrets.encrypt(keyPem, boxContext(kid));
    await trx
      .insertInto("token_key")
      .values({ kid, cert_pem: certPem, key_box, algorithm, signs_from: signsFrom })
      .execute();
    await appendChange(
      trx,
      { kind: "token_key", key: kid, op: "create" },
      ...former.map((row) => ({ kind: "token_key", key: row.kid, op: "update" }) as const),
    );
    return kid;
  }
}

/** Holds until the end of the transaction: the keys are changed by one program at a time. */
async function lock(trx: Transaction<Database>): Promise<void> {
  await sql`INSERT INTO setting (name, value) VALUES (${LOCK}, 'true'::jsonb)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value`.execute(trx);
}

async function removeKeys(trx: Transaction<Database>, condition: ReturnType<typeof sql<boolean>>): Promise<number> {
  const { rows } = await sql<{ kid: string }>`DELETE FROM token_key WHERE ${condition} RETURNING kid`.execute(trx);
  await appendChange(trx, ...rows.map(({ kid }) => ({ kind: "token_key", key: kid, op: "delete" }) as const));
  return rows.length;
}

/** After every key was withdrawn at once. */
function noKeys() {
  const reason = "the keys that sign tokens are being replaced: try again";
  return apiError("TIMEOUT", unhandledCause(reason), { headers: { "retry-after": "1" } });
}

function boxContext(kid: string): string {
  return `token-key:${kid}`;
}
