import { access } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readControllerConfigFile } from "@sallyport/controller-config";
import type pg from "pg";
import { secretKeyFile, storeLocation } from "../config/settings.ts";
import { UNUSED_NETWORK_ROWS } from "../model/seeds.ts";
import { BackupError } from "../store/backup/backup-file.ts";
import { restoreBackup, verifyBackup } from "../store/backup/restore-backup.ts";
import { writeBackup } from "../store/backup/write-backup.ts";
import { DatabaseServers } from "../store/postgres/database-servers.ts";
import { EmbeddedPostgres } from "../store/postgres/embedded.ts";
import { HolderLock, requireUnheld } from "../store/postgres/holder-lock.ts";
import { loadSecrets, SECRET_KEY_VARIABLE, SecretsError, vaultContext } from "../store/secrets.ts";
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
  if (!embedded) return write(new DatabaseServers(url ?? "", log).connection);
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

/**
 * `sallyport-controller restore`: into a database that holds nothing, or an unused network.
 * @throws BackupError, SecretsError when the secret key does not belong to the backup, DatabaseHeldError, ConfigError
 */
export async function restoreNetwork(
  command: { readonly file: string; readonly backup: string },
  { env, say, log }: CommandContext,
): Promise<void> {
  const { config, placeOf } = await readControllerConfigFile(command.file, env);
  const { url, embedded } = storeLocation(config, command.file, placeOf);
  const file = resolve(command.backup);
  // Before a data folder is made.
  await verifyWithKey(file, secretKeyFile(config, command.file), env);
  const server = embedded && (await EmbeddedPostgres.start({ ...embedded, log, onSurvivor: requireUnheld }));
  try {
    const connection: pg.ClientConfig = server?.connection ?? new DatabaseServers(url ?? "", log).connection;
    const lock = await HolderLock.acquire({ connection, onLost: (error) => log.error({}, error.message), log });
    try {
      const { manifest, rows, upgraded } = await restoreBackup({ connection, file, unused: UNUSED_NETWORK_ROWS, log });
      say(`restored ${rows} rows of ${manifest.tables.length} tables, as they were at ${manifest.at}`);
      if (upgraded.length > 0) say(`brought its schema up to date: ${upgraded.join(", ")}`);
      say("the secret key of this configuration decrypts the backup's secrets");
    } finally {
      await lock.release();
    }
  } finally {
    await server?.stop();
  }
  say(`Start it with: sallyport-controller run ${command.file}`);
}

/** A backup is of use only with the key that encrypts its secrets. @throws SecretsError, BackupError */
async function verifyWithKey(file: string, keyFile: string | undefined, env: NodeJS.ProcessEnv): Promise<void> {
  const secrets = await loadSecrets(keyFile, env).catch((error: Error) => error);
  const place = keyFile ?? `the environment variable ${SECRET_KEY_VARIABLE}`;
  await verifyBackup(file, ({ name, box }) => {
    try {
      if (secrets instanceof Error) throw secrets;
      secrets.decrypt(box, vaultContext(name));
    } catch (error) {
      throw new SecretsError(
        `nothing was restored: a restore needs the secret key of the backup's network. Put that key into ${place} and run restore again (${(error as Error).message})`,
        { cause: error },
      );
    }
  });
}
