import { sql } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

/** What is decided in one transaction while another one, on a connection of its own, changes what the decision rests on and commits later. */

let c: TestController;
let other: pg.Client;
let routerId: string;
let count = 0;
beforeAll(async () => {
  c = await startTestController();
  routerId = await c.make("edge-routers", { name: "router" });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", identityRoles: ["#all"], ...all });
  await c.make("service-edge-router-policies", { name: "all", serviceRoles: ["#all"], ...all });
  other = new pg.Client(c.ctx.store.connection);
  await other.connect();
});
afterAll(async () => {
  await other.end();
  await c.close();
});

let identityId: string;
let serviceId: string;
beforeEach(async () => {
  const name = `n${++count}`;
  identityId = await c.make("identities", { name, type: "Device", isAdmin: false, roleAttributes: [name] });
  serviceId = await c.make("services", { name, encryptionRequired: false, roleAttributes: [name] });
});

const policy = (type: "Dial" | "Bind", identityRoles: string[], serviceRoles: string[]) =>
  c.make("service-policies", { name: `p${++count}`, type, semantic: "AnyOf", identityRoles, serviceRoles });

/** Changes something on the other connection, begins `work`, lets it run into the lock, and commits. */
async function meanwhile<T>(change: readonly string[], work: () => Promise<T>): Promise<T> {
  await other.query("BEGIN");
  for (const statement of change) await other.query(statement);
  const result = work();
  result.catch(() => undefined);
  const waiting = sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await expect.poll(async () => (await waiting.execute(c.ctx.store.db)).rows.length).toBeGreaterThan(0);
  await other.query("COMMIT");
  return result;
}

const withoutReference = (policyId: string, side: string) => [
  `SELECT 1 FROM service_policy WHERE id = '${policyId}' FOR UPDATE`,
  `DELETE FROM service_policy_ref WHERE policy_id = '${policyId}' AND side = '${side}'`,
  `UPDATE service_policy SET updated_at = now() WHERE id = '${policyId}'`,
];
const withoutAttributes = (table: string, id: string) => [
  `SELECT 1 FROM ${table} WHERE id = '${id}' FOR UPDATE`,
  `UPDATE ${table} SET attrs = '{}' WHERE id = '${id}'`,
];

describe("a session that waits for a change of policy", () => {
  let token: string;
  beforeEach(async () => {
    await c.make("authenticators", { identityId, method: "updb", username: `user ${count}`, password: "password" });
    token = await c.login(`user ${count}`, "password");
  });
  const create = async () => {
    const { status } = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId, type: "Dial" } });
    const { rows } = await sql`SELECT 1 FROM session WHERE service_id = ${serviceId}`.execute(c.ctx.store.db);
    return { status, sessions: rows.length };
  };

  it.each(["identity", "service"])(
    "is not made when the policy does not select the %s by its id any more",
    async (side) => {
      const policyId = await policy("Dial", [`@${identityId}`], [`@${serviceId}`]);
      expect(await meanwhile(withoutReference(policyId, side), create)).toEqual({ status: 404, sessions: 0 });
    },
  );

  it("is made when another policy allows it", async () => {
    const ids = [];
    for (const n of [1, 2]) ids.push(await policy("Dial", [`@${identityId}`], n === 1 ? ["#all"] : [`@${serviceId}`]));
    // Whichever it looks at first, it waits.
    const [first = "", second = ""] = ids;
    const change = [
      `SELECT 1 FROM service_policy WHERE id = '${second}' FOR UPDATE`,
      ...withoutReference(first, "identity"),
    ];
    expect(await meanwhile(change, create)).toEqual({ status: 201, sessions: 1 });
  });

  it.each(["identity", "service"])("is not made when the %s has lost its attributes", async (table) => {
    const { attrs } = await c.model.identities.get(c.ctx.store.db, identityId);
    const roles = attrs.map((attr) => `#${attr}`);
    await policy("Dial", roles, roles);
    const change = withoutAttributes(table, table === "identity" ? identityId : serviceId);
    expect(await meanwhile(change, create)).toEqual({ status: 404, sessions: 0 });
  });
});

describe("a terminator", () => {
  const create = (binding: "edge" | "tunnel" = "edge") =>
    c.fabricModel.createTerminator({
      ...{ serviceId, routerId, binding, address: "x", instanceId: "", cost: 0, precedence: "default" },
      ...{ peerData: new Map(), hostId: identityId },
    });

  it("is not stored when its host may not host any more", async () => {
    const policyId = await policy("Bind", [`@${identityId}`], [`@${serviceId}`]);
    expect(await create()).toMatchObject({ outcome: "created" });
    await c.admin("DELETE", `/service-policies/${policyId}`);
    expect(await create("tunnel")).toMatchObject({ outcome: "denied" });
  });

  it("that waits for a change of policy is not stored when its host may not host any more", async () => {
    const policyId = await policy("Bind", [`@${identityId}`], [`@${serviceId}`]);
    expect(await meanwhile(withoutReference(policyId, "identity"), create)).toMatchObject({ outcome: "denied" });
  });

  it("that is stored first is found by who takes the right to it away", async () => {
    const policyId = await policy("Bind", [`@${identityId}`], [`@${serviceId}`]);
    await other.query("BEGIN");
    // Holds what the terminator is written after its right was looked at.
    await other.query(`SELECT 1 FROM router WHERE id = '${routerId}' FOR UPDATE`);
    const made = create();
    const waiting = sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await expect.poll(async () => (await waiting.execute(c.ctx.store.db)).rows.length).toBe(1);
    const removed = c.admin("DELETE", `/service-policies/${policyId}`);
    await expect.poll(async () => (await waiting.execute(c.ctx.store.db)).rows.length).toBe(2);
    await other.query("COMMIT");
    expect(await made).toMatchObject({ outcome: "created" });
    expect((await removed).status).toBe(200);
    await expect
      .poll(
        async () =>
          (await sql`SELECT 1 FROM terminator WHERE service_id = ${serviceId}`.execute(c.ctx.store.db)).rows.length,
      )
      .toBe(0);
  });
});

describe("an instance id", () => {
  const secret = (text: string) => Buffer.from(text).toString("base64");
  const make = (identity: string, identitySecret?: string) =>
    c.admin("POST", "/terminators", {
      ...{ service: serviceId, router: routerId, binding: "transport", address: "tcp:x:1", identity },
      ...(identitySecret === undefined ? {} : { identitySecret }),
    });
  const host = (hostId: string, instanceSecret?: string) =>
    c.fabricModel.createTerminator({
      ...{
        serviceId,
        routerId,
        binding: "edge",
        address: `x${++count}`,
        instanceId: "i",
        cost: 0,
        precedence: "default",
      },
      ...{ peerData: new Map(), hostId, ...(instanceSecret && { instanceSecret: Buffer.from(instanceSecret) }) },
    });

  it("is shared over the API with its secret only", async () => {
    expect((await make("i", secret("right"))).status).toBe(201);
    for (const given of [undefined, secret("wrong"), ""]) {
      const refused = await make("i", given);
      expect([refused.status, refused.json.error.cause]).toMatchObject([400, { field: "identitySecret" }]);
      expect(refused.text).not.toContain(secret("right"));
    }
    expect((await make("i", secret("right"))).status).toBe(201);
    expect((await make("another")).status).toBe(201);
    const fabric = await c.call("POST", "/fabric/v1/terminators", {
      token: await c.login("admin", "admin"),
      body: { service: serviceId, router: routerId, binding: "transport", address: "tcp:x:1", instanceId: "i" },
    });
    expect([fabric.status, fabric.json.error.cause]).toMatchObject([400, { field: "instanceSecret" }]);
  });

  it("is shared by hosts with its secret only; a host has it as often as it wants", async () => {
    const second = await c.make("identities", { name: `second ${count}`, type: "Device", isAdmin: false });
    await policy("Bind", ["#all"], ["#all"]);
    expect(await host(identityId, "right")).toMatchObject({ outcome: "created" });
    expect(await host(identityId, "another of the same host")).toMatchObject({ outcome: "created" });
    expect(await host(second)).toMatchObject({ outcome: "rejected" });
    expect(await host(second, "right")).toMatchObject({ outcome: "rejected" });
    await sql`DELETE FROM terminator WHERE instance_secret = ${Buffer.from("another of the same host")}`.execute(
      c.ctx.store.db,
    );
    expect(await host(second, "wrong")).toMatchObject({ outcome: "rejected" });
    expect(await host(second, "right")).toMatchObject({ outcome: "created" });
  });

  it("without a secret belongs to its host", async () => {
    const second = await c.make("identities", { name: `second ${count}`, type: "Device", isAdmin: false });
    await policy("Bind", ["#all"], ["#all"]);
    expect(await host(identityId)).toMatchObject({ outcome: "created" });
    expect(await host(second)).toMatchObject({ outcome: "rejected" });
    expect(await host(second, "any")).toMatchObject({ outcome: "rejected" });
  });
});

it("a config that is deleted while a service comes to list it is gone from the service, and the service counts as changed", async () => {
  const { json } = await c.admin("GET", '/config-types?filter=name="host.v1"');
  const data = { protocol: "tcp", address: "x", port: 1 };
  const config = await c.make("configs", { name: `c${count}`, configTypeId: json.data[0].id, data });
  const { db } = c.ctx.store;
  const changes = async () =>
    (await sql`SELECT 1 FROM change_log WHERE kind = 'service' AND key = ${serviceId}`.execute(db)).rows.length;
  const before = await changes();
  const listing = [
    `INSERT INTO service_config (service_id, config_type_id, config_id) VALUES ('${serviceId}', '${json.data[0].id}', '${config}')`,
  ];
  const deleted = await meanwhile(listing, () => c.admin("DELETE", `/configs/${config}`));
  expect(deleted.status).toBe(200);
  expect(await changes()).toBe(before + 1);
});

it("a terminator stays with its service: another one is refused by name, the same one is not", async () => {
  const ends = { router: routerId, binding: "transport", address: "tcp:x:1" };
  const id = await c.make("terminators", { service: serviceId, ...ends });
  const elsewhere = await c.make("services", { name: `elsewhere ${count}`, encryptionRequired: false });
  for (const [method, body] of [
    ["PUT", { service: elsewhere, ...ends }],
    ["PATCH", { service: elsewhere }],
  ] as const) {
    const refused = await c.admin(method, `/terminators/${id}`, body);
    expect([refused.status, refused.json.error.cause]).toMatchObject([400, { field: "service", value: elsewhere }]);
  }
  expect((await c.admin("PUT", `/terminators/${id}`, { service: serviceId, ...ends, cost: 5 })).status).toBe(200);
  expect((await c.admin("PATCH", `/terminators/${id}`, { service: serviceId, cost: 6 })).status).toBe(200);
  expect((await c.admin("GET", `/terminators/${id}`)).json.data).toMatchObject({ cost: 6, serviceId });
});
