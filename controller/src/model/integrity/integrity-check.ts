import { type RawBuilder, sql } from "kysely";
import type { Db } from "../context.ts";

/** One violation of a rule. */
export interface Violation {
  /** For administrators: what is wrong, with names and ids. */
  readonly description: string;
  /** What the fix needs to find it again. */
  readonly key: string;
}

/** One rule that the stored network must keep, and how to bring it back. */
export interface IntegrityCheck {
  readonly name: string;
  /** Violations, at most `limit`, in one statement or few. */
  find(db: Db, limit: number): Promise<Violation[]>;
  /** Repairs what was found just before in the same transaction. Without it, an administrator has to decide. */
  readonly fix?: (db: Db, findings: readonly Violation[]) => Promise<void>;
}

/** A check by one query with the columns `key` and `description`. */
export function byQuery(name: string, query: RawBuilder<unknown>, fix?: IntegrityCheck["fix"]): IntegrityCheck {
  return {
    name,
    async find(db, limit) {
      const { rows } = await sql<Violation>`${query} LIMIT ${limit}`.execute(db);
      return rows;
    },
    ...(fix && { fix }),
  };
}

export function keysOf(findings: readonly Violation[]): string[] {
  return findings.map(({ key }) => key);
}
