/** A mirror of the store reads the change log: no row may come, change or go without it. */

import { createCsr, createKeyPair } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { totpCode } from "../model/identity/one-time-codes.ts";
import { authPolicy } from "./testing/auth-policy.ts";
import { extJwtSigner } from "./testing/ext-jwt-signer.ts";
import { loginByOidc } from "./testing/oidc-client.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

/** The changes that the work has logged, as `kind op`, sorted and without duplicates. */
async function logged(work: () => Promise<unknown>): Promise<string[]> {
  const { rows: before } = await sql<{ seq: string }>`SELECT coalesce(max(seq), 0) AS seq FROM change_log`.execute(
    c.ctx.store.db,
  );
  await work();
  const { rows } = await sql<{ change: string }>`
    SELECT DISTINCT kind || ' ' || op AS change FROM change_log WHERE seq > ${before[0]!.seq} ORDER BY 1`.execute(
    c.ctx.store.db,
  );
  return rows.map((row) => row.change);
}

const person = (name: string, more: object = {}) => ({ name, type: "User", isAdmin: false, ...more });
const ok = async (method: string, path: string, body?: unknown) => {
  const answer = await c.admin(method, path, body);
  expect(answer.status, answer.text).toBeLessThan(300);
};

describe("the change log", () => {
  it("tells of an identity and of everything that comes and goes with it", async () => {
    let id = "";
    expect(
      await logged(async () => {
        id = await c.make("identities", person("ann", { enrollment: { ott: true } }));
      }),
    ).toEqual(["enrollment create", "identity create"]);
    await c.make("authenticators", { identityId: id, method: "updb", username: "ann-a", password: "password" });
    const token = await c.login("ann-a", "password");
    expect(await logged(() => c.call("POST", "/edge/client/v1/current-identity/mfa", { token }))).toEqual([
      "mfa create",
    ]);
    await c.make("service-policies", {
      ...{ name: "of ann", type: "Dial", semantic: "AnyOf" },
      identityRoles: [`@${id}`],
    });
    expect(await logged(() => ok("DELETE", `/identities/${id}`))).toEqual([
      "api_session delete",
      "authenticator delete",
      "enrollment delete",
      "identity delete",
      "mfa delete",
      "service_policy update",
    ]);
  });

  it("tells of an MFA enrollment that an administrator removes, once", async () => {
    const id = await c.make("identities", person("bea"));
    await c.make("authenticators", { identityId: id, method: "updb", username: "bea-b", password: "password" });
    const token = await c.login("bea-b", "password");
    await c.call("POST", "/edge/client/v1/current-identity/mfa", { token });
    expect(await logged(() => ok("DELETE", `/identities/${id}/mfa`))).toEqual(
      expect.arrayContaining(["identity update", "mfa delete"]),
    );
    expect(await logged(() => ok("DELETE", `/identities/${id}/mfa`))).not.toContain("mfa delete");
  });

  it("tells of a router with a tunneler and of what goes with it", async () => {
    let id = "";
    expect(
      await logged(async () => {
        id = await c.make("edge-routers", { name: "r1", isTunnelerEnabled: true });
      }),
    ).toEqual(["edge_router_policy create", "enrollment create", "identity create", "router create"]);
    expect(await logged(() => ok("PATCH", `/edge-routers/${id}`, { name: "r2" }))).toEqual([
      "identity update",
      "router update",
    ]);
    expect(await logged(() => ok("DELETE", `/edge-routers/${id}`))).toEqual(
      expect.arrayContaining(["edge_router_policy delete", "enrollment delete", "identity delete", "router delete"]),
    );
  });

  it("tells of a service with its terminators, and of services whose config changes", async () => {
    const router = await c.make("edge-routers", { name: "r3" });
    const type = await c.make("config-types", { name: "shape", schema: { type: "object" } });
    const config = await c.make("configs", { name: "made", configTypeId: type, data: {} });
    const service = await c.make("services", { name: "s", encryptionRequired: false, configs: [config] });
    await c.make("terminators", { service, router, binding: "transport", address: "tcp:localhost:1" });
    expect(await logged(() => ok("PATCH", `/configs/${config}`, { data: { a: 1 } }))).toEqual([
      "config update",
      "service update",
    ]);
    expect(await logged(() => ok("DELETE", `/services/${service}`))).toEqual(["service delete", "terminator delete"]);
  });
});

describe("what refers to something that ended meanwhile", () => {
  it("is refused, and is no fault of the controller", async () => {
    const service = await c.make("services", { name: "dialed", encryptionRequired: false });
    const router = await c.make("edge-routers", { name: "r4" });
    const all = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"], edgeRouterRoles: ["#all"] };
    await c.make("service-policies", { ...all, name: "dial", type: "Dial" });
    await c.make("edge-router-policies", { ...all, name: "routers", edgeRouterRoles: [`@${router}`] });
    await c.make("service-edge-router-policies", { ...all, name: "services" });
    const id = await c.make("identities", person("cid"));
    const identity = await c.model.identities.get(c.ctx.store.db, id);
    await expect(
      c.model.sessions.create({ id: "ended", kind: "legacy" }, identity, { serviceId: service, type: "Dial" }),
    ).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
    await expect(c.model.mfa.start("nobody")).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
  });
});

/** Rows by which requests find their sessions stay in memory for minutes: a write that the log does not tell of would count that much later. */
describe("the sessions in memory", () => {
  /** Columns that decide nothing there. */
  const IGNORED: Readonly<Record<string, readonly string[]>> = {
    ...{ identity: [], auth_policy: [], ext_jwt_signer: [], oidc_session: [], revocation: [], token_key: [] },
    api_session: ["last_activity_at", "updated_at"],
    mfa: ["last_step", "last_step_session", "enrollment_step", "updated_at"],
  };
  beforeAll(async () => {
    const { pool } = c.ctx.store as unknown as { pool: { query(text: string): Promise<unknown> } };
    await pool.query(`CREATE TABLE written (xid xid8, kind text, op text);
      CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP <> 'UPDATE' OR to_jsonb(NEW) - TG_ARGV[0]::text[] <> to_jsonb(OLD) - TG_ARGV[0]::text[] THEN
          INSERT INTO written VALUES (pg_current_xact_id(), TG_TABLE_NAME, TG_OP);
        END IF;
        RETURN NULL;
      END $$;`);
    for (const [table, columns] of Object.entries(IGNORED)) {
      await pool.query(`CREATE TRIGGER witness AFTER INSERT OR UPDATE OR DELETE ON ${table}
        FOR EACH ROW EXECUTE FUNCTION witness('{${columns.join(",")}}')`);
    }
  });

  it("are told of every write that concerns them, in the transaction of the write", async () => {
    const policy = await c.make("auth-policies", authPolicy("watched"));
    const id = await c.make("identities", person("dan", { authPolicyId: policy }));
    const body = { identityId: id, method: "updb", username: "dan-d", password: "password" };
    const authenticator = await c.make("authenticators", body);
    const own = (method: string, path: string, token: string, body?: unknown) =>
      c.call(method, `/edge/client/v1${path}`, { token, ...(body !== undefined && { body }) });
    const login = () => c.login("dan-d", "password");

    // One-time codes.
    const token = await login();
    await own("POST", "/current-identity/mfa", token);
    const { provisioningUrl } = (await own("GET", "/current-identity/mfa", token)).json.data;
    const code = totpCode(new URL(provisioningUrl).searchParams.get("secret") ?? "", new Date());
    await own("POST", "/current-identity/mfa/verify", token, { code });
    const second = await login();
    expect((await own("POST", "/authenticate/mfa", second, { code })).status).toBe(200);
    await own("POST", "/current-identity/mfa/recovery-codes", second, { code });
    await ok("DELETE", `/identities/${id}/mfa`);

    // Sessions of both kinds.
    await own("DELETE", "/current-api-session", second);
    const client = await loginByOidc(c, { username: "dan-d", password: "password" });
    const times = { accessUntil: new Date(Date.now() + 60_000), expiresAt: new Date(Date.now() + 120_000) };
    const { refreshJti } = (await c.model.oidcSessions.subjectOf(client.id)) ?? {};
    expect(await c.model.oidcSessions.rotate(client.id, refreshJti ?? "", { refreshJti: "next", ...times })).toBe(
      "rotated",
    );
    await c.model.oidcSessions.extend(client.id, new Date(Date.now() + 90_000));
    await c.model.revocations.create({ id: client.jti, type: "JTI" });
    await c.model.oidcSessions.end(client.id, "logout");
    await loginByOidc(c, { username: "dan-d", password: "password" });
    await c.model.revocations.create({ id, type: "IDENTITY" });
    await login();
    c.clock.offsetMs = 3_600_000;
    // The controller's own sweep may have come first, or hold the rows for a moment.
    const sessions = () =>
      c.ctx.store.db.selectFrom("api_session").select("id").where("identity_id", "=", id).execute();
    await expect.poll(async () => [await c.model.apiSessions.sweep(), await sessions()]).toEqual([0, []]);
    c.clock.offsetMs = 0;

    // Certificates.
    const { keyPem: key } = await createKeyPair();
    const device = await c.make("identities", { ...person("eve"), enrollment: { ott: true } });
    const [enrollment] = (await c.admin("GET", `/identities/${device}/enrollments`)).json.data;
    const clientCertCsr = await createCsr({ commonName: "eve", keyPem: key });
    const enrolled = await c.call("POST", `/edge/client/v1/enroll?token=${enrollment.token}`, {
      body: { clientCsr: clientCertCsr },
    });
    const { cert } = enrolled.json.data;
    const entered = await c.call("POST", "/edge/client/v1/authenticate?method=cert", { body: {}, cert, key });
    const [held] = (await c.admin("GET", `/identities/${device}/authenticators`)).json.data;
    const path = `/edge/client/v1/current-identity/authenticators/${held.id}/extend`;
    const by = { token: entered.json.data.token, cert, key };
    const { clientCert } = (await c.call("POST", path, { ...by, body: { clientCertCsr } })).json.data;
    expect((await c.call("POST", `${path}-verify`, { ...by, body: { clientCert } })).status).toBe(200);

    // What administrators change.
    const signer = await c.make("external-jwt-signers", extJwtSigner("watched"));
    await ok("PATCH", `/auth-policies/${policy}`, { secondary: { requireExtJwtSigner: signer } });
    await ok("PATCH", `/external-jwt-signers/${signer}`, { issuer: "another" });
    await ok("PUT", `/auth-policies/${policy}`, authPolicy("watched"));
    await ok("PATCH", `/authenticators/${authenticator}`, { password: "another one" });
    await ok("PATCH", `/identities/${id}`, { isAdmin: true, externalId: "dan@example.org" });
    await ok("POST", `/identities/${id}/disable`, { durationMinutes: 1 });
    await ok("POST", `/identities/${id}/enable`);
    const router = await c.make("edge-routers", { name: "watched", isTunnelerEnabled: true });
    await ok("PATCH", `/edge-routers/${router}`, { name: "renamed" });
    await ok("DELETE", `/edge-routers/${router}`);
    await ok("DELETE", `/identities/${id}`);
    await ok("DELETE", `/auth-policies/${policy}`);
    await ok("DELETE", `/external-jwt-signers/${signer}`);

    const { db } = c.ctx.store;
    const { rows } = await sql<{ kind: string; ops: string[] }>`
      SELECT kind, array_agg(DISTINCT op ORDER BY op) AS ops FROM written GROUP BY kind ORDER BY kind`.execute(db);
    const all = ["DELETE", "INSERT", "UPDATE"];
    expect(Object.fromEntries(rows.map(({ kind, ops }) => [kind, ops]))).toMatchObject({
      ...{ api_session: all, oidc_session: all, identity: all, auth_policy: all, ext_jwt_signer: all, mfa: all },
      revocation: ["INSERT"],
    });
    const unlogged = await sql`
      SELECT DISTINCT w.kind, w.op FROM written w WHERE NOT EXISTS (SELECT 1 FROM change_log c WHERE c.xid = w.xid AND (
        c.kind = w.kind OR (w.kind = 'api_session' AND c.kind = 'identity') OR (w.kind = 'oidc_session' AND c.kind = 'api_session')))`.execute(
      db,
    );
    expect(unlogged.rows).toEqual([]);
  });
});
