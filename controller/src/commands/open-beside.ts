import type { ConfigRead } from "@sallyport/controller-config";
import type { Logger } from "@sallyport/wire";
import type { ClientConfig } from "pg";
import { storeLocation } from "../config/settings.ts";
import { openStore, type Store } from "../store/database.ts";
import { connectionTo } from "../store/postgres/embedded.ts";
import { isAlive, readPostmaster } from "../store/postgres/postgres-process.ts";

/**
 * The store of a configuration for a command that works beside the controller: on the database that it runs with, or, when there is no controller, on one
 * that is started for the command.
 *
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
