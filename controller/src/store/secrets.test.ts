import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createSecretKeyFile,
  KeyVault,
  loadSecrets,
  newSecretKey,
  SECRET_KEY_VARIABLE,
  Secrets,
  SecretsError,
} from "./secrets.ts";
import { type TestStore, testStore } from "./testing/test-store.ts";

const key = () => Buffer.from(newSecretKey(), "base64");

describe("sealed values", () => {
  const secrets = new Secrets(key());

  it("open with the key and context they were made with, and differ every time", () => {
    const a = secrets.encrypt("hush", "totp:1");
    const b = secrets.encrypt("hush", "totp:1");
    expect(a.equals(b)).toBe(false);
    expect(a.includes("hush")).toBe(false);
    expect(secrets.decryptText(a, "totp:1")).toBe("hush");
    expect(secrets.decrypt(secrets.encrypt(Buffer.of(0, 255), "x"), "x")).toEqual(Buffer.of(0, 255));
  });

  it("do not open after any byte was changed", () => {
    const box = secrets.encrypt("hush", "x");
    for (let at = 0; at < box.length; at++) {
      const changed = Buffer.from(box);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => secrets.decrypt(changed, "x")).toThrow(SecretsError);
    }
    expect(() => secrets.decrypt(box.subarray(0, 20), "x")).toThrow("malformed");
    expect(() => secrets.decrypt(Buffer.alloc(0), "x")).toThrow("malformed");
  });

  it("do not open in another place or with another key, and say which it was", () => {
    const box = secrets.encrypt("hush", "totp:1");
    expect(() => secrets.decrypt(box, "totp:2")).toThrow("was changed, or belongs to another entry");
    expect(() => new Secrets(key()).decrypt(box, "totp:1")).toThrow("was made under another secret key");
  });
});

describe("the secret key", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "sallyport-secrets-"));
  });
  afterAll(() => rm(dir, { recursive: true }));

  it("is made once, for its owner only", async () => {
    const file = join(dir, "secret.key");
    expect(await createSecretKeyFile(file)).toBe(true);
    const text = await readFile(file, "utf8");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await createSecretKeyFile(file)).toBe(false);
    expect(await readFile(file, "utf8")).toBe(text);
    const box = (await loadSecrets(file, {})).encrypt("a", "b");
    expect((await loadSecrets(undefined, { [SECRET_KEY_VARIABLE]: text })).decryptText(box, "b")).toBe("a");
  });

  it("is refused when others may read it, when it is malformed, when there is none; never shown", async () => {
    const open = join(dir, "open.key");
    await createSecretKeyFile(open);
    await chmod(open, 0o640);
    await expect(loadSecrets(open, {})).rejects.toThrow(/may be read by others \(mode 640\).*chmod 600/);
    const bad = join(dir, "bad.key");
    await writeFile(bad, "notAKeyAtAll", { mode: 0o600 });
    const error = await loadSecrets(bad, {}).catch((e: Error) => e);
    expect(error).toBeInstanceOf(SecretsError);
    expect(String(error)).toContain("base64 of 32 bytes");
    expect(String(error)).not.toContain("notAKeyAtAll");
    await expect(loadSecrets(join(dir, "none.key"), {})).rejects.toThrow("ENOENT");
    await expect(loadSecrets(undefined, {})).rejects.toThrow("no secret key");
    await expect(loadSecrets(undefined, { [SECRET_KEY_VARIABLE]: "short" })).rejects.toThrow(SECRET_KEY_VARIABLE);
  });
});

describe("the key vault", () => {
  let test: TestStore;
  beforeAll(async () => {
    test = await testStore();
  });
  afterAll(() => test.drop());

  it("keeps values sealed in the store", async () => {
    const vault = new KeyVault(test.store.db, new Secrets(key()));
    expect(await vault.load("pki")).toBeUndefined();
    await vault.save("pki", { keyPem: "top secret" });
    await vault.save("pki", { keyPem: "top secret 2" });
    expect(await vault.load("pki")).toEqual({ keyPem: "top secret 2" });
    const [row, ...more] = await test.store.db.selectFrom("secret").selectAll().execute();
    expect(more).toEqual([]);
    expect(row!.box.includes("secret")).toBe(false);
    await expect(new KeyVault(test.store.db, new Secrets(key())).load("pki")).rejects.toThrow("another secret key");
    await test.store.db.updateTable("secret").set({ name: "other" }).execute();
    await expect(vault.load("other")).rejects.toThrow("belongs to another entry");
  });
});
