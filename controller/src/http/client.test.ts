import { once } from "node:events";
import { Agent, createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { ApiError, ApiTransportError, createClient, fieldError } from "@sallyport/api";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { startTestApi, type TestApi, testSession } from "./testing/test-api.ts";

const at = "2026-01-02T03:04:05.678Z";
const edgeRouterPolicy = (id: string) => ({
  _links: { self: { href: `./edge-router-policies/${id}` } },
  createdAt: at,
  updatedAt: at,
  id,
  edgeRouterRoles: [],
  edgeRouterRolesDisplay: [],
  identityRoles: ["#all"],
  identityRolesDisplay: [{ role: "#all", name: "#all" }],
  isSystem: false,
  name: `policy ${id}`,
  semantic: "AllOf" as const,
});

describe("the typed client against the server", () => {
  let api: TestApi;
  const calls: unknown[] = [];
  beforeAll(async () => {
    api = await startTestApi({
      sessions: [testSession("admin", { isAdmin: true })],
      limits: { keepAliveTimeoutMs: 100 },
      handlers: {
        client: {
          listWellKnownCas: async () => ({ body: "MIIB" }),
          enroll: async ({ body, query }) => {
            calls.push({ body, query });
            return { data: { cert: "C" } };
          },
        },
        management: {
          listEdgeRouterPolicies: async ({ list }) => {
            calls.push(list);
            return { data: [edgeRouterPolicy("a")], totalCount: 1, filterableFields: ["id"] };
          },
          createEdgeRouterPolicy: async ({ body }) => {
            calls.push(body);
            return { id: "new" };
          },
          patchEdgeRouterPolicy: async ({ params }) => {
            calls.push(params);
          },
          deleteEdgeRouterPolicy: async () => Promise.reject(fieldError("id", "is in use", "x")),
          listServices: async ({ query }) => {
            calls.push(query);
            return { data: [], totalCount: 0 };
          },
        },
      },
    });
  });
  afterAll(() => api.close());

  test("a server whose certificate is outside its dates: both times are told", async () => {
    const authority = await TestAuthority.create();
    const early = await authority.issue({ dns: ["localhost"], notBefore: new Date(Date.now() + 3_600_000) });
    const server = createServer({ cert: early.certPem, key: early.keyPem }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const client = createClient("client", { baseUrl: `https://localhost:${port}`, ca: authority.certPem });
    await expect(client.listWellKnownCas()).rejects.toThrow(
      /could not be called: the certificate is valid from 20.*Z on, and the clock of this machine shows 20.*Z/,
    );
    client.close();
    server.close();
  });

  const connect = <A extends "client" | "management">(name: A, token?: string) =>
    createClient(name, {
      baseUrl: `https://localhost:${api.port}`,
      ca: api.authority.certPem,
      ...(token === undefined ? {} : { token }),
    });

  test("lists, creates, changes, with data and meta unwrapped", async () => {
    const client = connect("management", "admin");
    calls.length = 0;
    const filter = 'name contains "ö&%"';
    const { data, meta, headers } = await client.listEdgeRouterPolicies({ query: { filter, limit: 5 } });
    expect(data).toEqual([edgeRouterPolicy("a")]);
    expect(meta).toEqual({ filterableFields: ["id"], pagination: { limit: 5, offset: 0, totalCount: 1 } });
    expect(headers["ziti-instance-id"]).toBe("instance-1");
    const created = await client.createEdgeRouterPolicy({ body: { name: "p", semantic: "AnyOf" } });
    expect(created.data).toEqual({ _links: { self: { href: "./edge-router-policies/new" } }, id: "new" });
    await client.patchEdgeRouterPolicy({ params: { id: ".a/b -" }, body: { name: "q" } });
    await client.listServices({ query: { roleFilter: ["#a", "@b"], roleSemantic: "AnyOf" } });
    expect(calls).toMatchObject([
      { filter: { kind: "contains", value: "ö&%" }, limit: 5 },
      { name: "p", semantic: "AnyOf", edgeRouterRoles: [], identityRoles: [], tags: {} },
      { id: ".a/b -" },
      { roleFilter: ["#a", "@b"], roleSemantic: "AnyOf" },
    ]);
    client.close();
  });

  test("survives that the server closed the kept connection", async () => {
    const client = connect("management", "admin");
    for (let round = 0; round < 3; round++) {
      await client.listServices();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    client.close();
  });

  test("a call under way fails when its client is closed, and is not made again", async () => {
    const authority = await TestAuthority.create();
    const { certPem: cert, keyPem: key } = await authority.identity("localhost");
    let asked = 0;
    const server = createServer({ cert, key }, (_request, response) => {
      asked += 1;
      // The next request comes over the same connection, and gets no answer.
      if (asked === 1) response.writeHead(200, { "content-type": "application/pkcs7-mime" }).end("MIIB");
      else server.emit("unanswered");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const client = createClient("client", { baseUrl: `https://localhost:${port}`, ca: authority.certPem });
    try {
      await client.listWellKnownCas();
      const unanswered = once(server, "unanswered");
      const refused = expect(client.listWellKnownCas()).rejects.toThrow("socket hang up");
      await unanswered;
      client.close();
      await refused;
      expect(asked).toBe(2);
    } finally {
      client.close();
      server.closeAllConnections();
      server.close();
    }
  });

  test("creates over no connection that has rested, whose end a busy process would read too late", async () => {
    const rested = await startTestApi({
      sessions: [testSession("admin", { isAdmin: true })],
      handlers: { management: { createEdgeRouterPolicy: async () => ({ id: "new" }) } },
    });
    const client = createClient("management", {
      baseUrl: `https://localhost:${rested.port}`,
      ca: rested.authority.certPem,
      token: "admin",
    });
    const create = () => client.createEdgeRouterPolicy({ body: { name: "p", semantic: "AnyOf" } });
    const connections = vi.spyOn(Agent.prototype, "createConnection");
    try {
      await create();
      await create();
      expect(connections).toHaveBeenCalledTimes(1);
      const now = performance.now();
      vi.spyOn(performance, "now").mockReturnValue(now + 3_000);
      await create();
      expect(connections).toHaveBeenCalledTimes(2);
    } finally {
      vi.restoreAllMocks();
      client.close();
      await rested.close();
    }
  });

  test("throws what the server reports, with its cause and request id", async () => {
    const client = connect("management", "admin");
    const error = await client.deleteEdgeRouterPolicy({ params: { id: "x" } }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      status: 400,
      code: "COULD_NOT_VALIDATE",
      cause: { field: "id", reason: "is in use", value: "x" },
      requestId: expect.stringMatching(/^.{9}$/),
      message: expect.stringContaining("id: is in use"),
    });
    client.setToken(undefined);
    await expect(client.listServices()).rejects.toMatchObject({ status: 401, code: "UNAUTHORIZED" });
    client.close();
  });

  test("sends text and takes what is not JSON", async () => {
    const client = connect("client");
    calls.length = 0;
    const store = await client.listWellKnownCas();
    expect([store.contentType, store.data.toString()]).toEqual(["application/pkcs7-mime", "MIIB"]);
    const enrolled = await client.enroll({ query: { method: "ott", token: "t" }, text: "PEM" });
    expect(enrolled.data.cert).toBe("C");
    expect(calls).toEqual([{ body: { text: "PEM" }, query: { method: "ott", token: "t" } }]);
    client.close();
  });

  test("says where it could not connect, without the query", async () => {
    const outsider = createClient("client", { baseUrl: `https://localhost:${api.port}` });
    const error = await outsider.enroll({ query: { token: "secret" } }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiTransportError);
    expect(String(error)).toContain(`https://localhost:${api.port}/edge/client/v1/enroll could not be called`);
    expect(String(error)).not.toContain("secret");
    outsider.close();
  });

  test("stops when its signal says so", async () => {
    const client = connect("management", "admin");
    await expect(client.listServices({}, { signal: AbortSignal.abort() })).rejects.toThrow(ApiTransportError);
    client.close();
  });
});
