import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

test("costs and precedences are of services that exist: 404 naming one that does not; what was given stays when the service goes", async () => {
  const identity = { name: "host", type: "Device", isAdmin: false };
  const cause = { code: "UNHANDLED", message: "service with id nowhere not found" };
  for (const hosting of [
    { serviceHostingCosts: { nowhere: 1 } },
    { serviceHostingPrecedences: { nowhere: "failed" } },
  ]) {
    const refused = await c.admin("POST", "/identities", { ...identity, ...hosting });
    expect([refused.status, refused.json.error]).toEqual([404, expect.objectContaining({ code: "NOT_FOUND", cause })]);
  }
  const service = await c.make("services", { name: "hosted", encryptionRequired: true });
  const id = await c.make("identities", { ...identity, serviceHostingCosts: { [service]: 7 } });
  expect((await c.admin("PATCH", `/identities/${id}`, { serviceHostingCosts: { nowhere: 1 } })).status).toBe(404);
  expect((await c.admin("DELETE", `/services/${service}`)).status).toBe(200);
  const kept = { ...identity, serviceHostingCosts: { [service]: 8 } };
  expect((await c.admin("PUT", `/identities/${id}`, kept)).status).toBe(200);
});
