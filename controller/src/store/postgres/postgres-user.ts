import { readFile } from "node:fs/promises";

/** No user of this system can run the embedded PostgreSQL. */
export class PostgresUserError extends Error {
  override name = "PostgresUserError";
}

/** The operating system's user under which the embedded PostgreSQL runs. */
export interface PostgresUser {
  name: string;
  uid: number;
  gid: number;
}

const CANDIDATES = ["postgres", "nobody"];

/**
 * PostgreSQL refuses to run as root: when this process is root, answers another user to run it (`postgres` if the system has one, else
 * `nobody`; or the named one), otherwise undefined (run it as ourselves).
 */
export async function postgresUser(wanted?: string): Promise<PostgresUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const users = (await readFile("/etc/passwd", "utf8"))
    .split("\n")
    .map((line) => line.split(":"))
    .map(([name = "", , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((user) => user.uid > 0 && user.gid > 0);
  const names = wanted === undefined ? CANDIDATES : [wanted];
  for (const name of names) {
    const user = users.find((candidate) => candidate.name === name);
    if (user) return user;
  }
  throw new PostgresUserError(
    `the controller runs as root, and PostgreSQL refuses to: none of the users ${names.join(", ")} exists. ` +
      "Create one, run the controller as another user, or give a database URL",
  );
}
