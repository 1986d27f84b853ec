import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let controller: TestController;
beforeAll(async () => {
  controller = await startTestController();
});
afterAll(() => controller.close());

describe.each(["client", "management"])("descriptions by the %s API", (api) => {
  const get = (path: string, accept?: string) =>
    controller.call("GET", `/edge/${api}/v1${path}`, accept === undefined ? {} : { headers: { accept } });

  test("are listed for every caller, and found by id", async () => {
    const { json } = await get("/specs");
    const ids = json.data.map(({ id }: { id: string }) => id);
    expect(ids).toEqual(["edge-client", "edge-management"]);
    expect((await get("/specs/edge-client")).json.data).toMatchObject({
      name: "edge-client",
      _links: { self: { href: "./specs/edge-client" }, spec: { href: "./specs/edge-client/spec" } },
    });
    const unknown = await get("/specs/constructor");
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "NOT_FOUND"]);
    expect((await get("/specs/nothing/spec")).status).toBe(404);
  });

  test("are the bare document, as YAML or as JSON", async () => {
    const yaml = await get("/specs/edge-management/spec");
    expect(yaml.headers["content-type"]).toBe("text/yaml");
    const json = await get("/specs/edge-management/spec", "application/json");
    expect(json.headers["content-type"]).toBe("application/json");
    expect(json.json).toMatchObject({ openapi: "3.1.0", servers: [{ url: "/edge/management/v1" }] });
    expect(parse(yaml.text)).toEqual(json.json);
    // Not all readers of YAML know anchors.
    expect(yaml.text).not.toMatch(/[&*]a\d/);
    expect(json.json.paths["/identities"].post.operationId).toBe("createIdentity");
  });
});

test("an operation that is described and not served is 501 with the reason, to those who may ask", async () => {
  const { status, json } = await controller.admin("PUT", "/controller-settings/global/effective", {});
  expect([status, json.error.code]).toEqual([501, "NOT_IMPLEMENTED"]);
  expect(json.error.cause.message).toContain("controller.yml");
  expect((await controller.call("GET", "/edge/management/v1/controller-settings")).status).toBe(401);
  expect((await controller.call("GET", "/edge/client/v1/enroll/jwks")).status).toBe(501);
});

test("the capabilities that routers may have are listed", async () => {
  const { json } = await controller.admin("GET", "/enumerated-router-capabilities");
  expect(json.data).toEqual(["MULTI_CHANNEL", "CONNECT_V2", "SERVICE_SUBSCRIPTIONS", "POSTURE_CHECKS", "BIND_SUCCESS"]);
});
