/** No input gives a 500, every answer keeps to the contract, and nothing of a refused request is stored: every operation, with generated bodies. */
import { once } from "node:events";
import { Agent, request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { type ApiName, BASE_PATHS, errorEnvelope, type Operation, operations } from "@sallyport/api";
import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "./testing/auth-policy.ts";
import { anyQuery, pathSegment, requestBody } from "./testing/garbage.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

/** Requests per operation; a longer run is `SALLYPORT_GARBAGE_RUNS=500 npx vitest run …`. */
const RUNS = Number(process.env.SALLYPORT_GARBAGE_RUNS ?? 6);
const SEED = Number(process.env.SALLYPORT_GARBAGE_SEED ?? 20_261_122);

let controller: TestController;
let agent: Agent;
const known = ["default", "host.v1", "OS", "Default", "svc", "alice", "r1"];
let token = "";

beforeAll(async () => {
  controller = await startTestController();
  agent = new Agent({ keepAlive: true, maxSockets: 1, ca: controller.pki.caBundlePem });
  await furnish();
});
afterAll(async () => {
  agent.destroy();
  await controller.close();
});

/** Entities of every kind; what is there already is left alone. */
async function furnish(): Promise<void> {
  const put = async (collection: string, body: object) => {
    const { json } = await controller.admin("POST", `/${collection}`, body);
    if (json?.data?.id !== undefined) return json.data.id;
    const filter = encodeURIComponent(`name = "${"name" in body ? body.name : ""}"`);
    const present = await controller.admin("GET", `/${collection}?filter=${filter}`);
    return present.json?.data?.[0]?.id ?? "none";
  };
  const roles = { semantic: "AnyOf", identityRoles: ["#all"], edgeRouterRoles: ["#all"] };
  const service = await put("services", { name: "svc", encryptionRequired: true, roleAttributes: ["a"] });
  const person = { type: "Default", isAdmin: false };
  const identity = await put("identities", {
    ...person,
    name: "alice",
    enrollment: { ott: true },
    externalId: "alice",
  });
  const other = await put("identities", { ...person, name: "bob" });
  await put("authenticators", {
    identityId: other,
    method: "updb",
    username: "bob-the-user",
    password: "correct horse",
  });
  const router = await put("edge-routers", { name: "r1", isTunnelerEnabled: true });
  await put("transit-routers", { name: "t1" });
  const type = await put("config-types", { name: "shape", schema: { type: "object" } });
  await put("configs", { name: "made", configTypeId: type, data: {} });
  await put("terminators", { service, router, binding: "transport", address: "tcp:localhost:1" });
  await put("service-policies", { ...roles, name: "p", type: "Dial", serviceRoles: ["#all"] });
  await put("edge-router-policies", { ...roles, name: "p" });
  await put("service-edge-router-policies", { ...roles, name: "p", serviceRoles: ["#all"] });
  await put("auth-policies", authPolicy("policy"));
  await put("posture-checks", { name: "check", typeId: "DOMAIN", domains: ["acme.example"] });
  await put("cas", {
    name: "ca",
    certPem: controller.pki.caBundlePem,
    identityRoles: [],
    isAuthEnabled: true,
    isAutoCaEnrollmentEnabled: true,
    isOttCaEnrollmentEnabled: true,
  });
  await put("external-jwt-signers", {
    name: "signer",
    issuer: "https://issuer.example",
    audience: "us",
    enabled: true,
    jwksEndpoint: "https://issuer.example/jwks",
  });
  await controller.login("admin", "admin");
  known.splice(7, known.length, service, identity, router, type);
}

/** Where the entities of a collection are; the default administrator's own are left out, he is needed. */
const TABLES: Readonly<Record<string, string>> = {
  services: "service",
  identities: "identity WHERE NOT is_default_admin",
  "edge-routers": "router WHERE kind = 'edge'",
  routers: "router",
  "transit-routers": "router WHERE kind = 'transit'",
  "config-types": "config_type",
  configs: "config",
  terminators: "terminator",
  "service-policies": "service_policy",
  "edge-router-policies": "edge_router_policy",
  "service-edge-router-policies": "service_edge_router_policy",
  "auth-policies": "auth_policy",
  "posture-checks": "posture_check",
  cas: "ca",
  "external-jwt-signers": "ext_jwt_signer",
  authenticators: "authenticator WHERE identity_id NOT IN (SELECT id FROM identity WHERE is_default_admin)",
  enrollments: "enrollment",
  "api-sessions": "api_session",
  sessions: "session",
};

/** Stands for the id of something that exists when the request is sent. */
const EXISTING = "EXISTING";

/** Collections that furnishing does not fill: once is enough to know. */
const empty = new Set<string>();

async function idIn(path: string): Promise<string> {
  const [, collection = ""] = path.split("/");
  const table = TABLES[collection];
  if (table === undefined) return "none";
  const find = async () => {
    const { rows } = await sql<{ id: string }>`
      SELECT id FROM (SELECT id FROM ${sql.raw(table)}) t ORDER BY random() LIMIT 1`.execute(controller.ctx.store.db);
    return rows[0]?.id;
  };
  const id = await find();
  if (id !== undefined) return id;
  if (empty.has(collection)) return "none";
  await furnish();
  const made = await find();
  if (made === undefined) empty.add(collection);
  return made ?? "none";
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
  readonly contentType: string;
}

async function exchange(sent: Sent): Promise<{ status: number; body: string; contentType: string }> {
  const request = httpsRequest({
    host: "127.0.0.1",
    port: controller.port,
    servername: "localhost",
    agent,
    method: sent.method,
    path: sent.path,
    headers: {
      "zt-session": token,
      ...(sent.body === undefined
        ? {}
        : { "content-type": sent.contentType, "content-length": Buffer.byteLength(sent.body) }),
    },
  });
  request.end(sent.body);
  const [response] = await once(request, "response");
  return {
    status: response.statusCode,
    body: await text(response),
    contentType: String(response.headers["content-type"]),
  };
}

/** An administrator's session that lives: generated requests log out, and worse. */
async function ensureSession(): Promise<void> {
  const { status } = await exchange({
    method: "GET",
    path: `${BASE_PATHS.management}/current-api-session`,
    body: undefined,
    contentType: "",
  });
  if (status === 200) return;
  token = await controller.login("admin", "admin");
}

async function lastChange(): Promise<string> {
  const { rows } = await sql<{ last: string }>`SELECT coalesce(max(seq), 0)::text AS last FROM change_log`.execute(
    controller.ctx.store.db,
  );
  return rows[0]?.last ?? "";
}

/** Without sessions, which also end by themselves. */
async function changesAfter(last: string): Promise<object[]> {
  const { rows } = await sql<object>`
    SELECT kind, op, key FROM change_log WHERE seq > ${last}::bigint AND kind NOT IN ('api_session', 'session')
    ORDER BY seq`.execute(controller.ctx.store.db);
  return rows;
}

/** A run over the stored data that was asked for before repairs in the background what deletions have left. */
async function integrityRunEnded(): Promise<void> {
  await expect.poll(() => controller.model.integrity.report().inProgress, { timeout: 20_000 }).toBe(false);
}

const rows = (Object.keys(operations) as ApiName[]).flatMap((api) =>
  Object.entries<Operation>(operations[api]).map(([id, operation]) => ({ api, id, operation })),
);

describe("garbage", () => {
  /** What the test before has under way still: one that was too slow must not change the store below the next. */
  let earlier: Promise<unknown> = Promise.resolve();

  test.for(rows)("$api $id: no 500, and nothing stored of what is refused", async ({ api, operation }, { signal }) => {
    await earlier;
    const { body, path, query } = operation;
    const shape = "schema" in body ? body.schema : undefined;
    const segment = fc.oneof(
      { weight: 3, arbitrary: fc.constant(EXISTING) },
      { weight: 1, arbitrary: pathSegment(known) },
    );
    const segments = fc.array(segment, { minLength: 3, maxLength: 3 });
    const search = fc.oneof(fc.constant(""), anyQuery(Object.keys(query.shape), known));
    const sendable = fc
      .tuple(segments, search, requestBody(shape, known), fc.boolean())
      .map(([ids, asked, content, isTyped]): Sent => {
        let at = 0;
        const filled = path.replaceAll(/\{\w+\}/g, () => ids[at++] ?? "");
        return {
          method: operation.method,
          path: `${BASE_PATHS[api]}${filled}${asked === "" ? "" : `?${asked}`}`,
          body: body.kind === "none" ? undefined : content.toWellFormed(),
          contentType: isTyped || body.kind === "json" ? "application/json" : "text/plain",
        };
      });
    const checked = fc.assert(
      fc.asyncProperty(sendable, async (sent) => {
        signal.throwIfAborted();
        await ensureSession();
        const asked = { ...sent, path: sent.path.replace(EXISTING, await idIn(path)) };
        await integrityRunEnded();
        const before = await lastChange();
        const answer = await exchange(asked);
        const text = `${JSON.stringify(asked)} → ${answer.body}`;
        if (operation.unserved === undefined || answer.status !== 501) expect(answer.status, text).toBeLessThan(500);
        if (answer.status < 400) return;
        expect(await changesAfter(before), `stored of a refused request: ${text}`).toEqual([]);
        if (answer.status === 413) return;
        expect(errorEnvelope.safeParse(JSON.parse(answer.body)).success, answer.body).toBe(true);
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
    earlier = checked.catch(() => undefined);
    await checked;
  });
});
