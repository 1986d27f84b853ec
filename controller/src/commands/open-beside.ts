/** What commands read besides the configuration: the store, and files of the operator's own authority. */
import { readFile } from "node:fs/promises";
import type { ConfigRead } from "@sallyport/controller-config";
import type { Logger } from "@sallyport/wire";
import type { ClientConfig } from "pg";
import { storeLocation } from "../config/settings.ts";
import type { KeyedCertificate } from "../pki/issue.ts";
import { openStore, type Store } from "../store/database.ts";
import { connectionTo } from "../store/postgres/embedded.ts";
import { isAlive, readPostmaster } from "../store/postgres/postgres-process.ts";
import type { CaFiles } from "./command-line.ts";

/**
 * The store for a command that works beside the controller. When no controller runs, an embedded database is started for the command.
 * @throws StoreError, EmbeddedPostgresError
 */
export async function openBeside({ config, placeOf }: ConfigRead, file: string, log: Logger): Promise<Store> {
  const location = storeLocation(config, file, placeOf);
  if (location.embedded === undefined) return openStore({ ...location, hold: false, log });
  const connection = await connectionToRunning(location.embedded.dir);
  if (connection !== undefined) return openStore({ connection, poolSize: 2, hold: false, log });
  return openStore({ ...location, log });
}

/** How to reach the embedded PostgreSQL that runs on a data folder; undefined when none does. */
export async function connectionToRunning(dir: string): Promise<ClientConfig | undefined> {
  const running = await readPostmaster(dir);
  if (running === undefined || running.socketDir === "" || !(await isAlive(running, dir))) return undefined;
  return connectionTo(running.socketDir);
}

export async function readCa({ certFile, keyFile }: CaFiles): Promise<KeyedCertificate> {
  return { certPem: await readFile(certFile, "utf8"), keyPem: await readFile(keyFile, "utf8") };
}
