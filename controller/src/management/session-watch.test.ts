/** Channels of administrators end at once when their session does, whoever ends it. */
import { once } from "node:events";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createApi } from "../api/api.ts";
import type { FabricView, NetworkView } from "../api/dependencies.ts";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { loginByOidc, type OidcClient, tokenSubject } from "../api/testing/oidc-client.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { Dispatcher } from "../events/dispatcher.ts";
import { TestFabric } from "../fabric/testing/test-fabric.ts";
import { startTestApi, type TestApi } from "../http/testing/test-api.ts";
import { NetworkMemory } from "../replicas/network-memory.ts";
import { WholeNetwork } from "../replicas/whole-network.ts";
import { Management } from "./management.ts";
import { ManagementClient } from "./testing/management-client.ts";

const PASSWORD = "correct horse";
/** Far less than the regular look at sessions. */
const AT_ONCE_MS = 1_000;

let c: TestController;
let fabric: TestFabric;
let management: Management;
let api: TestApi;
let count = 0;
beforeAll(async () => {
  c = await startTestController();
  fabric = await TestFabric.start();
  management = new Management({
    ...{ controllerId: "ctrl1", db: c.ctx.store.db, changes: c.ctx.store.changes },
    ...{ fabric: fabric.fabric, network: new WholeNetwork(fabric.fabric), model: fabric.model },
    replicas: c.replicas,
    dispatcher: new Dispatcher({ sourceId: "ctrl1", log: silentLogger }),
    snapshot: async () => "",
    dataModelProblems: async () => [],
    log: silentLogger,
  });
  const { authenticate } = createApi({
    ...{ ctx: c.ctx, model: c.model, auth: CONTROLLER_DEFAULTS.auth },
    // Only sessions are looked up here.
    fabric: {} as FabricView,
    network: {} as NetworkView,
    memory: new NetworkMemory(c.model),
    info: {
      version: { version: "v1", revision: "r", buildDate: "d", os: "o", arch: "a" },
      runtimeVersion: "n",
      apiAddress: "",
    },
  });
  api = await startTestApi({ handlers: {}, upgrades: [management], authenticate });
});
afterAll(async () => {
  await management.close();
  await api.close();
  await fabric.stop();
  await c.close();
});

interface Administrator {
  readonly id: string;
  readonly authenticatorId: string;
  readonly authPolicyId: string;
  readonly username: string;
  readonly password: string;
}
let admin: Administrator;
beforeEach(async () => {
  c.clock.offsetMs = 0;
  const username = `admin-${++count}`;
  const authPolicyId = await c.make("auth-policies", authPolicy(username));
  const id = await c.make("identities", { name: username, type: "User", isAdmin: true, authPolicyId });
  const body = { identityId: id, method: "updb", username, password: PASSWORD };
  admin = { id, authPolicyId, username, password: PASSWORD, authenticatorId: await c.make("authenticators", body) };
});

const open = (credential: { token?: string; bearer?: string }) =>
  ManagementClient.connect({ port: api.port, ca: api.authority.certPem, ...credential });

/** How long after `end` the channel was closed. */
async function closes(client: ManagementClient, end: () => Promise<unknown>): Promise<number> {
  const closed = once(client.socket, "close");
  await end();
  const at = performance.now();
  await closed;
  return performance.now() - at;
}

const revoke = (client: OidcClient) => c.model.revocations.create({ id: client.jti, type: "JTI" });

describe("a channel ends at once when", () => {
  it.each<[string, (client: OidcClient) => Promise<unknown>]>([
    ["its session is deleted", ({ id }) => c.admin("DELETE", `/api-sessions/${id}`)],
    ["its token is revoked", revoke],
    ["its identity is disabled", () => c.admin("POST", `/identities/${admin.id}/disable`, { durationMinutes: 5 })],
    [
      "its identity is no administrator any more",
      () => c.admin("PATCH", `/identities/${admin.id}`, { isAdmin: false }),
    ],
    [
      "its auth policy asks for a code",
      () => c.admin("PATCH", `/auth-policies/${admin.authPolicyId}`, { secondary: { requireTotp: true } }),
    ],
    [
      "its password is changed",
      () => c.admin("PATCH", `/authenticators/${admin.authenticatorId}`, { password: "new one" }),
    ],
  ])("%s", async (_, end) => {
    const client = await loginByOidc(c, admin);
    const channel = await open({ bearer: client.accessToken });
    expect(await closes(channel, () => end(client))).toBeLessThan(AT_ONCE_MS);
  });

  it("the session of a session token ends", async () => {
    const token = await c.login(admin.username, PASSWORD);
    const channel = await open({ token });
    const logout = () => c.call("DELETE", "/edge/management/v1/current-api-session", { token });
    expect(await closes(channel, logout)).toBeLessThan(AT_ONCE_MS);
  });
});

describe("a channel lasts while", () => {
  it("its session has an access token, though the one that opened it has ended", async () => {
    const { id, accessToken } = await loginByOidc(c, admin);
    const channel = await open({ bearer: accessToken });
    const { accessMs } = c.ctx.settings.oidc;
    c.clock.offsetMs = accessMs - 60_000;
    await c.model.oidcSessions.extend(id, c.ctx.tokens.issuer.access(await tokenSubject(c, id)).expiresAt);
    c.clock.offsetMs = accessMs + 60_000;
    await expect(open({ bearer: accessToken })).rejects.toThrow("401");
    const other = await loginByOidc(c, admin);
    // A change of the identity has every channel of it looked at.
    await c.admin("PATCH", `/identities/${admin.id}`, { tags: { a: "b" } });
    expect(await closes(await open({ bearer: other.accessToken }), () => revoke(other))).toBeLessThan(AT_ONCE_MS);
    expect(channel.socket.readyState).toBe(channel.socket.OPEN);
    c.clock.offsetMs = 2 * accessMs;
    const end = () => c.admin("PATCH", `/identities/${admin.id}`, { tags: { a: "c" } });
    expect(await closes(channel, end)).toBeLessThan(AT_ONCE_MS);
  });
});
