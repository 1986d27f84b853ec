import { describe, expect, test } from "vitest";
import { z } from "zod";
import { referencePage } from "./derived-files.ts";
import { type ApiName, type Operation, openApiDocument, operations } from "./index.ts";

const all = (Object.keys(operations) as ApiName[]).flatMap((api) =>
  Object.entries<Operation>(operations[api]).map(([id, operation]) => ({ api, id, operation })),
);

describe("the table of operations", () => {
  test("has each method and path once per API", () => {
    const keys = all.map(
      ({ api, operation }) => `${api} ${operation.method} ${operation.path.replaceAll(/\{\w+\}/g, "{}")}`,
    );
    expect(new Set(keys).size).toBe(keys.length);
  });

  test("has what both APIs share in both, with the same path", () => {
    for (const { id, operation } of all.filter(({ api }) => api === "client")) {
      const other = (operations.management as Record<string, Operation>)[id];
      if (other !== undefined) expect([id, other.path]).toEqual([id, operation.path]);
    }
  });

  test.each(all)("$api $id leaves no key of a session or password in an answer", ({ operation }) => {
    const { response } = operation;
    const shape = response.kind === "list" ? response.item : response.kind === "detail" ? response.data : undefined;
    const keys = shape instanceof z.ZodObject ? Object.keys(shape.shape) : [];
    expect(keys.filter((key) => /password|salt|secret$/i.test(key))).toEqual([]);
  });
});

describe.each(["client", "management", "fabric"] as const)("the OpenAPI document of the %s API", (api) => {
  const document = openApiDocument(api, { oidc: true });

  test("describes every operation once", () => {
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map((each) => each.operationId),
    );
    expect(ids.toSorted()).toEqual(Object.keys(operations[api]).toSorted());
  });

  test("refers only to components that it has, and is plain JSON", () => {
    const text = JSON.stringify(document);
    expect(JSON.parse(text)).toEqual(document);
    const { schemas } = document.components as { schemas: Record<string, unknown> };
    const references = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name ?? "");
    expect(references.length).toBeGreaterThan(0);
    expect(references.filter((name) => !(name in schemas))).toEqual([]);
  });
});

test("the documents name the headers that operations read", () => {
  const headers = (["client", "management", "fabric"] as const).flatMap((api) => {
    const { paths } = openApiDocument(api, { oidc: false });
    return Object.values(paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ operationId, parameters }) =>
        (parameters as { name: string; in: string; required: boolean }[])
          .filter((parameter) => parameter.in === "header")
          .map(({ name, required }) => [api, operationId, name, required]),
      ),
    );
  });
  expect(headers).toEqual([
    ["client", "deleteMfa", "mfa-validation-code", false],
    ["client", "detailMfaRecoveryCodes", "mfa-validation-code", false],
    ["client", "enrollToken", "ziti-token-issuer-id", false],
    ["client", "listServiceEdgeRouters", "session-token", false],
    ["management", "deleteMfa", "mfa-validation-code", false],
    ["management", "detailMfaRecoveryCodes", "mfa-validation-code", false],
  ]);
});

test.each([false, true])("the documents name access tokens as sessions only where they are (%s)", (oidc) => {
  const { paths, components } = openApiDocument("client", { oidc });
  expect(paths["/authenticate"]?.post?.security).toEqual([{}, { bearer: [] }]);
  expect(paths["/enroll/token"]?.post?.security).toEqual([{ bearer: [] }]);
  expect(paths["/version"]?.get?.security).toEqual([]);
  for (const method of [paths["/services"]?.get, paths["/current-api-session"]?.get]) {
    const schemes = (method?.security ?? []) as object[];
    const isSession = (name: string) => name.endsWith("Session") || (oidc && name === "oauth2");
    expect(schemes.every((scheme) => Object.keys(scheme).some(isSession))).toBe(true);
    expect(schemes).toHaveLength(oidc ? 6 : 4);
  }
  expect("oauth2" in (components.securitySchemes as object)).toBe(oidc);
});

test("requests may be null where they may be absent", () => {
  const { schemas } = openApiDocument("management", { oidc: false }).components as {
    schemas: Record<string, { properties: object }>;
  };
  expect(schemas.serviceCreate?.properties).toMatchObject({
    name: { type: "string" },
    configs: { anyOf: [{ type: "array" }, { type: "null" }] },
  });
});

test("the reference page lists every operation", () => {
  const page = referencePage();
  for (const table of Object.values(operations)) {
    for (const id of Object.keys(table)) expect(page).toContain(`| ${id} |`);
  }
});
