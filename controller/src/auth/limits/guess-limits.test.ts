/** Guesses are counted in the store: what fails at one controller counts at the others. */
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { silentLogger as silent } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { authPolicy } from "../../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { expiries } from "../../model/expiry.ts";
import { countFailure, waitFor } from "../../model/identity/failed-attempts.ts";
import { testContext } from "../../model/testing/test-context.ts";
import { openStore, type Store } from "../../store/database.ts";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { resetAdministrator } from "../admin-reset.ts";
import { type Origin, originAt } from "./attempt-limits.ts";
import { GuessLimits } from "./guess-limits.ts";

const statusOf = (error: unknown) => (error as { status?: number }).status;

describe("guesses of two processes on one database", () => {
  let first: TestStore;
  let second: Store;
  let stores: readonly Store[];
  beforeAll(async () => {
    first = await testStore();
    const { store } = first;
    second = await openStore({ connection: store.connection, hold: false, poolSize: 4, log: silent });
    stores = [store, second];
  });
  afterAll(async () => {
    await second.close();
    await first.drop();
  });
  beforeEach(() => sql`DELETE FROM failed_attempt`.execute(second.db));

  const limits = new GuessLimits({ enabled: true, failures: { burst: 2, perMinute: 0.1 } });
  let turn = 0;
  /** At each process in turn. */
  const fail = async (name: string, origin: Origin) => {
    const { db } = stores[turn++ % 2] ?? second;
    const guesses = limits.of(`user ${name}`, origin);
    try {
      await guesses.requireRoom(db);
      await countFailure(db, guesses.rates);
      return undefined;
    } catch (error) {
      return statusOf(error);
    }
  };

  test("are limited per name and address, and a tenth as strictly per name", async () => {
    const at = (ip: string, name = "alice") => fail(name, originAt(ip));
    expect([await at("192.0.2.1"), await at("192.0.2.1"), await at("192.0.2.1")]).toEqual([undefined, undefined, 429]);
    expect(await at("192.0.2.1", "bob")).toBeUndefined();
    // Alice herself, elsewhere, is not kept out by one who guesses.
    for (let i = 2; i < 20; i++) expect(await at(`192.0.2.${i}`)).toBeUndefined();
    expect([await at("192.0.2.200"), await at("192.0.2.201")]).toEqual([429, 429]);
  });

  test("come back one by one with time, and ask to wait no longer than until the next", async () => {
    const guesses = limits.of("user carol", originAt("192.0.2.1"));
    const minutesBack = (minutes: number) =>
      sql`UPDATE failed_attempt SET until = until - make_interval(mins => ${minutes}::int)`.execute(second.db);
    for (let i = 0; i < 5; i++) await countFailure(second.db, guesses.rates);
    const wait = await waitFor(first.store.db, guesses.rates);
    expect(wait).toBeGreaterThan(9 * 60_000);
    // However many failed at once before the first of them counted: a full bucket is the most that anyone owes.
    expect(wait).toBeLessThanOrEqual(10 * 60_000);
    await minutesBack(10);
    expect(await waitFor(first.store.db, guesses.rates)).toBe(0);
    await countFailure(first.store.db, guesses.rates);
    expect(await waitFor(second.db, guesses.rates)).toBeGreaterThan(9 * 60_000);
  });

  test("that come at once count each, for one name in two orders without a deadlock", async () => {
    const [ofName, ofOther] = [
      limits.of("user dave", originAt("a")).rates,
      limits.of("user erin", originAt("b")).rates,
    ];
    const both = [...ofName, ...ofOther];
    await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        countFailure((stores[i % 2] ?? second).db, i % 3 ? both : both.toReversed()),
      ),
    );
    const { rows } = await sql<{ count: number }>`SELECT count FROM failed_attempt`.execute(second.db);
    expect(rows.map(({ count }) => count)).toEqual([60, 60, 60, 60]);
  });

  test("take a short row each, which goes once it counts no more", async () => {
    await fail("x".repeat(10_000), originAt("192.0.2.1"));
    const { rows } = await sql<{ key: string }>`SELECT key FROM failed_attempt`.execute(second.db);
    for (const { key } of rows) expect(key.length).toBeLessThan(60);
    const expiry = expiries(testContext(second)).find(({ what }) => what === "failed attempts");
    const sweep = () => expiry?.sweep(new AbortController().signal);
    expect(await sweep()).toBe(0);
    await sql`UPDATE failed_attempt SET expires_at = now()`.execute(second.db);
    expect(await sweep()).toBe(2);
  });

  test("are not limited where that is switched off", async () => {
    const { rates } = new GuessLimits({ enabled: false, failures: { burst: 1, perMinute: 1 } }).of(
      "user x",
      originAt("a"),
    );
    for (let i = 0; i < 3; i++) await countFailure(second.db, rates);
    expect(await waitFor(second.db, rates)).toBe(0);
  });
});

describe("passwords at two controllers", () => {
  const rateLimits = { ...CONTROLLER_DEFAULTS.auth.rateLimits, failures: { burst: 3, perMinute: 0.1 } };
  const auth = { ...CONTROLLER_DEFAULTS.auth, rateLimits };
  let one: TestController;
  let other: TestController;
  beforeAll(async () => {
    one = await startTestController({ auth });
    other = await startTestController({ auth, beside: one });
  });
  afterAll(async () => {
    await other.close();
    await one.close();
  });
  const user = async (name: string, updb: object = {}) => {
    const authPolicyId = await one.make("auth-policies", authPolicy(`of ${name}`, { updb }));
    const identityId = await one.make("identities", { name, type: "User", isAdmin: false, authPolicyId });
    const id = await one.make("authenticators", { identityId, method: "updb", username: name, password: "Start-1" });
    return { identityId, id };
  };
  const login = async (c: TestController, username: string, password: string) =>
    (await c.call("POST", "/edge/client/v1/authenticate?method=password", { body: { username, password } })).status;

  test("that are guessed at both in turn are limited as at one", async () => {
    await user("frida");
    expect(await login(one, "frida", "wrong")).toBe(401);
    expect(await login(other, "frida", "wrong")).toBe(401);
    expect(await login(one, "frida", "wrong")).toBe(401);
    for (const c of [other, one]) expect(await login(c, "frida", "Start-1")).toBe(429);
    await resetAdministrator(one.ctx.store, { password: "admin", hasOwnPolicy: false });
    for (const c of [other, one]) expect(await login(c, "frida", "Start-1")).toBe(200);
    // Nobody has this name: it is refused alike.
    for (const c of [one, other, one]) expect(await login(c, "nobody", "wrong")).toBe(401);
    expect(await login(other, "nobody", "wrong")).toBe(429);
  });

  test("lock the identity out after so many in a row, wherever each failed; a right one resets the count", async () => {
    const { identityId, id } = await user("gustav", { maxAttempts: 1, lockoutDurationMinutes: 5 });
    expect([await login(one, "gustav", "wrong"), await login(other, "gustav", "Start-1")]).toEqual([401, 200]);
    expect([await login(other, "gustav", "wrong"), await login(one, "gustav", "Start-1")]).toEqual([401, 200]);
    const token = await one.login("gustav", "Start-1");
    const body = { currentPassword: "wrong-1", password: "Second-2" };
    const path = `/edge/client/v1/current-identity/authenticators/${id}`;
    expect((await other.call("PATCH", path, { token, body })).status).toBe(401);
    expect((await other.admin("GET", `/identities/${identityId}`)).json.data.disabled).toBe(false);
    await sql`UPDATE failed_attempt SET until = now() WHERE key LIKE 'guess %'`.execute(one.ctx.store.db);
    expect(await login(one, "gustav", "wrong")).toBe(401);
    expect((await other.admin("GET", `/identities/${identityId}`)).json.data.disabled).toBe(true);
  });
});
