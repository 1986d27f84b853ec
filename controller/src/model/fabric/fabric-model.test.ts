import { EventEmitter, once } from "node:events";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authPolicy } from "../../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import type { ModelChange } from "../../fabric/change-port.ts";
import type { NewTerminator } from "../../fabric/ports.ts";
import type { Store } from "../../store/database.ts";
import { interposed, settled } from "../../store/testing/test-store.ts";
import { TUNNELER } from "../testing/client-info.ts";
import { CircuitFacts } from "./circuit-facts.ts";
import { fabricTerminators } from "./fabric-terminators.ts";

let c: TestController;
const changes = new EventEmitter();
const seen: ModelChange[] = [];

beforeAll(async () => {
  c = await startTestController();
  c.fabricModel.onChange((change) => {
    seen.push(change);
    changes.emit("change");
  });
});
afterAll(() => c.close());

/** Waits until a change of that kind has come that fulfils the condition. */
async function change<K extends ModelChange["kind"]>(
  kind: K,
  fits: (change: Extract<ModelChange, { kind: K }>) => boolean,
) {
  for (;;) {
    const found = seen.find((each) => each.kind === kind && fits(each as Extract<ModelChange, { kind: K }>));
    if (found !== undefined) return found;
    await once(changes, "change");
  }
}

describe("API sessions", () => {
  it("are given out in id order and in pages, and their coming and going is told", async () => {
    const tokens: string[] = [];
    for (let n = 0; n < 5; n++) tokens.push(await c.login("admin", "admin"));
    const all: string[] = [];
    let after = "";
    for (;;) {
      const page = await c.fabricModel.apiSessionsAfter(after, 2);
      if (page.length === 0) break;
      expect(page.length).toBeLessThanOrEqual(2);
      for (const session of page) {
        expect(session.id > after).toBe(true);
        after = session.id;
        all.push(session.token);
      }
    }
    expect(all.slice(-5)).toEqual(tokens);
    await change("api-session-added", ({ session }) => session.token === tokens[4]);
    await c.call("DELETE", "/edge/client/v1/current-api-session", { token: tokens[4]! });
    await change("api-session-removed", ({ token }) => token === tokens[4]);
    expect(await c.fabricModel.touchApiSessions([tokens[0]!, tokens[4]!, "none"])).toEqual([tokens[4], "none"]);
    expect(await c.fabricModel.unknownSessions(["x"])).toEqual([{ token: "x" }]);
  });

  it("end by the sweep when they are idle for too long, unless a router has said that they are in use", async () => {
    const idle = await c.login("admin", "admin");
    const used = await c.login("admin", "admin");
    c.clock.offsetMs = 29 * 60_000;
    await c.fabricModel.touchApiSessions([used]);
    c.clock.offsetMs = 31 * 60_000;
    await c.model.apiSessions.sweep();
    c.clock.offsetMs = 0;
    await change("api-session-removed", ({ token }) => token === idle);
    expect((await c.call("GET", "/edge/client/v1/current-api-session", { token: used })).status).toBe(200);
  });

  it("tell of a new certificate", async () => {
    const token = await c.login("admin", "admin");
    const csr = await createCsr({ commonName: "s", keyPem: (await createKeyPair()).keyPem });
    await c.call("POST", "/edge/client/v1/current-api-session/certificates", { token, body: { csr } });
    await change(
      "api-session-updated",
      ({ session }) => session.token === token && session.certFingerprints.length === 1,
    );
  });
});

describe("API sessions whose one-time code is still to be given", () => {
  let made = 0;
  /** An identity with a policy that asks for codes, and a session of it that routers do not know. */
  async function partial() {
    const name = `partial ${++made}`;
    const secondary = { requireTotp: true };
    const authPolicyId = await c.make("auth-policies", authPolicy(name, { secondary }));
    const id = await c.make("identities", { name, type: "User", isAdmin: false, authPolicyId });
    await c.make("authenticators", { identityId: id, method: "updb", username: name, password: "secret" });
    const token = await c.login(name, "secret");
    expect(await isTold(token)).toBe(false);
    return { id, authPolicyId, token };
  }
  /** Once all changes up to now were told. */
  async function isTold(token: string): Promise<boolean> {
    const later = await c.login("admin", "admin");
    await change("api-session-added", ({ session }) => session.token === later);
    return seen.some((each) => each.kind === "api-session-added" && each.session.token === token);
  }

  it("are told of when their policy, or that of their identity, asks for none any more", async () => {
    const { authPolicyId, token } = await partial();
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { secondary: { requireTotp: false } });
    await change("api-session-added", ({ session }) => session.token === token);
    const other = await partial();
    await c.admin("PATCH", `/identities/${other.id}`, { authPolicyId: "default" });
    await change("api-session-added", ({ session }) => session.token === other.token);
  });

  it("are told of when the enrollment that asked for it is removed", async () => {
    const { id, authPolicyId, token } = await partial();
    await c.ctx.store.db
      .insertInto("mfa")
      .values({
        id: `mfa ${id}`,
        identity_id: id,
        secret: Buffer.alloc(1),
        recovery_codes: Buffer.alloc(1),
        is_verified: true,
      })
      .execute();
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { secondary: { requireTotp: false } });
    expect(await isTold(token)).toBe(false);
    await c.admin("DELETE", `/identities/${id}/mfa`);
    await change("api-session-added", ({ session }) => session.token === token);
  });

  it("are sent all again when they are very many", async () => {
    const { id, authPolicyId } = await partial();
    await sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, config_types, cert_fingerprints,
        improper_client_cert_chain, created_at, updated_at, last_activity_at, is_mfa_required)
      SELECT 'many ' || n, gen_random_uuid(), ${id}, '', '', '{}', '{}', false, now(), now(), now(), true
      FROM generate_series(1, 1000) n`.execute(c.ctx.store.db);
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { secondary: { requireTotp: false } });
    await change("api-sessions-added", () => true);
    await c.ctx.store.db.deleteFrom("api_session").where("identity_id", "=", id).execute();
  });
});

describe("terminators of routers", () => {
  it("are made, made again by a retry, refused when something else has the id, and removed by their router only", async () => {
    const admin = { name: "t", type: "User", isAdmin: false };
    const host = await c.model.identities.create({ ...defaults, ...admin, type: "User", name: "host" });
    const serviceId = await c.make("services", { name: "t-svc", encryptionRequired: false });
    const routerId = await c.make("edge-routers", { name: "t-er" });
    const another = await c.make("identities", { name: "another host", type: "Device", isAdmin: false });
    await c.make("service-policies", {
      ...{ name: "t-bind", type: "Bind", semantic: "AnyOf" },
      ...{ identityRoles: [`@${host}`, `@${another}`], serviceRoles: [`@${serviceId}`] },
    });
    const terminator: NewTerminator = {
      id: "router-made-id",
      serviceId,
      routerId,
      binding: "edge",
      address: "router-made-id",
      instanceId: "i-1",
      instanceSecret: Buffer.from("s"),
      cost: 3,
      precedence: "default",
      peerData: new Map([[1003, Buffer.from([1, 2, 3])]]),
      hostId: host,
    };
    const statements: string[] = [];
    const db = interposed(c.ctx.store as Store, (text, run) => {
      statements.push(text);
      return run();
    });
    const transaction: Store["transaction"] = (work) => db.transaction().execute(work);
    const ctx = { ...c.ctx, store: { ...c.ctx.store, db, transaction } };
    const created = await fabricTerminators(ctx, c.model, new CircuitFacts(c.ctx.store.changes)).createTerminator(
      terminator,
    );
    expect(created.outcome).toBe("created");
    expect(statements.filter((text) => /from "service" where .* for key share/i.test(text))).toHaveLength(1);
    const [stored] = await c.fabricModel.terminatorsOfService(serviceId);
    expect(stored).toMatchObject({ id: "router-made-id", cost: 3, instanceId: "i-1", hostId: host });
    expect(stored?.peerData.get(1003)).toEqual(Buffer.from([1, 2, 3]));
    const page = await c.fabricModel.terminatorsOfRouter(routerId, "", 10);
    expect(await c.fabricModel.deleteUnchanged("other-router", page)).toEqual([]);
    const retried = await c.fabricModel.createTerminator({ ...terminator, cost: 4 });
    // It was asked for again since it was read.
    expect(await c.fabricModel.deleteUnchanged(routerId, page)).toEqual([]);
    expect(retried).toMatchObject({ outcome: "existing", terminator: { cost: 4 } });
    expect(await c.fabricModel.createTerminator({ ...terminator, hostId: another, instanceId: "" })).toMatchObject({
      outcome: "conflict",
    });
    const withoutSecret = { ...terminator, id: "other", hostId: another, instanceSecret: Buffer.from("t") };
    expect(await c.fabricModel.createTerminator(withoutSecret)).toMatchObject({ outcome: "rejected" });
    const refused = async (change: Partial<NewTerminator>) =>
      await c.fabricModel.createTerminator({ ...terminator, id: "refused", ...change });
    expect(await refused({ serviceId: "gone" })).toEqual({ outcome: "rejected", message: "service gone is unknown" });
    expect(await refused({ routerId: "gone" })).toEqual({ outcome: "rejected", message: "router gone is unknown" });
    expect(await refused({ hostId: "gone", serviceId: "gone" })).toEqual({
      outcome: "denied",
      message: "identity gone is unknown",
    });
    const nonHost = await c.make("identities", { name: "no host", type: "Device", isAdmin: false });
    expect(await refused({ hostId: nonHost, routerId: "gone" })).toEqual({
      outcome: "denied",
      message: `identity ${nonHost} may not host service ${serviceId} any more`,
    });
    await c.fabricModel.quiesceRouter(routerId);
    expect((await c.fabricModel.findTerminator("router-made-id"))?.precedence).toBe("failed");
    await c.fabricModel.dequiesceRouter(routerId);
    expect((await c.fabricModel.findTerminator("router-made-id"))?.precedence).toBe("default");
    expect(await c.fabricModel.updateTerminator("router-made-id", { precedence: "required" })).toBe(true);
    expect(await c.fabricModel.updateTerminator("none", { cost: 1 })).toBe(false);
    expect(await c.fabricModel.deleteTerminators("other-router", ["router-made-id"])).toEqual([]);
    const now = await c.fabricModel.terminatorsOfRouter(routerId, "", 10);
    expect(await c.fabricModel.deleteUnchanged(routerId, now)).toEqual(["router-made-id"]);
    expect(await c.fabricModel.createTerminator(terminator)).toMatchObject({ outcome: "created" });
    expect(await c.fabricModel.deleteTerminators(routerId, ["router-made-id", "none"])).toEqual(["router-made-id"]);
    await change("terminator-removed", (each) => each.terminatorId === "router-made-id");
  });
});

describe("routers", () => {
  it("are told of themselves, with the configs that they have", async () => {
    const routerId = await c.make("edge-routers", { name: "configured" });
    expect(await c.fabricModel.routerConfigs("none")).toBeUndefined();
    const about = { id: routerId, name: "configured", fingerprint: "", isDisabled: false };
    expect(await c.fabricModel.routerConfigs(routerId)).toEqual({ ...about, configs: [] });
    const typeId = await c.make("config-types", { name: "for-routers", schema: { type: "object" } });
    const configId = await c.make("configs", { name: "own", configTypeId: typeId, data: { a: 1 } });
    const { db } = c.ctx.store;
    await db
      .insertInto("router_config")
      .values({ router_id: routerId, config_type_id: typeId, config_id: configId })
      .execute();
    expect(await c.fabricModel.routerConfigs(routerId)).toEqual({
      ...about,
      configs: [{ id: configId, typeId, name: "own", data: '{"a":1}' }],
    });
    const told = Promise.withResolvers<string>();
    const stop = c.fabricModel.onChange((change) => {
      if (change.kind === "router-changed") told.resolve(change.routerId);
    });
    await c.admin("PATCH", `/configs/${configId}`, { data: { a: 2 } });
    expect(await told.promise).toBe(routerId);
    stop();
  });

  it("renew their certificate in two steps, and the change is told", async () => {
    const routerId = await c.make("edge-routers", { name: "renewing" });
    const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${routerId}`)).json.data;
    const { keyPem } = await createKeyPair();
    const csr = await createCsr({ commonName: routerId, keyPem });
    await c.call("POST", `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`, {
      body: { certCsr: csr, serverCertCsr: csr },
    });
    const old = (await c.fabricModel.findRouter(routerId))?.fingerprint ?? "";
    const extend = async (fingerprint: string, clientCsrPem: string) =>
      await c.fabricModel.extendRouterCertificates({
        fingerprint,
        clientCsrPem,
        serverCsrPem: csr,
        requireVerification: true,
      });
    expect(await extend("00", csr)).toEqual({ refused: expect.stringContaining("no router has the certificate 00") });
    expect(await extend(old, "no request")).toEqual({ refused: expect.stringMatching(/^the client CSR could not/) });
    const extended = await extend(old, csr);
    if ("refused" in extended) throw new Error(extended.refused);
    expect((await c.fabricModel.findRouter(routerId))?.fingerprint).toBe(old);
    const wrong = await c.fabricModel.verifyRouterCertificate({
      fingerprint: old,
      clientCertPem: extended.serverCertPem,
    });
    expect(wrong?.code).toBe("INVALID_CLIENT_PEM");
    expect(
      await c.fabricModel.verifyRouterCertificate({ fingerprint: old, clientCertPem: extended.clientCertPem }),
    ).toBeUndefined();
    const renewed = await c.fabricModel.findRouter(routerId);
    expect(renewed?.fingerprint).not.toBe(old);
    expect(await c.model.routers.findByFingerprint(c.ctx.store.db, old)).toBeUndefined();
    await c.admin("POST", `/edge-routers/${routerId}/re-enroll`);
    expect((await c.fabricModel.findRouter(routerId))?.fingerprint).toBeUndefined();
    await c.admin("DELETE", `/edge-routers/${routerId}`);
    await change("router-removed", (each) => each.routerId === routerId);
  });

  it("with a tunneler act as their identity", async () => {
    const plain = await c.make("edge-routers", { name: "plain" });
    expect(await c.fabricModel.openTunnelApiSession(plain, TUNNELER)).toEqual({ denied: 7 });
    const routerId = await c.make("edge-routers", { name: "tunneler", isTunnelerEnabled: true });
    await c.make("services", { name: "tunneled", encryptionRequired: false });
    await c.make("service-policies", {
      name: "tunneled",
      type: "Bind",
      semantic: "AnyOf",
      identityRoles: [`@${routerId}`],
      serviceRoles: ["@tunneled"],
    });
    await c.make("service-edge-router-policies", {
      name: "tunneled",
      semantic: "AnyOf",
      serviceRoles: ["#all"],
      edgeRouterRoles: ["#all"],
    });
    const opened = await c.fabricModel.openTunnelApiSession(routerId, TUNNELER);
    expect(opened).toMatchObject({ identityId: routerId, identityName: "tunneler", refreshIntervalSeconds: 1790 });
    await settled(c.ctx.store);
    const listed = await c.fabricModel.tunnelServices(routerId, "");
    expect(listed).toMatchObject({ services: [{ name: "tunneled", permissions: ["Bind"], configJson: "{}" }] });
    const lastUpdate = (listed as { lastUpdate: string }).lastUpdate;
    expect(await c.fabricModel.tunnelServices(routerId, lastUpdate)).toBeUndefined();
    const request = { routerId, apiSessionId: "", serviceName: "tunneled", remoteAddress: "10.0.0.1:5" };
    const bound = await c.fabricModel.openTunnelSession({ ...request, type: "Bind" });
    expect(bound).toMatchObject({ identityId: routerId, service: { name: "tunneled" } });
    expect(await c.fabricModel.openTunnelSession({ ...request, type: "Dial" })).toMatchObject({ denied: 14 });
    // Refused or not, a router that names no API session is given the one there is.
    expect(bound).toMatchObject({ newApiSession: { id: (opened as { id: string }).id } });
    const sessions = await c.admin("GET", `/api-sessions?filter=${encodeURIComponent(`identity="${routerId}"`)}`);
    expect(sessions.json.data).toHaveLength(1);
  });
});

const defaults = {
  name: "",
  type: "User",
  isAdmin: false,
  appData: {},
  defaultHostingCost: 0,
  defaultHostingPrecedence: "default",
  permissions: [],
  roleAttributes: [],
  serviceHostingCosts: {},
  serviceHostingPrecedences: {},
  tags: {},
} as const satisfies object as never as Parameters<TestController["model"]["identities"]["create"]>[0];
