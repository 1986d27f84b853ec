import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { AUTH_DEFAULTS } from "./settings.ts";
import { ThirdParty } from "./testing/third-party.ts";

let c: TestController;
beforeAll(async () => {
  const rateLimits = { ...AUTH_DEFAULTS.rateLimits, address: { burst: 20, perMinute: 1 } };
  c = await startTestController({ auth: { ...AUTH_DEFAULTS, rateLimits } });
});
afterAll(() => c.close());

it("whoever has a certificate of the network logs in from an address that strangers have used up", async () => {
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
  for (let i = 0; i < 21; i++) answers.add(await login("password", wrong));
  expect([...answers]).toEqual([401, 429]);
  expect(await login("cert", { cert: enrolled.json.data.cert, key: keyPem })).toBe(200);
  // One that anybody can make.
  const stranger = await (await ThirdParty.create("of a stranger")).issue({ commonName: "operator" });
  expect(await login("cert", { cert: stranger.certPem, key: stranger.keyPem })).toBe(429);
});
