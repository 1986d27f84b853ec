import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { open, readFile, stat } from "node:fs/promises";
import { type Kysely, sql } from "kysely";
import type { EngineTables } from "./schema.ts";

/** The secret key is missing, malformed or wrong, or a sealed value was changed. The message says which and what to do; it never holds a secret. */
export class SecretsError extends Error {
  override name = "SecretsError";
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FORMAT = 1;
const KEY_ID_BYTES = 4;
const HEADER_BYTES = 1 + KEY_ID_BYTES;

/** The environment variable that holds the key (base64 of 32 bytes) where no file is wanted. */
export const SECRET_KEY_VARIABLE = "SALLYPORT_SECRET_KEY";

/**
 * Seals what must not lie in the store in the clear: private keys, TOTP secrets. AES-256-GCM under one key that the operator keeps outside the database (a file
 * of mode 0600, or the environment).
 *
 * A box is: format byte 1, 4 bytes that identify the key, 12 bytes nonce, ciphertext, 16 bytes tag. The context (for example
 * `totp:<identity id>`) is authenticated too, so a box copied to another row does not open there.
 */
export class Secrets {
  readonly #key: Buffer;
  readonly #keyId: Buffer;

  /** @param key 32 bytes. */
  constructor(key: Uint8Array) {
    if (key.length !== KEY_BYTES) {
      throw new SecretsError(`the secret key must be ${KEY_BYTES} bytes, found ${key.length}`);
    }
    this.#key = Buffer.from(key);
    this.#keyId = keyId(this.#key);
  }

  encrypt(plain: Uint8Array | string, context: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const header = Buffer.concat([Buffer.of(FORMAT), this.#keyId]);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(
      Buffer.concat([header, Buffer.from(context)]),
    );
    const body = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([header, nonce, body, cipher.getAuthTag()]);
  }

  /** @throws SecretsError when the box was made under another key, for another context, or was changed. */
  decrypt(box: Uint8Array, context: string): Buffer {
    const bytes = Buffer.from(box.buffer, box.byteOffset, box.byteLength);
    if (bytes.length < HEADER_BYTES + NONCE_BYTES + TAG_BYTES || bytes[0] !== FORMAT) {
      throw new SecretsError(`the sealed value of "${context}" is malformed: expected a box of format ${FORMAT}`);
    }
    const header = bytes.subarray(0, HEADER_BYTES);
    if (!header.subarray(1).equals(this.#keyId)) {
      throw new SecretsError(
        `the sealed value of "${context}" was made under another secret key: start with the key file (or ${SECRET_KEY_VARIABLE}) that belongs to this database`,
      );
    }
    const nonce = bytes.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
    const body = bytes.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES);
    const decipher = createDecipheriv("aes-256-gcm", this.#key, nonce)
      .setAAD(Buffer.concat([header, Buffer.from(context)]))
      .setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(body), decipher.final()]);
    } catch {
      throw new SecretsError(
        `the sealed value of "${context}" was changed, or belongs to another entry: restore it from a backup`,
      );
    }
  }

  /**
   * Proves to a holder of the same key that this controller has it and says `text`: HMAC-SHA256 of it, base64, under a key that HKDF-SHA256 (no salt)
   * derives for `purpose`.
   */
  prove(text: string, purpose: string): string {
    const derived = new Uint8Array(hkdfSync("sha256", this.#key, "", purpose, KEY_BYTES));
    return createHmac("sha256", derived).update(text).digest("base64");
  }

  decryptText(box: Uint8Array, context: string): string {
    return this.decrypt(box, context).toString("utf8");
  }
}

// A public name of the key: four bytes of an encryption of zeros under it, which tell keys apart and nothing about them.
function keyId(key: Buffer): Buffer {
  return createCipheriv("aes-256-ecb", key, null).update(Buffer.alloc(16)).subarray(0, KEY_ID_BYTES);
}

/** A new key as it stands in a key file: base64 of 32 random bytes. */
export function newSecretKey(): string {
  return randomBytes(KEY_BYTES).toString("base64");
}

/** Writes a new key file of mode 0600. An existing file is never replaced. @returns whether a file was made. */
export async function createSecretKeyFile(path: string): Promise<boolean> {
  try {
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(`${newSecretKey()}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/**
 * The key from the environment variable `SALLYPORT_SECRET_KEY` if set, else from `file`. @throws SecretsError when neither exists, when the text is not
 * base64 of 32 bytes, or when others may read the file (the group may, if the file is root's and the program runs as another user)
 */
export async function loadSecrets(file: string | undefined, env: NodeJS.ProcessEnv = process.env): Promise<Secrets> {
  const fromEnvironment = env[SECRET_KEY_VARIABLE];
  if (fromEnvironment) return new Secrets(parseKey(fromEnvironment, `environment variable ${SECRET_KEY_VARIABLE}`));
  if (file === undefined) {
    throw new SecretsError(`no secret key: set secretKeyFile in the configuration, or ${SECRET_KEY_VARIABLE}`);
  }
  let text: string;
  try {
    const { mode, uid } = await stat(file);
    if ((mode & othersThan(uid)) !== 0) {
      throw new SecretsError(
        `the secret key file ${file} may be read by others (mode ${(mode & 0o777).toString(8)}): run chmod 600 ${file}`,
      );
    }
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof SecretsError) throw error;
    throw new SecretsError(
      `cannot read the secret key file ${file} (${(error as NodeJS.ErrnoException).code}): it was made by init and must be kept; without it the keys in the database cannot be opened`,
    );
  }
  return new Secrets(parseKey(text, `secret key file ${file}`));
}

// Files of Kubernetes Secrets belong to root, and the program reads them as a member of their group.
function othersThan(owner: number): number {
  return owner === 0 && process.getuid?.() !== 0 ? 0o037 : 0o077;
}

function parseKey(text: string, where: string): Buffer {
  const trimmed = text.trim();
  const key = /^[A-Za-z0-9+/_-]+={0,2}$/.test(trimmed) ? Buffer.from(trimmed, "base64") : Buffer.alloc(0);
  if (key.length !== KEY_BYTES) {
    throw new SecretsError(`the ${where} must hold base64 of ${KEY_BYTES} bytes, as init writes it`);
  }
  return key;
}

/** The context of a {@link KeyVault}'s value. */
export function vaultContext(name: string): string {
  return `secret:${name}`;
}

/** Named values that lie sealed in the store: the network's private keys, for example. The name is bound into each box. */
export class KeyVault {
  readonly #db: Kysely<EngineTables>;
  readonly #secrets: Secrets;

  /** @param db a store's `db`, or a transaction. */
  constructor(db: Pick<Kysely<EngineTables>, "getExecutor">, secrets: Secrets) {
    this.#db = db as Kysely<EngineTables>;
    this.#secrets = secrets;
  }

  /** The value as it was saved (JSON), or undefined. @throws SecretsError when the key is wrong or the box was changed. */
  async load<T>(name: string): Promise<T | undefined> {
    const { rows } = await sql<{ box: Buffer }>`SELECT box FROM secret WHERE name = ${name}`.execute(this.#db);
    const box = rows[0]?.box;
    return box === undefined ? undefined : (JSON.parse(this.#secrets.decryptText(box, vaultContext(name))) as T);
  }

  /** The values whose names begin with `prefix`, by the rest of their names. @throws SecretsError as {@link load} */
  async loadAll<T>(prefix: string): Promise<Map<string, T>> {
    const { rows } = await sql<{ name: string; box: Buffer }>`
      SELECT name, box FROM secret WHERE starts_with(name, ${prefix}) ORDER BY name`.execute(this.#db);
    const open = (name: string, box: Buffer) => JSON.parse(this.#secrets.decryptText(box, vaultContext(name))) as T;
    return new Map(rows.map(({ name, box }) => [name.slice(prefix.length), open(name, box)]));
  }

  /** Saves a value, in place of an older one. */
  async save(name: string, value: unknown): Promise<void> {
    const box = this.#secrets.encrypt(JSON.stringify(value), vaultContext(name));
    await sql`INSERT INTO secret (name, box) VALUES (${name}, ${box})
      ON CONFLICT (name) DO UPDATE SET box = excluded.box, updated_at = now()`.execute(this.#db);
  }
}
