import { Kysely } from "kysely";
import type pg from "pg";
import { expect, test } from "vitest";
import { appendChange } from "../changes/change-log.ts";
import type { Outage } from "../outage.ts";
import type { EngineTables } from "../schema.ts";
import { storeDialect } from "./driver.ts";

test("after a beginning that fails on a connection which lives, nothing of the transaction is sent", async () => {
  const sent: string[] = [];
  // No server does this on demand: a connection that refuses to begin, and would take everything else.
  const client = {
    query: async (query: string | { text: string }) => {
      const text = typeof query === "string" ? query : query.text;
      sent.push(text);
      if (/^begin/i.test(text)) throw new Error("out of memory");
      return { command: "", rowCount: 0, rows: [] };
    },
    release: () => undefined,
    connection: { stream: { writable: true } },
  };
  const pool = { options: {}, connect: async () => client, end: async () => undefined } as unknown as pg.Pool;
  const outage = { failed: (error: unknown) => error, answered: () => undefined } as unknown as Outage;
  const db = new Kysely<EngineTables>({
    dialect: storeDialect({ pool, outage, onAppended: () => undefined, answerMs: 5_000 }),
  });
  const work = db.transaction().execute((trx) => appendChange(trx, { kind: "service", key: "x", op: "create" }));
  await expect(work).rejects.toThrow("out of memory");
  expect(sent.filter((text) => !/^(begin|rollback)/i.test(text))).toEqual([]);
  await db.destroy();
});
