import type { Logger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OidcFlow, postForm } from "../oidc/testing/oidc-flow.ts";
import { BreakableWay } from "../store/testing/breakable-way.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

describe("a controller whose database goes away", () => {
  const lines: { level: string; text: string }[] = [];
  const note = (level: string) => (_fields: object, text: string) => void lines.push({ level, text });
  const log: Logger = { debug: () => undefined, info: note("info"), warn: note("warn"), error: note("error") };
  let way: BreakableWay;
  let test: TestController;
  beforeAll(async () => {
    test = await startTestController({
      log,
      through: async (connection) => {
        way = await BreakableWay.to(connection);
        return way.connection;
      },
    });
  });
  afterAll(async () => {
    await test.close();
    await way.close();
  });

  it("answers 503 with Retry-After, says so once, and recovers by itself", async () => {
    const name = "made before";
    await test.make("services", { name, encryptionRequired: true });
    lines.length = 0;
    await way.cut();
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        i % 2 === 0
          ? test.admin("GET", "/services")
          : test.admin("POST", "/services", { name: `s${i}`, encryptionRequired: true }),
      ),
    );
    for (const answer of answers) {
      expect(answer.status).toBe(503);
      expect(answer.headers["retry-after"]).toBe("2");
      expect(answer.json.error).toMatchObject({
        code: "TIMEOUT",
        message: "The requested operation took too much time to reply",
        cause: { code: "UNHANDLED", message: expect.stringContaining("database") },
      });
    }
    // Logins, too, which answer in the form of OAuth.
    const login = { username: "somebody", password: "correct-horse-battery" };
    const refused = await Promise.all([
      test.call("POST", "/edge/client/v1/authenticate?method=password", { body: login }),
      new OidcFlow(test).authorize(),
      postForm(test, "/oidc/oauth/token", new OidcFlow(test).codeFields("a".repeat(43))),
    ]);
    for (const { status, headers } of refused) expect([status, headers["retry-after"]]).toEqual([503, "2"]);
    expect(test.ctx.store.outage.since).toBeInstanceOf(Date);
    await way.restore();
    await expect.poll(async () => (await test.admin("GET", "/services")).status, { timeout: 20_000 }).toBe(200);
    const { json } = await test.admin("GET", "/services");
    expect(json.data.map((service: { name: string }) => service.name)).toEqual([name]);
    expect(test.ctx.store.outage.since).toBeUndefined();
    expect(lines.filter((line) => line.text.includes("database"))).toEqual([
      { level: "error", text: "the database cannot be used: requests are answered with 503 until it is back" },
      { level: "info", text: "the database can be used again" },
    ]);
    expect(lines.filter((line) => line.level === "error")).toHaveLength(1);
  });
});

describe("requests and their statements", () => {
  let test: TestController;
  beforeAll(async () => {
    test = await startTestController();
  });
  afterAll(() => test.close());

  it("no statement of a request outlasts its time", async () => {
    const { db } = test.ctx.store;
    const { rows } = await sql<{ statement: string; lock: string; idle: string }>`
      SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
        current_setting('idle_in_transaction_session_timeout') AS idle`.execute(db);
    expect(rows).toEqual([{ statement: "10s", lock: "9s", idle: "1min" }]);
  });

  it("a row that is locked for too long puts the request off with 503", async () => {
    const id = await test.make("services", { name: "locked", encryptionRequired: true });
    const { db } = test.ctx.store;
    await db.transaction().execute(async (trx) => {
      await sql`SELECT 1 FROM service WHERE id = ${id} FOR UPDATE`.execute(trx);
      const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(trx);
      const answer = test.admin("PATCH", `/services/${id}`, { tags: { a: 1 } });
      // The database would end the wait after 9 seconds; here it is ended as soon as it waits.
      await expect
        .poll(async () => {
          const { rows: ended } = await sql<{ ended: boolean }>`
            SELECT pg_cancel_backend(pid) AS ended FROM pg_stat_activity WHERE ${rows[0]!.pid} = ANY (pg_blocking_pids(pid))`.execute(
            db,
          );
          return ended;
        })
        .toEqual([{ ended: true }]);
      expect((await answer).status).toBe(503);
      expect((await answer).json.error.code).toBe("TIMEOUT");
    });
  });

  it("a page of a list is not worked on any more when its reader has gone", async () => {
    const { db } = test.ctx.store;
    await db.transaction().execute(async (trx) => {
      await sql`LOCK TABLE config IN ACCESS EXCLUSIVE MODE`.execute(trx);
      const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(trx);
      const waiting = async () =>
        (
          await sql`SELECT pid FROM pg_stat_activity WHERE ${rows[0]!.pid} = ANY (pg_blocking_pids(pid))
            AND query LIKE 'select%from "config"%'`.execute(db)
        ).rows.length;
      const aborted = new AbortController();
      const answer = test.admin("GET", "/configs", undefined, aborted.signal).catch((error: Error) => error.name);
      await expect.poll(waiting).toBe(1);
      aborted.abort();
      expect(await answer).toBe("AbortError");
      await expect.poll(waiting).toBe(0);
    });
  });
});
