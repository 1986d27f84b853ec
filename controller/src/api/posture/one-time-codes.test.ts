import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { isDenial } from "../../fabric/ports.ts";
import { startGatedController } from "../testing/gated-controller.ts";
import type { TestController } from "../testing/test-controller.ts";

type Gated = Awaited<ReturnType<typeof startGatedController>>;

let c: TestController;
let codeOf: Gated["codeOf"];
let removed: Gated["removed"];
let gated: Gated["gated"];
beforeAll(async () => {
  ({ c, codeOf, removed, gated } = await startGatedController());
});
afterAll(() => c.close());
afterEach(() => {
  c.clock.offsetMs = 0;
});

describe("a check for one-time codes", () => {
  const MFA = { typeId: "MFA", timeoutSeconds: 60, promptOnWake: true, promptOnUnlock: true };

  it("passes for a while after a code was given in the session, and then ends its sessions", async () => {
    const g = await gated(MFA);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    expect(await g.queries()).toMatchObject([
      { isPassing: false, postureQueries: [{ queryType: "MFA", timeout: 60, timeoutRemaining: 0, processes: null }] },
    ]);
    const before = await g.stamp();
    const secret = await g.useTotp();
    expect(await g.stamp()).not.toBe(before);
    const [{ isPassing, postureQueries }] = await g.queries();
    expect([isPassing, postureQueries[0].timeout]).toEqual([true, 60]);
    expect(postureQueries[0].timeoutRemaining).toBeGreaterThan(50);
    const session = (await g.session()).json.data;
    expect(isDenial(await g.dial(session.token))).toBe(false);

    c.clock.offsetMs += 61_000;
    await removed(session.token);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    expect((await g.queries())[0].postureQueries[0]).toMatchObject({ isPassing: false, timeoutRemaining: 0 });
    expect((await g.client("POST", "/authenticate/mfa", { code: codeOf(secret) })).status).toBe(200);
    expect((await g.session()).status).toBe(201);
  });

  it("wants a code again within five minutes after the device woke up or was unlocked", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: 0 });
    const secret = await g.useTotp();
    const session = (await g.session()).json.data;
    expect((await g.queries())[0].postureQueries[0]).toMatchObject({ timeout: -1, timeoutRemaining: -1 });
    const asked = (await g.queries())[0].postureQueries[0].updatedAt;
    const nothing = await g.report({ id: "0", typeId: "ENDPOINT_STATE", woken: false, unlocked: false });
    expect(nothing.json.data.services).toEqual([]);

    c.clock.offsetMs += 1000;
    const before = await g.stamp();
    const woken = await g.report({ id: "0", typeId: "ENDPOINT_STATE", woken: true });
    expect(woken.json.data.services).toEqual([
      { id: g.serviceId, name: g.n, postureQueryType: "MFA", timeout: -1, timeoutRemaining: 300 },
    ]);
    expect(await g.stamp()).not.toBe(before);
    const [query] = (await g.queries())[0].postureQueries;
    expect(query.isPassing).toBe(true);
    expect(query.timeoutRemaining).toBeGreaterThan(290);
    expect(query.updatedAt > asked).toBe(true);
    const posture = (await c.admin("GET", `/identities/${g.identityId}/posture-data`)).json.data;
    const [mine] = Object.values(posture.apiSessionPostureData) as [{ endpointState: object; mfa: object }];
    expect(mine).toMatchObject({
      endpointState: { unlockedAt: null, wokenAt: expect.any(String) },
      mfa: { passedMfa: true, passedOnWake: true, passedOnUnlock: true },
    });
    expect(isDenial(await g.dial(session.token))).toBe(false);

    c.clock.offsetMs += 301_000;
    await removed(session.token);
    expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    await g.client("POST", "/authenticate/mfa", { code: codeOf(secret) });
    expect((await g.session()).status).toBe(201);
  });

  it("is answered per API session: another one of the identity has its own", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: -1 });
    await g.useTotp();
    const other = await g.login();
    expect((await g.session()).status).toBe(201);
    const request = { token: other, body: { serviceId: g.serviceId, type: "Dial" } };
    expect((await c.call("POST", "/edge/client/v1/sessions", request)).status).toBe(401);
  });

  it("fails when the identity stops to use codes, or an administrator removes them", async () => {
    for (const end of ["own", "admin"]) {
      const g = await gated({ ...MFA, timeoutSeconds: -1 });
      const secret = await g.useTotp();
      const session = (await g.session()).json.data;
      if (end === "admin") await c.admin("DELETE", `/identities/${g.identityId}/mfa`);
      else {
        await c.call("DELETE", "/edge/client/v1/current-identity/mfa", {
          token: g.token,
          headers: { "mfa-validation-code": codeOf(secret) },
        });
      }
      await removed(session.token);
      expect((await g.session()).json.error.code).toBe("INVALID_POSTURE");
    }
  });

  it("reports no timeout to clients that do not know it, when it is told so", async () => {
    const g = await gated({ ...MFA, ignoreLegacyEndpoints: true });
    await g.useTotp();
    const remaining = async () => (await g.queries())[0].postureQueries[0].timeoutRemaining;
    expect(await remaining()).toBe(-1);
    for (const [version, knows] of [
      ["0.24.9", false],
      ["0.25.0", true],
      ["v1.9.10", true],
      ["dev", false],
    ] as const) {
      await c.call("POST", "/edge/client/v1/authenticate?method=password", {
        body: { username: `user ${g.n}`, password: "password", sdkInfo: { type: "ziti-sdk-c", version } },
      });
      expect([version, (await remaining()) >= 0]).toEqual([version, knows]);
    }
  });

  it("knows after a restart when codes were given", async () => {
    const g = await gated({ ...MFA, timeoutSeconds: 3600 });
    await g.useTotp();
    const { Posture } = await import("../../model/posture/posture.ts");
    const restarted = new Posture(c.ctx, c.model.policy);
    const identity = { id: g.identityId, attrs: [g.n] };
    const { id } = (await g.client("GET", "/current-api-session")).json.data;
    expect(await restarted.failures(identity, id, g.serviceId, "Dial")).toEqual([]);
    expect(await restarted.failures(identity, "another", g.serviceId, "Dial")).toHaveLength(1);
  });
});
