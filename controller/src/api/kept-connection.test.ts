/** Access tokens on a connection that is kept: what it has shown before is not verified again, and counts no longer than on a new one. */
import { Agent } from "node:https";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { authPolicy } from "./testing/auth-policy.ts";
import { loginByOidc, type OidcClient, tokenSubject } from "./testing/oidc-client.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

const PASSWORD = "correct horse";

let c: TestController;
let agent: Agent;
let count = 0;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());
beforeEach(() => {
  c.clock.offsetMs = 0;
  agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return () => agent.destroy();
});

async function user(): Promise<{ id: string; client: OidcClient }> {
  count += 1;
  const username = `user-${count}`;
  const id = await c.make("identities", { name: username, type: "User", isAdmin: false });
  await c.make("authenticators", { identityId: id, method: "updb", username, password: PASSWORD });
  return { id, client: await loginByOidc(c, { username, password: PASSWORD }) };
}

/** Whose the request is, or the status of the refusal. */
async function asked(tokens: readonly string[], path = "current-identity"): Promise<string | number> {
  const headers = { authorization: tokens.map((token) => `Bearer ${token}`) };
  const { status, json } = await c.call("GET", `/edge/client/v1/${path}`, { headers, agent });
  return status === 200 ? json.data.id : status;
}

it("a token is verified with its first request only", async () => {
  const { id, client } = await user();
  const verify = vi.spyOn(c.ctx.tokens.own, "access");
  for (let request = 0; request < 5; request++) expect(await asked([client.accessToken])).toBe(id);
  expect(verify).toHaveBeenCalledTimes(1);
  agent.destroy();
  expect(await asked([client.accessToken])).toBe(id);
  expect(verify).toHaveBeenCalledTimes(2);
  verify.mockRestore();
});

it("each request is its own token's, whichever the one before has shown", async () => {
  const [ann, bob] = [await user(), await user()];
  const [one, other] = [ann.client.accessToken, bob.client.accessToken];
  const shown = [[one], [other], [one], [], [one, other], [`${one}x`], [one.slice(0, -1)], [one], [other]];
  const answers: unknown[] = [];
  for (const tokens of shown) answers.push(await asked(tokens));
  expect(answers).toEqual([ann.id, bob.id, ann.id, 401, 401, 401, 401, ann.id, bob.id]);
});

it.each<[string, (one: { id: string; client: OidcClient }) => unknown]>([
  ["an administrator has ended the session", ({ client }) => c.admin("DELETE", `/api-sessions/${client.id}`)],
  ["it was revoked", ({ client }) => c.model.revocations.create({ id: client.jti, type: "JTI" })],
  ["its identity was disabled", ({ id }) => c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 5 })],
  ["its identity was deleted", ({ id }) => c.admin("DELETE", `/identities/${id}`)],
  [
    "it is over",
    () => {
      c.clock.offsetMs = c.ctx.settings.oidc.accessMs + 1_000;
    },
  ],
])("a token is refused with the next request when %s", async (_, happen) => {
  const one = await user();
  expect(await asked([one.client.accessToken])).toBe(one.id);
  await happen(one);
  expect(await asked([one.client.accessToken])).toBe(401);
  c.clock.offsetMs = 0;
});

it("a token proves no more than its login did when the policy asks for a further factor", async () => {
  const { id, client } = await user();
  expect(await asked([client.accessToken])).toBe(id);
  const authPolicyId = await c.make("auth-policies", authPolicy("codes", { secondary: { requireTotp: true } }));
  await c.admin("PATCH", `/identities/${id}`, { authPolicyId });
  expect(await asked([client.accessToken], "services")).toBe(401);
  expect(await asked([client.accessToken], "current-api-session")).toBe(client.id);
});

it("a token is refused with the next request when its key was replaced at once", async () => {
  const { id, client } = await user();
  expect(await asked([client.accessToken])).toBe(id);
  const { keys } = c.ctx.tokens;
  const isRead = new Promise<void>((resolve) => keys.onChange(resolve));
  await keys.rotate({ atOnce: true });
  expect(await asked([client.accessToken])).toBe(401);
  // The key that was removed counts no more at once; the one that signs in its place is read a moment later.
  await isRead;
  const anew = c.ctx.tokens.issuer.access(await tokenSubject(c, client.id));
  expect(await asked([anew.token])).toBe(id);
});
