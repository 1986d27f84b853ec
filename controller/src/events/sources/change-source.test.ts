import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { beginOidcLogin, loginByOidc } from "../../api/testing/oidc-client.ts";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { summarize } from "../../model/summary.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { timeOrderedId } from "../../store/ids.ts";
import { Dispatcher } from "../dispatcher.ts";
import { readSubscription } from "../subscription.ts";
import { collector } from "../testing/collector.ts";
import { ChangeSource, withoutSecrets } from "./change-source.ts";
import { CountSource } from "./counts.ts";
import { TerminatorSource } from "./terminator-source.ts";

let c: TestController;
let dispatcher: Dispatcher;
let source: ChangeSource;
let counts: CountSource;
const online = new Set<string>();

beforeAll(async () => {
  c = await startTestController();
  const { db, changes } = c.ctx.store;
  dispatcher = new Dispatcher({ sourceId: "ctrl1", log: silentLogger });
  const terminators = new TerminatorSource({
    db,
    sink: dispatcher,
    isRouterOnline: (id) => online.has(id),
    dynamicCost: () => 5,
    log: silentLogger,
  });
  source = new ChangeSource({ db, changes, dispatcher, terminators, log: silentLogger });
  counts = new CountSource(dispatcher, () => summarize(db));
});
afterAll(async () => {
  counts.stop();
  await source.stop();
  await c.close();
});

/** What one subscription gets while `work` is done. */
async function during(type: string, options: Record<string, unknown>, work: () => Promise<void>) {
  const output = collector();
  const end = dispatcher.subscribe(output, [readSubscription(type, options)]);
  await work();
  await c.ctx.store.changes.caughtUp();
  await source.idle();
  end();
  return output.events;
}

describe("events of the store", () => {
  it("tell of entities with their state, and of the commit", async () => {
    const events = await during("entityChange", { include: ["services"] }, async () => {
      const id = await c.make("services", { name: "one", encryptionRequired: true, roleAttributes: ["a"] });
      await c.admin("PATCH", `/services/${id}`, { roleAttributes: ["b"] });
      await c.admin("DELETE", `/services/${id}`);
      await c.make("configs", { name: "cfg", configTypeId: "host.v1", data: {} }).catch(() => undefined);
    });
    expect(events.map((event) => event.eventType)).toEqual([
      "created",
      "committed",
      "updated",
      "committed",
      "deleted",
      "committed",
    ]);
    expect(events[0]?.eventId).toBe(events[1]?.eventId);
    expect(events[0]).toMatchObject({ entityType: "services", initialState: null });
    expect(events[2]).toMatchObject({ initialState: { roleAttributes: ["a"] } });
    expect(events[4]).toMatchObject({ initialState: { roleAttributes: ["b"] }, finalState: null });
  });

  it("tell of entities alone, and not of what only a newer controller knows", async () => {
    const events = await during("entityChange", {}, async () => {
      const kinds = ["replica", "model_change", "token_key", "posture_state", "of_a_newer_version"] as const;
      const changes = kinds.map((kind) => ({ kind, key: "7", op: "update" as const, before: { secret: "x" } }));
      await c.ctx.store.transaction((trx) => appendChange(trx, ...changes));
      await c.make("services", { name: "told", encryptionRequired: true });
    });
    expect(events.map(({ entityType, eventType }) => [entityType, eventType])).toEqual([
      ["services", "created"],
      ["services", "committed"],
    ]);
  });

  it("never show a secret", async () => {
    const events = await during("entityChange", {}, async () => {
      await c.make("identities", { name: "i", type: "Device", isAdmin: false, enrollment: { ott: true } });
      const id = await c.make("identities", { name: "u", type: "Device", isAdmin: false });
      await c.make("authenticators", { method: "updb", identityId: id, username: "user", password: "swordfish-99" });
      await c.login("user", "swordfish-99");
    });
    const types = new Set(events.map((event) => event.entityType));
    for (const type of ["identities", "enrollments", "authenticators", "apiSessions"]) expect(types).toContain(type);
    const { rows } = await sql<{ secret: string }>`
      SELECT token AS secret FROM enrollment UNION ALL SELECT jwt FROM enrollment UNION ALL SELECT token FROM api_session
      UNION ALL SELECT password_hash FROM authenticator WHERE password_hash IS NOT NULL`.execute(c.ctx.store.db);
    expect(rows.length).toBeGreaterThan(3);
    const text = JSON.stringify(events);
    for (const { secret } of rows) expect(text).not.toContain(secret);
    expect(withoutSecrets({ instance_secret: "x", recoveryCodes: "x", token: "x", is_admin: true })).toEqual({
      isAdmin: true,
    });
  });

  it("tell of API sessions and sessions by id", async () => {
    let identityId = "";
    const events = await during("apiSession", {}, async () => {
      const token = await c.login("user", "swordfish-99");
      const row = await c.ctx.store.db
        .selectFrom("api_session")
        .selectAll()
        .where("token", "=", token)
        .executeTakeFirstOrThrow();
      identityId = row.identity_id;
      await c.ctx.store.changes.caughtUp();
      await source.idle();
      await c.admin("DELETE", `/api-sessions/${row.id}`);
    });
    expect(events.map((event) => event.event_type)).toEqual(["created", "deleted"]);
    for (const event of events)
      expect(event).toMatchObject({ type: "legacy", token: event.id, identity_id: identityId });
  });

  it("tell of sessions by OIDC from their first tokens on, and of each time that they get new ones", async () => {
    const who = { username: "user", password: "swordfish-99" };
    let id = "";
    const events = await during("apiSession", {}, async () => {
      await c.model.apiSessions.delete(await beginOidcLogin(c, who));
      ({ id } = await loginByOidc(c, who));
      const until = { accessUntil: new Date(Date.now() + 60_000), expiresAt: new Date(Date.now() + 120_000) };
      const { refreshJti } = (await c.model.oidcSessions.subjectOf(id)) ?? {};
      await c.model.oidcSessions.rotate(id, refreshJti ?? "", { refreshJti: "next", ...until });
      await c.model.oidcSessions.extend(id, until.accessUntil);
      await c.model.oidcSessions.end(id, "logout");
    });
    expect(events.map(({ event_type: type }) => type)).toEqual(["created", "refreshed", "exchanged", "deleted"]);
    for (const event of events) expect(event).toMatchObject({ id, type: "jwt", token: id });
  });

  it("tell of a session for a service by which tokens its client has", async () => {
    const gone = (id: string, apiSessionId: string) => {
      const before = { token: "t", apiSessionId, identityId: "i", serviceId: "v", type: "Dial" };
      return { kind: "session", key: id, op: "delete", before } as const;
    };
    const events = await during("session", {}, async () => {
      await c.ctx.store.transaction((trx) =>
        appendChange(trx, gone("a", timeOrderedId(Date.now())), gone("b", "2eb97045-8d24-40d8-b8a7-000000000002")),
      );
    });
    expect(events.map(({ id, provider }) => [id, provider])).toEqual([
      ["a", "legacy"],
      ["b", "jwt"],
    ]);
  });

  it("tell of terminators with the numbers of their service", async () => {
    let router = "";
    let service = "";
    const events = await during("fabric.terminators", {}, async () => {
      router = await c.make("edge-routers", { name: "r" });
      service = await c.make("services", { name: "hosted", encryptionRequired: true });
      online.add(router);
      const body = { service, router, binding: "transport", address: "tcp:127.0.0.1:1" };
      const id = await c.make("terminators", body);
      await c.make("terminators", { ...body, precedence: "required" });
      await c.ctx.store.changes.caughtUp();
      await source.idle();
      await c.admin("DELETE", `/terminators/${id}`);
    });
    expect(events.map((event) => event.event_type)).toEqual(["created", "created", "deleted"]);
    expect(events[2]).toMatchObject({
      namespace: "fabric.terminators",
      service_id: service,
      router_id: router,
      router_online: true,
      dynamic_cost: 5,
      total_terminators: 1,
      usable_default_terminators: 0,
      usable_required_terminators: 1,
    });
  });

  it("count entities at the interval asked for", async () => {
    const output = collector();
    const end = dispatcher.subscribe(output, [readSubscription("entityCount", { interval: "1s" })]);
    await expect.poll(() => output.events.length, { timeout: 10_000 }).toBeGreaterThan(0);
    end();
    expect(output.events[0]).toMatchObject({ error: "", counts: { services: expect.any(Number) } });
  });
});
