/** What the contract promises for every operation, tried on the server one operation after the other. */
import { Agent, request } from "node:https";
import { type ApiName, BASE_PATHS, type Operation, operations } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestApi, type TestApi, testSession } from "./testing/test-api.ts";

const all = (Object.keys(operations) as ApiName[]).flatMap((api) =>
  Object.entries<Operation>(operations[api]).map(([id, operation]) => ({ api, id, operation })),
);

describe("every operation", () => {
  let api: TestApi;
  let agent: Agent;
  beforeAll(async () => {
    const sessions = [
      testSession("admin", { isAdmin: true }),
      testSession("full"),
      testSession("partial", { isAdmin: true, isFullyAuthenticated: false }),
    ];
    api = await startTestApi({ handlers: {}, sessions });
    agent = new Agent({ ca: api.authority.certPem, keepAlive: true, maxSockets: 1 });
  });
  afterAll(async () => {
    agent.destroy();
    await api.close();
  });

  /** Sends a request and gives its status and error. A handler that is reached answers 500 in this server. */
  function call(where: ApiName, operation: Operation, token?: string, body?: string) {
    const path = BASE_PATHS[where] + operation.path.replaceAll(/\{\w+\}/g, "some.id-1");
    const query = "method" in operation.query.shape ? "?method=cert" : "";
    return new Promise<{ status: number; error: { code: string; cause?: Record<string, string> } }>(
      (resolve, reject) => {
        const outgoing = request(
          {
            agent,
            host: "localhost",
            port: api.port,
            method: operation.method,
            path: path + query,
            headers: {
              ...(token === undefined ? {} : { "zt-session": token }),
              ...(body === undefined
                ? {}
                : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
            },
          },
          (message) => {
            const chunks: Buffer[] = [];
            message.on("data", (chunk: Buffer) => chunks.push(chunk));
            message.on("end", () => {
              expect(message.headers["content-type"]).toBe("application/json");
              expect(message.headers["ziti-instance-id"]).toBe("instance-1");
              resolve({ status: message.statusCode ?? 0, ...JSON.parse(Buffer.concat(chunks).toString()) });
            });
          },
        );
        outgoing.on("error", reject);
        outgoing.end(body);
      },
    );
  }

  test.each(all)("$api $id admits by its rule", async ({ api: where, id, operation }) => {
    const admitted: string[] = [];
    for (const token of ["none", "partial", "full", "admin"]) {
      const { status, error } = await call(where, operation, token === "none" ? undefined : token);
      if (status !== 401) admitted.push(token);
      else expect(error).toMatchObject({ code: "UNAUTHORIZED" });
      // Either its handler was reached, or its body is missing.
      expect([400, 401, 500], `${id} answered ${status} ${error.code}`).toContain(status);
    }
    const expected = { public: 4, partial: 3, full: 2, admin: 1 }[operation.auth];
    expect(admitted).toEqual(["none", "partial", "full", "admin"].slice(-expected));
  });

  test.each(all.filter(({ operation }) => operation.body.kind === "json"))(
    "$api $id refuses what is no JSON, and nothing where it needs something",
    async ({ api: where, operation }) => {
      const broken = await call(where, operation, "admin", "{nonsense");
      expect([broken.status, broken.error.code]).toEqual([400, "COULD_NOT_PARSE_BODY"]);
      const empty = await call(where, operation, "admin");
      const isRequired = operation.body.kind === "json" && operation.body.required;
      expect(empty.status).toBe(isRequired ? 400 : 500);
      if (isRequired) expect(empty.error).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field: "body" } });
    },
  );

  test.each(all.filter(({ operation }) => operation.response.kind === "list" && operation.response.paged))(
    "$api $id reads filters",
    async ({ api: where, operation }) => {
      const query = { ...operation, path: `${operation.path}?filter=(` };
      const { status, error } = await call(where, query, "admin");
      expect([status, error.code]).toEqual([400, "INVALID_FILTER"]);
    },
  );
});
