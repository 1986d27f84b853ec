import { EventEmitter, once } from "node:events";
import { expect } from "vitest";
import { totpCode } from "../../model/identity/one-time-codes.ts";
import { settled } from "../../store/testing/test-store.ts";
import { startTestController, type TestController } from "./test-controller.ts";

/** A controller with an edge router for all, where services are gated by posture checks. */
export async function startGatedController() {
  const c = await startTestController();
  const gone = new Set<string>();
  const removals = new EventEmitter();
  c.fabricModel.onChange((change) => {
    if (change.kind !== "session-removed") return;
    gone.add(change.token);
    removals.emit("session");
  });
  const routerId = await c.make("edge-routers", { name: "router" });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", identityRoles: ["#all"], ...all });
  await c.make("service-edge-router-policies", { name: "all", serviceRoles: ["#all"], ...all });
  let count = 0;
  return {
    c,
    routerId,
    codeOf: (secret: string) => codeOf(c, secret),
    /** Resolves once the routers were told that the session is gone. */
    async removed(token: string): Promise<void> {
      while (!gone.has(token)) await once(removals, "session");
    },
    /** An identity, a service, and a policy between them that asks for the checks; the identity's session. */
    gated: (...checks: object[]) => gated(c, routerId, `n${++count}`, checks),
  };
}

function codeOf(c: TestController, secret: string): string {
  return totpCode(secret, new Date(Date.now() + c.clock.offsetMs));
}

async function gated(c: TestController, routerId: string, n: string, checks: readonly object[]) {
  const checkIds: string[] = [];
  for (const [i, check] of checks.entries()) {
    checkIds.push(await c.make("posture-checks", { name: `${n} ${i}`, roleAttributes: [n], ...check }));
  }
  const identityId = await c.make("identities", { name: n, type: "User", isAdmin: false, roleAttributes: [n] });
  await c.make("authenticators", { identityId, method: "updb", username: `user ${n}`, password: "password" });
  const serviceId = await c.make("services", { name: n, encryptionRequired: false, roleAttributes: [n] });
  const policyId = await c.make("service-policies", {
    name: `policy ${n}`,
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: [`#${n}`],
    serviceRoles: [`#${n}`],
    postureCheckRoles: [`#${n}`],
  });
  const login = () => c.login(`user ${n}`, "password");
  let token = await login();
  const client = (method: string, path: string, body?: unknown) =>
    c.call(method, `/edge/client/v1${path}`, { token, body });
  return {
    n,
    identityId,
    serviceId,
    policyId,
    checkIds,
    /** Of the API session that calls. */
    get token() {
      return token;
    },
    login,
    /** The next calls are those of another API session. */
    async useNewLogin() {
      token = await login();
    },
    client,
    session: () => client("POST", "/sessions", { serviceId, type: "Dial" }),
    report: (...responses: object[]) => client("POST", "/posture-response-bulk", responses),
    queries: async () => (await client("GET", `/services/${serviceId}`)).json.data.postureQueries,
    async stamp() {
      await settled(c.ctx.store);
      return (await client("GET", "/current-api-session/service-updates")).json.data.lastChangeAt;
    },
    dial: (sessionToken: string) =>
      c.fabricModel.authorizeDial({ sessionToken, apiSessionToken: token, routerId, checksPosture: false }),
    /** Turns TOTP on and passes it; answers the secret. */
    async useTotp() {
      await client("POST", "/current-identity/mfa");
      const { provisioningUrl } = (await client("GET", "/current-identity/mfa")).json.data;
      const secret = new URL(provisioningUrl).searchParams.get("secret") ?? "";
      const verified = await client("POST", "/current-identity/mfa/verify", { code: codeOf(c, secret) });
      expect(verified.status).toBe(200);
      return secret;
    },
  };
}
