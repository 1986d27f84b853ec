import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let path: string;
beforeAll(async () => {
  c = await startTestController();
  const identity = await c.make("identities", { name: "dialer", type: "Device", isAdmin: false });
  path = `/identities/${identity}/service-configs`;
});
afterAll(() => c.close());

async function pairs(): Promise<unknown[]> {
  return (await c.admin("GET", path)).json.data;
}

test("an identity has configs of its own: one for each service and type, the last one counts; what is taken back is the service's again", async () => {
  const configTypeId = await c.make("config-types", { name: "colour", schema: { type: "object" } });
  const [red, blue] = await Promise.all(
    ["red", "blue"].map((name) => c.make("configs", { name, configTypeId, data: { name } })),
  );
  const [web, mail] = await Promise.all(
    ["web", "mail"].map((name) => c.make("services", { name, encryptionRequired: true })),
  );
  const give = (...list: readonly object[]) => c.admin("POST", path, list);
  expect((await give({ serviceId: web, configId: red }, { serviceId: mail, configId: red })).status).toBe(200);
  expect((await give({ serviceId: web, configId: blue })).status).toBe(200);
  const given = await pairs();
  expect(given).toHaveLength(2);
  expect(given).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ serviceId: web, configId: blue }),
      expect.objectContaining({ serviceId: mail, configId: red }),
    ]),
  );
  // One that is not the one in use is not there to be taken back.
  expect((await c.admin("DELETE", path, [{ serviceId: web, configId: red }])).status).toBe(200);
  expect(await pairs()).toHaveLength(2);
  expect((await c.admin("DELETE", path, [{ serviceId: web, configId: blue }])).status).toBe(200);
  expect(await pairs()).toEqual([expect.objectContaining({ serviceId: mail, configId: red })]);
});

test("of a list with a service or config that does not exist nothing is stored: 404 that names it", async () => {
  const before = await pairs();
  const configTypeId = await c.make("config-types", { name: "size", schema: { type: "object" } });
  const configId = await c.make("configs", { name: "large", configTypeId, data: {} });
  const serviceId = await c.make("services", { name: "shop", encryptionRequired: true });
  for (const [what, pair] of [
    ["service", { serviceId: "nowhere", configId }],
    ["config", { serviceId, configId: "nowhere" }],
  ] as const) {
    const refused = await c.admin("POST", path, [{ serviceId, configId }, pair]);
    expect(refused.status).toBe(404);
    expect(JSON.stringify(refused.json.error)).toContain(`${what} with id nowhere not found`);
  }
  expect(await pairs()).toEqual(before);
  expect((await c.admin("GET", "/identities/nowhere/service-configs")).status).toBe(404);
});
