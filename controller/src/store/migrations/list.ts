import type { Migration } from "kysely";
import { up as initial } from "./0001-initial.ts";

/** All migrations by name, in the order of their names. A migration that was released is never edited. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  "0001-initial": { up: initial },
};
