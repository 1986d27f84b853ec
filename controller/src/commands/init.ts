import { createHash } from "node:crypto";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import {
  type ControllerConfig,
  type NewControllerConfig,
  readControllerConfig,
  readControllerConfigFile,
  writeControllerConfig,
} from "@sallyport/controller-config";
import { makeFolder } from "@sallyport/program/make-folder";
import { hashPassword } from "../auth/password.ts";
import { loadNetworkKeys, saveNetworkKeys } from "../certificates/network-keys.ts";
import { lifetimes, networkHosts, secretKeyFile, storeLocation } from "../config/settings.ts";
import { hasAdmin, seed, seedAdmin } from "../model/seeds.ts";
import { createPkiMaterial } from "../pki/material.ts";
import { openStore, type Store, type StoreOptions } from "../store/database.ts";
import { isReachable } from "../store/postgres/postgres-binaries.ts";
import { postgresUser } from "../store/postgres/postgres-process.ts";
import { createSecretKeyFile, KeyVault, loadSecrets, SECRET_KEY_VARIABLE, type Secrets } from "../store/secrets.ts";
import type { CommandContext, GivenFile, InitCommand, NewFolder } from "./command-line.ts";
import { readCa } from "./open-beside.ts";
import { generatedPassword } from "./password.ts";

const CONFIG_FILE = "controller.yml";
const KEY_FILE = "secret.key";
const CONTROLLER_ID = "controller";
const DEFAULT_ADMIN = "admin";
const KEYS = "certificate authority and the controller's certificates";
const KEPT_ADMIN = "the administrator, with the password as it was";

/** An administrator's name or password that the API would not accept, or that cannot be read. */
export class AdminError extends Error {
  override name = "AdminError";
  /** Its file cannot be read, which is no fault where there is an administrator already. */
  readonly isOfFile: boolean;

  constructor(message: string, isOfFile = false) {
    super(message);
    this.isOfFile = isOfFile;
  }
}

/**
 * Makes a network: folder, secret key, database with schema and seeds, keys and certificates, administrator, `controller.yml`. Each step keeps what exists:
 * a second call changes nothing, and a call after a failure continues where that ended.
 */
export async function initNetwork(command: InitCommand, { env, say, log }: CommandContext): Promise<void> {
  const admin = await adminFrom(env).catch((error: AdminError) => error);
  if (admin instanceof AdminError && !admin.isOfFile) throw admin;
  const { file, text } = await configurationOf(command.place);
  const made: string[] = [];
  const report = (was: boolean, what: string) => {
    if (was) made.push(what);
    say(`${was ? "made" : "kept"}  ${what}`);
  };

  const { config, placeOf } =
    text === undefined ? await readControllerConfigFile(file, env) : readControllerConfig(text, file, env);
  if (text === undefined) say(`kept  ${file} (its settings hold; options of this command that differ are ignored)`);

  const keyFile = secretKeyFile(config, file);
  if (keyFile !== undefined && !env[SECRET_KEY_VARIABLE]) {
    report(
      await createSecretKeyFile(keyFile),
      `${keyFile} (the secret key: keep a copy, without it the database is useless)`,
    );
  }
  const secrets = await loadSecrets(keyFile, env);
  const location = storeLocation(config, file, placeOf);
  const makeInDatabase = async (store: Store) => {
    try {
      const vault = new KeyVault(store.db, secrets);
      const known = await loadNetworkKeys(vault);
      report(known === undefined, describeDatabase(location));
      if (known === undefined) await makeKeys(config, vault, command, new Date(store.clock.now()));
      report(known === undefined, KEYS);
      await seed(store);
      await makeAdmin(store, admin, report, say);
    } finally {
      await store.close();
    }
  };
  const others = config.replica.id !== undefined && location.embedded === undefined;
  if (others && (await isMade({ ...location, log }, secrets))) {
    // The others may be at work: their database is not taken from them.
    for (const what of [describeDatabase(location), KEYS, KEPT_ADMIN]) report(false, what);
  } else {
    await makeInDatabase(await openStore({ ...location, log }));
  }

  if (text !== undefined) {
    await writeFile(file, text, { flag: "wx", mode: 0o600 });
    report(true, file);
  }
  say(
    made.length === 0
      ? `Nothing had to be done: the network in ${dirname(file)} was complete, and nothing was changed.`
      : `The network in ${dirname(file)} is ready.`,
  );
  say(`Start it with: sallyport-controller run ${file}`);
}

/** Is there a network in the database? What is missing of it is only made by a process that has the database for itself. */
async function isMade(location: StoreOptions, secrets: Secrets): Promise<boolean> {
  const store = await openStore({ ...location, hold: false });
  try {
    return (await loadNetworkKeys(new KeyVault(store.db, secrets))) !== undefined && (await hasAdmin(store));
  } finally {
    await store.close();
  }
}

/** The configuration's file, and its text where it is still to be written. */
async function configurationOf(place: NewFolder | GivenFile): Promise<{ file: string; text?: string }> {
  if ("file" in place) return { file: resolve(place.file) };
  const dir = resolve(place.dir);
  await makeFolder(dir);
  const file = join(dir, CONFIG_FILE);
  const exists = await access(file).then(
    () => true,
    () => false,
  );
  return exists ? { file } : { file, text: await newConfigText(place, dir) };
}

async function newConfigText(place: NewFolder, dir: string): Promise<string> {
  const { host, apiPort, ctrlPort, databaseUrl } = place;
  const at = (port: number) => ({ bind: { host: "", port }, advertise: { host, port } });
  const config: NewControllerConfig = {
    api: at(apiPort),
    ctrl: at(ctrlPort),
    database:
      databaseUrl === undefined ? { dir: await chooseDataFolder(dir) } : { url: databaseUrl.replaceAll("$", "%24") },
    secretKeyFile: KEY_FILE,
  };
  return writeControllerConfig(config);
}

async function makeKeys(
  config: ControllerConfig,
  vault: KeyVault,
  { imported, keyType }: Pick<InitCommand, "imported" | "keyType">,
  now: Date,
): Promise<void> {
  const material = await createPkiMaterial({
    controllerId: CONTROLLER_ID,
    now,
    hosts: networkHosts(config, CONTROLLER_ID),
    lifetimes: lifetimes(config),
    ...(imported && { imported: await readCa(imported) }),
    serverKeyType: keyType,
  });
  await saveNetworkKeys(vault, material);
}

type Admin = Awaited<ReturnType<typeof adminFrom>>;

async function makeAdmin(
  store: Store,
  admin: Admin | AdminError,
  report: (was: boolean, what: string) => void,
  say: (line: string) => void,
): Promise<void> {
  if (admin instanceof AdminError) {
    if (!(await hasAdmin(store))) throw admin;
    report(false, KEPT_ADMIN);
    return;
  }
  const { username, password, isGenerated } = admin;
  const passwordHash = await hashPassword(password);
  const id = await seedAdmin(store, { name: "Default Admin", username, passwordHash });
  if (id === undefined) {
    report(false, KEPT_ADMIN);
    return;
  }
  report(true, `the administrator ${username}`);
  if (isGenerated) say(`      password: ${password}   (shown this once; change it with the CLI or the Management API)`);
}

async function adminFrom(env: NodeJS.ProcessEnv) {
  const username = (await setting(env, "SALLYPORT_ADMIN_USERNAME")) ?? DEFAULT_ADMIN;
  const given = await setting(env, "SALLYPORT_ADMIN_PASSWORD");
  check("SALLYPORT_ADMIN_USERNAME", username, 4);
  if (given !== undefined) check("SALLYPORT_ADMIN_PASSWORD", given, 5);
  return { username, password: given ?? generatedPassword(), isGenerated: given === undefined };
}

/** A variable's value, or the content of the file that `<variable>_FILE` names, without the line's end. */
async function setting(env: NodeJS.ProcessEnv, variable: string): Promise<string | undefined> {
  const file = env[`${variable}_FILE`];
  if (!file) return env[variable] || undefined;
  try {
    const text = (await readFile(file, "utf8")).replace(/\r?\n$/, "");
    if (text !== "") return text;
  } catch (error) {
    throw new AdminError(`the file of ${variable}_FILE cannot be read: ${(error as NodeJS.ErrnoException).code}`, true);
  }
  throw new AdminError(`the file of ${variable}_FILE is empty`);
}

function check(variable: string, value: string, minLength: number): void {
  const length = [...value].length;
  if (length < minLength || length > 100) {
    throw new AdminError(`${variable} must have ${minLength} to 100 characters, it has ${length}`);
  }
}

function describeDatabase(location: ReturnType<typeof storeLocation>): string {
  return location.embedded
    ? `database in ${location.embedded.dir} (embedded PostgreSQL)`
    : "database at the given URL: schema";
}

const OPEN_PARENT = "/var/lib/sallyport";

/**
 * The folder for a new embedded database, as it is written in the configuration: `database` below `dir`. Where another user must run PostgreSQL (because
 * the command runs as root) and cannot enter `dir`, a folder below /var/lib/sallyport that is named after it.
 */
async function chooseDataFolder(dir: string): Promise<string> {
  const user = await postgresUser();
  if (!user || (await isReachable(dir, user))) return "database";
  const name = `${basename(dir)}-${createHash("sha256").update(dir).digest("hex").slice(0, 8)}`;
  const elsewhere = join(OPEN_PARENT, name);
  await mkdir(dirname(elsewhere), { recursive: true, mode: 0o755 });
  return elsewhere;
}
