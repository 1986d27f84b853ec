import { createCsr, createKeyPair } from "@sallyport/wire";
import { sql } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Keyed, ThirdParty } from "../../auth/testing/third-party.ts";
import { registerCa } from "../testing/registered-ca.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const login = (who: Keyed, chain = "") =>
  c.call("POST", "/edge/client/v1/authenticate?method=cert", { body: {}, cert: who.certPem + chain, key: who.keyPem });
const isAlive = async (token: string) =>
  (await c.call("GET", "/edge/client/v1/current-api-session", { token })).status === 200;

/** An identity whose authenticator is this certificate. */
async function holder(name: string, certPem: string): Promise<string> {
  const identityId = await c.make("identities", { name, type: "Device", isAdmin: false });
  await c.make("authenticators", { identityId, method: "cert", certPem });
  return identityId;
}

async function enrolled(name: string): Promise<Keyed & { id: string; authenticatorId: string }> {
  const { keyPem } = await createKeyPair();
  const id = await c.make("identities", { name, type: "Device", isAdmin: false, enrollment: { ott: true } });
  const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  const clientCsr = await createCsr({ commonName: name, keyPem });
  const answer = await c.call("POST", `/edge/client/v1/enroll?token=${token}`, { body: { clientCsr } });
  const [authenticator] = (await c.admin("GET", `/identities/${id}/authenticators`)).json.data;
  return { id, authenticatorId: authenticator.id, keyPem, certPem: answer.json.data.cert };
}

describe("a certificate of a third party", () => {
  it.each(["ec", "rsa"] as const)("logs in over three tiers, intermediates in any order (%s)", async (key) => {
    const root = await ThirdParty.create(`root ${key}`, { key });
    const upper = await ThirdParty.create(`upper ${key}`, { parent: root, key });
    const lower = await ThirdParty.create(`lower ${key}`, { parent: upper, key });
    const caId = await registerCa(c, root, { name: `tiers ${key}` });
    const leaf = await lower.issue({ commonName: "leaf", key });
    const direct = await root.issue({ commonName: "direct", key });
    const id = await holder(`holder ${key}`, direct.certPem);
    expect((await login(direct)).json.data).toMatchObject({ identityId: id, improperClientCertChain: false });
    const { token } = await invite(caId, `tiered ${key}`);
    const chain = upper.certPem + lower.certPem;
    const enrolling = await c.call("POST", `/edge/client/v1/enroll?method=ottca&token=${token}`, {
      cert: leaf.certPem + chain,
      key: leaf.keyPem,
    });
    expect(enrolling.status).toBe(200);
    for (const order of [chain, lower.certPem + upper.certPem, root.certPem + upper.certPem + lower.certPem]) {
      expect((await login(leaf, order)).status).toBe(200);
    }
    expect((await login(leaf)).status).toBe(401);
    expect((await login(leaf, lower.certPem)).status).toBe(401);
  });

  it("GHSA-mrpr-756c-xm47: a certificate of the authority among those presented makes no client its holder", async () => {
    const root = await ThirdParty.create("victim CA");
    await registerCa(c, root, {
      name: "victim",
      externalIdClaim: claim({ location: "COMMON_NAME" }),
    });
    await c.make("identities", { name: "boss", type: "Device", isAdmin: true, externalId: "boss" });
    const genuine = await root.issue({ commonName: "boss" });
    expect((await login(genuine)).status).toBe(200);
    const evil = await ThirdParty.create("victim CA");
    const forged = await evil.issue({ commonName: "boss" });
    for (const chain of [
      genuine.certPem,
      root.certPem,
      genuine.certPem + root.certPem,
      evil.certPem + genuine.certPem,
    ]) {
      expect((await login(forged, chain)).status).toBe(401);
    }
    const network = await enrolled("network's own");
    expect((await login(forged, network.certPem)).status).toBe(401);
  });

  it("counts only while its authority is verified and may authenticate, and is bound to the one it came through", async () => {
    const root = await ThirdParty.create("one CA");
    const twin = await ThirdParty.create("twin CA", { parent: root });
    const caId = await registerCa(c, root, { name: "one" });
    const leaf = await twin.issue({ commonName: "leaf" });
    const { token } = await invite(caId, "bound");
    await c.call("POST", `/edge/client/v1/enroll?method=ottca&token=${token}`, {
      cert: leaf.certPem + twin.certPem,
      key: leaf.keyPem,
    });
    const session = (await login(leaf, twin.certPem)).json.data.token;
    await c.admin("PATCH", `/cas/${caId}`, { isAuthEnabled: false });
    expect(await isAlive(session)).toBe(false);
    expect((await login(leaf, twin.certPem)).status).toBe(401);
    // Another authority above the same leaf does not vouch for what was enrolled through this one.
    await registerCa(c, twin, { name: "twin" });
    expect((await login(leaf, twin.certPem)).status).toBe(401);
    await c.admin("PATCH", `/cas/${caId}`, { isAuthEnabled: true });
    expect((await login(leaf, twin.certPem)).status).toBe(200);
  });

  it("ends with its authority: authenticators, sessions and outstanding enrollments go", async () => {
    const root = await ThirdParty.create("gone CA");
    const caId = await registerCa(c, root, { name: "gone" });
    const leaf = await root.issue({ commonName: "leaf" });
    const id = await holder("gone holder", leaf.certPem);
    await invite(caId, "gone invited");
    const session = (await login(leaf)).json.data.token;
    expect((await c.admin("DELETE", `/cas/${caId}`)).status).toBe(200);
    expect(await isAlive(session)).toBe(false);
    expect((await c.admin("GET", `/identities/${id}/authenticators`)).json.data).toEqual([]);
    const filter = encodeURIComponent('method = "ottca"');
    expect(
      (await c.admin("GET", `/enrollments?filter=${filter}&limit=-1`)).json.data.map((e: { caId: string }) => e.caId),
    ).not.toContain(caId);
    expect((await login(leaf)).status).toBe(401);
  });

  it("names an identity by its claim, without an authenticator; another claim ends those sessions", async () => {
    const root = await ThirdParty.create("claiming CA");
    const caId = await registerCa(c, root, {
      name: "claiming",
      externalIdClaim: claim({ location: "SAN_EMAIL", matcher: "SUFFIX", matcherCriteria: "@acme.example" }),
    });
    const id = await c.make("identities", { name: "carol", type: "User", isAdmin: false, externalId: "carol" });
    const carol = await root.issue({ commonName: "x", emails: ["carol@acme.example"] });
    const answer = await login(carol);
    expect(answer.json.data).toMatchObject({ identityId: id, authenticatorId: `ca:${caId}` });
    for (const wrong of [
      { commonName: "x", emails: ["dave@acme.example"] },
      { commonName: "x", emails: ["carol@evil.example"] },
      { commonName: "carol" },
      { commonName: "x", emails: ["carol@acme.example"], usages: [SERVER_AUTH] },
    ]) {
      expect((await login(await root.issue(wrong))).status).toBe(401);
    }
    await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 5 });
    expect((await login(carol)).status).toBe(401);
    await c.admin("POST", `/identities/${id}/enable`, {});
    const session = (await login(carol)).json.data.token;
    await c.admin("PATCH", `/cas/${caId}`, { externalIdClaim: { index: 1 } });
    expect(await isAlive(session)).toBe(false);
    expect((await login(carol)).status).toBe(401);
  });

  it("that has ended counts only where the policy takes expired ones", async () => {
    const root = await ThirdParty.create("expiring CA");
    await registerCa(c, root, { name: "expiring" });
    const leaf = await root.issue({ commonName: "leaf", validMs: 3_600_000 });
    await holder("expiring holder", leaf.certPem);
    c.clock.offsetMs = 2 * 3_600_000;
    try {
      expect((await login(leaf)).status).toBe(200);
      const { primary, secondary, name } = (await c.admin("GET", "/auth-policies/default")).json.data;
      const strict = { ...primary, cert: { allowed: true, allowExpiredCerts: false } };
      expect((await c.admin("PUT", "/auth-policies/default", { name, primary: strict, secondary })).status).toBe(200);
      expect((await login(leaf)).status).toBe(401);
      await c.admin("PUT", "/auth-policies/default", { name, primary, secondary });
    } finally {
      c.clock.offsetMs = 0;
    }
  });
});

describe("a certificate of the network is extended", () => {
  let own = "/edge/client/v1/current-identity/authenticators";
  const session = async (who: Keyed) => (await login(who)).json.data.token;
  /** Calls with a certificate, in a session of it, what can be done to an authenticator. */
  const actsOn = (authenticatorId: string) => async (from: Keyed, action: string, body: object) =>
    c.call("POST", `${own}/${authenticatorId}/${action}`, {
      token: await session(from),
      body,
      cert: from.certPem,
      key: from.keyPem,
    });

  it("by its current holder; both count in turn, and what was asked for is told and then fulfilled", async () => {
    const who = await enrolled("extending");
    const ask = (rollKeys: boolean) =>
      c.admin("POST", `/authenticators/${who.authenticatorId}/request-extend`, { rollKeys });
    const stored = async () => (await c.admin("GET", `/authenticators/${who.authenticatorId}`)).json.data;
    expect((await login(who)).headers["ziti-authenticator-extend-requested"]).toBeUndefined();
    expect((await ask(true)).status).toBe(200);
    expect(await stored()).toMatchObject({ isExtendRequested: true, isKeyRollRequested: true });
    const asked = await login(who);
    expect(asked.headers["ziti-authenticator-extend-requested"]).toBe("true");
    expect(asked.json.data).toMatchObject({
      isCertExtendable: true,
      isCertExtendRequested: true,
      isCertKeyRollRequested: true,
    });

    const extend = async (from: Keyed, keyPem: string) => {
      const token = await session(from);
      const clientCertCsr = await createCsr({ commonName: "extended", keyPem });
      const call = (action: string, body: object) =>
        c.call("POST", `${own}/${who.authenticatorId}/${action}`, {
          token,
          body,
          cert: from.certPem,
          key: from.keyPem,
        });
      const answer = await call("extend", { clientCertCsr });
      expect(answer.json.data.ca).toBe(c.pki.caBundlePem);
      const next = { certPem: answer.json.data.clientCert as string, keyPem };
      expect([(await login(next)).status, (await login(from)).status]).toEqual([401, 200]);
      expect((await call("extend-verify", { clientCert: from.certPem })).json.error.code).toBe("INVALID_CLIENT_CERT");
      expect((await call("extend-verify", { clientCert: next.certPem })).status).toBe(200);
      expect([(await login(next)).status, (await login(from)).status]).toEqual([200, 401]);
      expect(await isAlive(token)).toBe(true);
      return next;
    };
    // The key was to be new, and is not: that is still asked for.
    const second = await extend(who, who.keyPem);
    expect(await stored()).toMatchObject({ isExtendRequested: true, lastExtendRolledKeys: false });
    // Under the specification's own name, too.
    own = "/edge/client/v1/authenticators";
    await extend(second, (await createKeyPair("P-384")).keyPem);
    expect(await stored()).toMatchObject({
      isExtendRequested: false,
      isKeyRollRequested: false,
      extendRequestedAt: null,
      lastExtendRolledKeys: true,
    });
  });

  it("so that both count until it is confirmed, where its holder asks for that, and no longer than a week", async () => {
    const who = await enrolled("overlapping");
    const keyed = async () => {
      const { keyPem } = await createKeyPair();
      return { keyPem, clientCertCsr: await createCsr({ commonName: "overlapping", keyPem }) };
    };
    const call = actsOn(who.authenticatorId);
    const extend = async (overlap?: boolean): Promise<Keyed> => {
      const { keyPem, clientCertCsr } = await keyed();
      const { json } = await call(who, "extend", { clientCertCsr, ...(overlap === undefined ? {} : { overlap }) });
      return { certPem: json.data.clientCert, keyPem };
    };
    const statuses = async (...all: Keyed[]) => await Promise.all(all.map(async (each) => (await login(each)).status));
    const replaced = await extend(true);
    expect(await statuses(who, replaced)).toEqual([200, 200]);
    // Another extension ends what the one before has given.
    expect(await statuses(who, replaced, await extend(false), await extend())).toEqual([200, 401, 401, 401]);
    const next = await extend(true);
    expect(await statuses(who, next)).toEqual([200, 200]);
    // Only the one in force is extended; the new one may confirm itself.
    const { clientCertCsr } = await keyed();
    expect((await call(next, "extend", { clientCertCsr })).json.error.code).toBe("INVALID_CLIENT_CERT");
    c.clock.offsetMs = 8 * 86_400_000;
    expect(await statuses(who, next)).toEqual([200, 401]);
    c.clock.offsetMs = 0;
    expect((await call(next, "extend-verify", { clientCert: next.certPem })).status).toBe(200);
    expect(await statuses(who, next)).toEqual([401, 200]);
  });

  it("and what an administrator asks for while it is confirmed is still asked for afterwards", async () => {
    const who = await enrolled("asked meanwhile");
    const call = actsOn(who.authenticatorId);
    const clientCertCsr = await createCsr({ commonName: "asked", keyPem: who.keyPem });
    const { json } = await call(who, "extend", { clientCertCsr });
    const token = await session(who);
    const { connection, db } = c.ctx.store;
    const other = new pg.Client(connection);
    await other.connect();
    await other.query("BEGIN");
    await other.query(
      "UPDATE authenticator SET is_extend_requested = true, is_key_roll_requested = true WHERE id = $1",
      [who.authenticatorId],
    );
    const confirmed = c.call("POST", `${own}/${who.authenticatorId}/extend-verify`, {
      ...{ token, cert: who.certPem, key: who.keyPem, body: { clientCert: json.data.clientCert } },
    });
    const waiting = sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await expect.poll(async () => (await waiting.execute(db)).rows.length).toBe(1);
    await other.query("COMMIT");
    await other.end();
    expect((await confirmed).status).toBe(200);
    const { data } = (await c.admin("GET", `/authenticators/${who.authenticatorId}`)).json;
    expect(data).toMatchObject({ isExtendRequested: true, isKeyRollRequested: true });
  });

  it("so that no login by the new one is refused while it is confirmed", async () => {
    const who = await enrolled("confirmed");
    const { keyPem } = who;
    const call = actsOn(who.authenticatorId);
    let current: Keyed = who;
    const refused: number[] = [];
    for (let rounds = 0; rounds < 10; rounds++) {
      const clientCertCsr = await createCsr({ commonName: "confirmed", keyPem });
      const { json } = await call(current, "extend", { clientCertCsr, overlap: true });
      const next: Keyed = { certPem: json.data.clientCert, keyPem };
      const confirmed = call(next, "extend-verify", { clientCert: next.certPem });
      let isConfirmed = false;
      const visitors = Array.from({ length: 3 }, async () => {
        while (!isConfirmed) {
          const { status } = await login(next);
          if (status !== 200) refused.push(status);
        }
      });
      expect((await confirmed).status).toBe(200);
      isConfirmed = true;
      await Promise.all(visitors);
      current = next;
    }
    expect(refused).toEqual([]);
  });

  it("by no other identity", async () => {
    const who = await enrolled("victim");
    const other = await enrolled("other");
    const clientCertCsr = await createCsr({ commonName: "x", keyPem: who.keyPem });
    const attempt = async (token: string, presented?: Keyed, id = who.authenticatorId, csr = clientCertCsr) => {
      const { status, json } = await c.call("POST", `${own}/${id}/extend`, {
        token,
        body: { clientCertCsr: csr },
        ...(presented && { cert: presented.certPem, key: presented.keyPem }),
      });
      return [status, json.error?.code];
    };
    const [mine, others] = [await session(who), await session(other)];
    expect(await attempt(mine)).toEqual([400, "INVALID_CLIENT_CERT"]);
    expect(await attempt(mine, other)).toEqual([400, "INVALID_CLIENT_CERT"]);
    expect(await attempt(others, who)).toEqual([404, "NOT_FOUND"]);
    expect(await attempt(mine, who, who.authenticatorId, "")).toEqual([400, "MISSING_OR_INVALID_CSR"]);
    expect(await attempt(mine, who, who.authenticatorId, "x")).toEqual([400, "COULD_NOT_PROCESS_CSR"]);
    const root = await ThirdParty.create("not extendable");
    await registerCa(c, root, { name: "not extendable" });
    const leaf = await root.issue({ commonName: "leaf" });
    const id = await holder("not extendable", leaf.certPem);
    const [{ id: foreign }] = (await c.admin("GET", `/identities/${id}/authenticators`)).json.data;
    expect(await attempt(await session(leaf), leaf, foreign)).toEqual([400, "INVALID_AUTHENTICATOR_PROPERTIES"]);
    expect((await c.admin("POST", `/authenticators/${foreign}/request-extend`, {})).json.error.code).toBe(
      "INVALID_AUTHENTICATOR_PROPERTIES",
    );
    expect((await c.admin("POST", "/authenticators/none/request-extend", {})).status).toBe(404);
  });
});

async function invite(caId: string, name: string): Promise<{ token: string }> {
  const id = await c.make("identities", { name, type: "Device", isAdmin: false, enrollment: { ottca: caId } });
  const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  return { token };
}

function claim(parts: object) {
  return { matcher: "ALL", matcherCriteria: null, parser: "NONE", parserCriteria: null, index: 0, ...parts };
}
