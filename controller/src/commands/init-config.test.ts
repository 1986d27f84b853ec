import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError } from "@sallyport/config-file";
import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkPassword } from "../auth/password.ts";
import { requireNetworkKeys } from "../certificates/network-keys.ts";
import { openStore } from "../store/database.ts";
import { KeyVault, loadSecrets, newSecretKey } from "../store/secrets.ts";
import { testDatabase } from "../store/testing/test-store.ts";
import type { InitCommand } from "./command-line.ts";
import { AdminError, initNetwork } from "./init.ts";

let dir: string;
let database: Awaited<ReturnType<typeof testDatabase>>;
const file = () => join(dir, "controller.yml");

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-init-"));
  database = await testDatabase();
  const { user, database: name, host } = database.connection;
  const place = { bind: "0.0.0.0:1280", advertise: "ctrl.example:443" };
  const config = { api: place, ctrl: place, database: { urlFile: "url" }, secretKeyFile: "secret.key" };
  await writeFile(file(), JSON.stringify(config));
  await writeFile(join(dir, "url"), `postgres://${user}@localhost/${name}?host=${encodeURIComponent(String(host))}\n`);
  await writeFile(join(dir, "secret.key"), newSecretKey(), { mode: 0o600 });
  await writeFile(join(dir, "username"), "root-admin");
  await writeFile(join(dir, "password"), "pass word\n");
});

afterEach(async () => {
  await database.drop();
  await rm(dir, { recursive: true, force: true });
});

async function init(env: NodeJS.ProcessEnv = {}, options: Pick<InitCommand, "keyType"> = {}): Promise<string> {
  const said: string[] = [];
  const files = {
    SALLYPORT_ADMIN_USERNAME_FILE: join(dir, "username"),
    SALLYPORT_ADMIN_PASSWORD_FILE: join(dir, "password"),
  };
  await initNetwork(
    { command: "init", place: { file: file() }, ...options },
    { env: { ...files, ...env }, say: (line) => said.push(line), log: silentLogger },
  );
  return said.join("\n");
}

it("makes the network of a configuration that is there, with a database, a key and an administrator from files, and writes none", async () => {
  const before = await Promise.all((await readdir(dir)).sort().map((name) => readFile(join(dir, name), "utf8")));
  const said = await init();
  expect(said).toContain("made  the administrator root-admin");
  expect(said).not.toContain("pass word");
  expect(await Promise.all((await readdir(dir)).sort().map((name) => readFile(join(dir, name), "utf8")))).toEqual(
    before,
  );
  const store = await openStore({
    url: (await readFile(join(dir, "url"), "utf8")).trim(),
    hold: false,
    log: silentLogger,
  });
  try {
    const { password_hash } = await store.db
      .selectFrom("authenticator")
      .select("password_hash")
      .where("username", "=", "root-admin")
      .executeTakeFirstOrThrow();
    expect(await checkPassword(String(password_hash), "pass word")).toBe(true);
  } finally {
    await store.close();
  }
  expect(await init()).toContain("nothing was changed");
  // A network whose first password was removed is complete.
  await rm(join(dir, "password"));
  expect(await init()).toContain("nothing was changed");
});

it("names what is wrong with a file, and nothing of what is in it", async () => {
  await writeFile(join(dir, "url"), "mysql://geheim@h");
  const wrong = await init().catch((error: Error) => error);
  expect(wrong).toBeInstanceOf(ConfigError);
  expect(String(wrong)).toMatch(
    /:1:(?!1:)\d+: database\.urlFile: expected a file with the URL.*should hold a PostgreSQL URL/,
  );
  expect(String(wrong)).not.toContain("geheim");
  await rm(join(dir, "url"));
  await expect(init()).rejects.toThrow(/database\.urlFile.*ENOENT/);
});

it("wants a password while there is no administrator", async () => {
  await expect(init({ SALLYPORT_ADMIN_PASSWORD_FILE: join(dir, "none") })).rejects.toThrow(AdminError);
  await writeFile(join(dir, "password"), "\n");
  await expect(init()).rejects.toThrow(/SALLYPORT_ADMIN_PASSWORD_FILE is empty/);
});

it("makes the served key by the type that is asked for", async () => {
  await init({}, { keyType: "rsa" });
  const store = await openStore({
    url: (await readFile(join(dir, "url"), "utf8")).trim(),
    hold: false,
    log: silentLogger,
  });
  const secrets = await loadSecrets(join(dir, "secret.key"), {});
  const keys = await requireNetworkKeys(new KeyVault(store.db, secrets));
  await store.close();
  expect(keys.server.keyPem).toMatch(/^-----BEGIN RSA PRIVATE KEY-----/);
});
