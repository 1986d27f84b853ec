import { access } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readControllerConfigFile } from "@sallyport/controller-config";
import type pg from "pg";
import { loadNetworkKeys } from "../certificates/network-keys.ts";
import { secretKeyFile, storeLocation } from "../config/settings.ts";
import { BackupError } from "../store/backup/backup-file.ts";
import { restoreBackup, verifyBackup } from "../store/backup/restore-backup.ts";
import { writeBackup } from "../store/backup/write-backup.ts";
import { openStore } from "../store/database.ts";
import { EmbeddedPostgres } from "../store/postgres/embedded.ts";
import { HolderLock, requireUnheld } from "../store/postgres/holder-lock.ts";
import { KeyVault, loadSecrets } from "../store/secrets.ts";
import type { CommandContext } from "./command-line.ts";
import { connectionToRunning } from "./open-beside.ts";

/** `sallyport-controller backup`: also while the controller runs. @throws BackupError, EmbeddedPostgresError, ConfigError */
export async function backupNetwork(
  command: { readonly file: string; readonly backup: string },
  { env, say, log }: CommandContext,
): Promise<void> {
  const { config, placeOf } = await readControllerConfigFile(command.file, env);
  const { url, embedded } = storeLocation(config, command.file, placeOf);
  const target = resolve(command.backup);
  const write = async (connection: pg.ClientConfig) => {
    const { tables, rows, bytes } = await writeBackup({ connection, file: target, log });
    say(`wrote ${target}: ${rows} rows of ${tables} tables, ${bytes} bytes`);
    const key = secretKeyFile(config, command.file) ?? "SALLYPORT_SECRET_KEY";
    say(`The secret key (${key}) is NOT in it. Keep a copy of`);
    say("it in another place: without it the private keys in the backup cannot be opened.");
  };
  if (!embedded) return write({ connectionString: url ?? "" });
  await access(join(embedded.dir, "PG_VERSION")).catch(() => {
    throw new BackupError(`there is no database in ${embedded.dir}: nothing to back up`);
  });
  const running = await connectionToRunning(embedded.dir);
  if (running !== undefined) return write(running);
  const server = await EmbeddedPostgres.start({ ...embedded, log, onSurvivor: requireUnheld });
  try {
    await write(server.connection);
  } finally {
    await server.stop();
  }
}

/** `sallyport-controller restore`: into a database that holds nothing. @throws BackupError, DatabaseHeldError, ConfigError */
export async function restoreNetwork(
  command: { readonly file: string; readonly backup: string },
  { env, say, log }: CommandContext,
): Promise<void> {
  const { config, placeOf } = await readControllerConfigFile(command.file, env);
  const { url, embedded } = storeLocation(config, command.file, placeOf);
  const file = resolve(command.backup);
  // Before a data folder is made.
  await verifyBackup(file);
  const server = embedded && (await EmbeddedPostgres.start({ ...embedded, log, onSurvivor: requireUnheld }));
  try {
    const connection: pg.ClientConfig = server?.connection ?? { connectionString: url ?? "" };
    const lock = await HolderLock.acquire({ connection, onLost: (error) => log.error({}, error.message), log });
    try {
      const { manifest, rows, upgraded } = await restoreBackup({ connection, file, log });
      say(`restored ${rows} rows of ${manifest.tables.length} tables, as they were at ${manifest.at}`);
      if (upgraded.length > 0) say(`brought its schema up to date: ${upgraded.join(", ")}`);
      await checkKey(connection, secretKeyFile(config, command.file), { env, say, log });
    } finally {
      await lock.release();
    }
  } finally {
    await server?.stop();
  }
  say(`Start it with: sallyport-controller run ${command.file}`);
}

/** A backup is of use only with the key that encrypts its secrets. */
async function checkKey(
  connection: pg.ClientConfig,
  keyFile: string | undefined,
  { env, say, log }: CommandContext,
): Promise<void> {
  const store = await openStore({ connection, hold: false, log });
  try {
    await loadNetworkKeys(new KeyVault(store.db, await loadSecrets(keyFile, env)));
    say("the secret key of this configuration opens what it holds");
  } catch (error) {
    say(`ATTENTION: the secret key that belongs to this backup is missing: ${(error as Error).message}`);
  } finally {
    await store.close();
  }
}
