import { existsSync } from "node:fs";
import { join } from "node:path";

/** Path of a program, if there is one. Those of administrators are found even where the path leaves them out. */
export function programOnPath(name: string, path = process.env.PATH ?? ""): string | undefined {
  return `${path}:/usr/sbin:/sbin`
    .split(":")
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}
