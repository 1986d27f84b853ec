import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { certificateIdentity, OidcTestClient } from "../oidc/testing/oidc-client.ts";
import { ThirdParty } from "./testing/third-party.ts";

let c: TestController;
beforeEach(async () => {
  const rateLimits = { ...CONTROLLER_DEFAULTS.auth.rateLimits, address: { burst: 5, perMinute: 1 } };
  c = await startTestController({ auth: { ...CONTROLLER_DEFAULTS.auth, rateLimits } });
});
afterEach(() => c.close());

it("a client with a certificate of the network logs in from an address that other clients have used up", async () => {
  const { keyPem } = await createKeyPair();
  const enrollment = { ott: true };
  const id = await c.make("identities", { name: "operator", type: "Device", isAdmin: true, enrollment });
  const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  const clientCsr = await createCsr({ commonName: "operator", keyPem });
  const enrolled = await c.call("POST", `/edge/client/v1/enroll?token=${token}`, { body: { clientCsr } });
  const login = async (method: string, more: { cert?: string; key?: string; body?: object }) =>
    (await c.call("POST", `/edge/management/v1/authenticate?method=${method}`, { body: {}, ...more })).status;
  const wrong = { body: { username: "nobody", password: "wrong" } };
  const answers = new Set<number>();
  for (let i = 0; i < 6; i++) answers.add(await login("password", wrong));
  expect([...answers]).toEqual([401, 429]);
  expect(await login("cert", { cert: enrolled.json.data.cert, key: keyPem })).toBe(200);
  // A certificate that any client can make.
  const outsider = await (await ThirdParty.create("of an outsider")).issue({ commonName: "operator" });
  expect(await login("cert", { cert: outsider.certPem, key: outsider.keyPem })).toBe(429);
});

it("such a client logs in by OIDC, uses its tokens and refreshes them there, too", async () => {
  const { cert, key } = await certificateIdentity(c, "device");
  const others = new OidcTestClient(c);
  const client = new OidcTestClient(c, { cert, key });
  const begun = new Set<number>();
  for (let i = 0; i < 6; i++) begun.add((await others.authorize()).status);
  expect([...begun]).toEqual([302, 429]);
  const spoilt = async (text: string) => (await others.refresh(`${text.slice(0, text.lastIndexOf("."))}.AAAA`)).status;
  const { json: tokens } = await client.logIn("cert");
  const answers = new Set<number>();
  for (let i = 0; i < 6; i++) answers.add(await spoilt(tokens.refresh_token));
  expect([...answers]).toEqual([400, 429]);
  const refreshed = await client.refresh(tokens.refresh_token);
  expect(refreshed.status).toBe(200);
  const authorization = `Bearer ${refreshed.json.access_token}`;
  const asked = { headers: { authorization } };
  expect((await client.call("GET", "/edge/client/v1/current-identity", asked)).status).toBe(200);
  // A certificate has a limit of its own.
  const own = new Set<number>();
  for (let i = 0; i < 6; i++) own.add((await client.authorize()).status);
  expect([...own]).toEqual([302, 429]);
});

async function enrolledRouter(): Promise<{ id: string; cert: string; key: string }> {
  const id = await c.make("edge-routers", { name: "proxy" });
  const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
  const { keyPem } = await createKeyPair();
  const csr = await createCsr({ commonName: id, keyPem });
  const enrolled = await c.call("POST", `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`, {
    body: { certCsr: csr, serverCertCsr: csr },
  });
  return { id, cert: enrolled.json.data.cert, key: keyPem };
}
const passedOn = (forwarded: string) => ({
  "x-edge-router-proxy-request": new Date().toISOString(),
  "x-forwarded-for": forwarded,
});

it("clients behind a router count by the address that it names, and all of them for the router", async () => {
  const { id, ...router } = await enrolledRouter();
  const asked = vi.spyOn(c.model.routers, "findByFingerprint");
  const from = async (forwarded: string, by: object = router) => {
    const options = { ...by, headers: passedOn(forwarded), body: {} };
    return (await c.call("POST", "/edge/client/v1/enroll?method=ott&token=none", options)).status;
  };
  const answers = new Set<number>();
  // What the client wrote itself stands before.
  for (let i = 0; i < 6; i++) answers.add(await from(`198.51.100.${i}, 192.0.2.1`));
  expect([...answers]).toEqual([400, 429]);
  // Nor does it use up the router's share.
  for (let i = 0; i < 60; i++) answers.add(await from("192.0.2.1"));
  expect(await from("192.0.2.2")).toBe(400);
  // A router that makes addresses up has ten times what one address has.
  for (let i = 0; i < 50; i++) answers.add(await from(`2001:db8:${i}::1`));
  expect(await from("192.0.2.3")).toBe(429);
  // Whether it is a router is asked once in a few seconds.
  expect(asked.mock.calls.length).toBeLessThan(30);
  // Who is no router of the network gains nothing by saying that it passes on; others have what is theirs.
  expect(await from("192.0.2.4", {})).toBe(400);
  const outsider = await (await ThirdParty.create("of an outsider")).issue({ commonName: id });
  for (let i = 0; i < 5; i++) await from(`192.0.2.${10 + i}`, { cert: outsider.certPem, key: outsider.keyPem });
  expect(await from("192.0.2.40", { cert: outsider.certPem, key: outsider.keyPem })).toBe(429);
});

it("wrong passwords of one client behind a router lock out no other client behind it", async () => {
  await c.close();
  const rateLimits = { ...CONTROLLER_DEFAULTS.auth.rateLimits, failures: { burst: 2, perMinute: 1 } };
  c = await startTestController({ auth: { ...CONTROLLER_DEFAULTS.auth, rateLimits } });
  const { id: _, ...router } = await enrolledRouter();
  const identityId = await c.make("identities", { name: "alice", type: "User", isAdmin: false });
  const user = { method: "updb", username: "alice", password: "Start-1" };
  const id = await c.make("authenticators", { identityId, ...user });
  const token = await c.login("alice", "Start-1");
  const login = async (forwarded: string, password: string) => {
    const options = { ...router, headers: passedOn(forwarded), body: { username: "alice", password } };
    return (await c.call("POST", "/edge/client/v1/authenticate?method=password", options)).status;
  };
  const change = async (forwarded: string, currentPassword: string) => {
    const body = { username: "alice", password: "Start-2", currentPassword };
    const options = { ...router, headers: passedOn(forwarded), token, body };
    return (await c.call("PUT", `/edge/client/v1/current-identity/authenticators/${id}`, options)).status;
  };
  expect([await login("192.0.2.1", "wrong"), await change("192.0.2.1", "wrong")]).toEqual([401, 401]);
  expect([await login("192.0.2.1", "Start-1"), await change("192.0.2.1", "Start-1")]).toEqual([429, 429]);
  expect([await login("192.0.2.2", "Start-1"), await change("192.0.2.2", "Start-1")]).toEqual([200, 200]);
});
