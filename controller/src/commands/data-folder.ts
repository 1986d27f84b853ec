import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { isReachable } from "../store/postgres/postgres-binaries.ts";
import { postgresUser } from "../store/postgres/postgres-user.ts";

const OPEN_PARENT = "/var/lib/sallyport";

/**
 * The folder for a new embedded database of the network in `dir`: `database` below it. Where another user must run PostgreSQL (because we are root)
 * and cannot enter `dir`, a folder below /var/lib/sallyport that is named after it.
 *
 * @returns as it is written in the configuration: relative when below `dir`.
 */
export async function chooseDataFolder(dir: string): Promise<string> {
  const user = await postgresUser();
  const folder = resolve(dir);
  if (!user || (await isReachable(folder, user))) return "database";
  const name = `${basename(folder)}-${createHash("sha256").update(folder).digest("hex").slice(0, 8)}`;
  const elsewhere = join(OPEN_PARENT, name);
  await mkdir(dirname(elsewhere), { recursive: true, mode: 0o755 });
  return elsewhere;
}
