import { afterAll, beforeAll, expect, test } from "vitest";
import { authPolicy } from "../testing/auth-policy.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let controller: TestController;
beforeAll(async () => {
  controller = await startTestController();
});
afterAll(() => controller.close());

test.each([
  ["auth-policies", authPolicy("kept")],
  [
    "external-jwt-signers",
    { name: "kept", issuer: "i", audience: "a", enabled: false, jwksEndpoint: "https://i.example/k" },
  ],
  [
    "cas",
    {
      name: "kept",
      identityRoles: [],
      isAuthEnabled: true,
      isAutoCaEnrollmentEnabled: false,
      isOttCaEnrollmentEnabled: false,
    },
  ],
])("%s keep their tags when a patch says {}, as OpenZiti's CLI does", async (collection, body) => {
  const certPem = collection === "cas" ? { certPem: controller.pki.caBundlePem } : {};
  const id = await controller.make(collection, { ...body, ...certPem, tags: { k: "v" } });
  const tags = async () => (await controller.admin("GET", `/${collection}/${id}`)).json.data.tags;
  expect((await controller.admin("PATCH", `/${collection}/${id}`, { name: "renamed", tags: {} })).status).toBe(200);
  expect(await tags()).toEqual({ k: "v" });
  expect((await controller.admin("PATCH", `/${collection}/${id}`, { tags: { l: "w" } })).status).toBe(200);
  expect(await tags()).toEqual({ l: "w" });
});
