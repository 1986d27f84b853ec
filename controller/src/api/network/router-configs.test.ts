import { capabilityMask, RouterCapability } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seed } from "../../model/seeds.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let link: string;
let otherLink: string;
let host: string;
beforeAll(async () => {
  c = await startTestController();
  const config = (name: string, configTypeId: string, data: object) => c.make("configs", { name, configTypeId, data });
  link = await config("link", "router.link.v1", { heartbeats: { sendInterval: "10s" } });
  otherLink = await config("other link", "router.link.v1", {});
  host = await config("host", "NH5p4FpGR", { protocol: "tcp", address: "localhost", port: 80 });
});
afterAll(() => c.close());

const shown = async (id: string) => (await c.admin("GET", `/edge-routers/${id}`)).json.data.configs;
/** What the log says about a router since the call. */
async function changesOf(id: string, change: () => Promise<unknown>): Promise<unknown[]> {
  const { db } = c.ctx.store;
  const all = () =>
    db.selectFrom("change_log").select("seq").where("kind", "=", "router").where("key", "=", id).execute();
  const before = await all();
  await change();
  return (await all()).slice(before.length);
}

describe("configs of routers", () => {
  test("are shown, one of each type, and change with the router", async () => {
    const id = await c.make("edge-routers", { name: "r1", configs: [link] });
    expect(await shown(id)).toEqual([link]);
    expect((await c.admin("GET", `/routers/${id}`)).json.data.configs).toEqual([link]);
    const filter = encodeURIComponent(`anyOf(configs) = "${link}"`);
    expect((await c.admin("GET", `/edge-routers?filter=${filter}`)).json.data).toMatchObject([{ id }]);

    const two = await c.admin("PATCH", `/edge-routers/${id}`, { configs: [link, otherLink] });
    expect([two.status, two.json.error.cause.field]).toEqual([400, "configs"]);
    // The CLI of 2.x writes null for what it was not told.
    const nulls = { name: null, configs: null, ctrlChanListeners: null, roleAttributes: null, appData: null };
    expect((await c.admin("PATCH", `/edge-routers/${id}`, nulls)).status).toBe(200);
    expect(await shown(id)).toEqual([link]);
    expect((await c.admin("PATCH", `/edge-routers/${id}`, { configs: [otherLink] })).status).toBe(200);
    expect(await shown(id)).toEqual([otherLink]);
    expect((await c.admin("PUT", `/edge-routers/${id}`, { name: "r1", configs: null })).status).toBe(200);
    expect(await shown(id)).toBe(null);
    const unknown = await c.admin("PATCH", `/edge-routers/${id}`, { configs: ["nothing"] });
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "NOT_FOUND"]);
  });

  test("tell their router when they change, and go without a trace", async () => {
    const config = await c.make("configs", { name: "short-lived", configTypeId: "router.link.v1", data: {} });
    const id = await c.make("transit-routers", { name: "t1", configs: [config] });
    const update = () => c.admin("PATCH", `/configs/${config}`, { data: { gcMode: "orphaned" } });
    expect(await changesOf(id, update)).toHaveLength(1);
    expect(await changesOf(id, () => c.admin("DELETE", `/configs/${config}`))).toHaveLength(1);
    expect((await c.admin("GET", `/transit-routers/${id}`)).json.data.configs).toBe(null);
  });

  test("go with their router", async () => {
    const id = await c.make("edge-routers", { name: "r2", configs: [link] });
    expect((await c.admin("DELETE", `/edge-routers/${id}`)).status).toBe(200);
    const rows = c.ctx.store.db.selectFrom("router_config").selectAll().where("router_id", "=", id);
    expect(await rows.execute()).toEqual([]);
  });
});

describe("the target of a config type", () => {
  test("a service takes configs for services, a router those for routers", async () => {
    const service = await c.admin("POST", "/services", { name: "s", encryptionRequired: true, configs: [link] });
    expect([service.status, service.json.error.cause]).toMatchObject([400, { field: "configs" }]);
    expect(service.json.error.cause.reason).toContain("target router");
    const router = await c.admin("POST", "/edge-routers", { name: "r3", configs: [host] });
    expect([router.status, router.json.error.cause.field]).toEqual([400, "configs"]);
    const own = await c.make("config-types", { name: "own", target: "other" });
    const other = await c.make("configs", { name: "other", configTypeId: own, data: {} });
    for (const [collection, more] of [
      ["services", { encryptionRequired: true }],
      ["edge-routers", {}],
    ] as const) {
      const { status } = await c.admin("POST", `/${collection}`, { name: "x", configs: [other], ...more });
      expect(status).toBe(400);
    }
  });

  test("is service unless said, is shown and filtered by, and never changes", async () => {
    const id = await c.make("config-types", { name: "plain" });
    expect((await c.admin("GET", `/config-types/${id}`)).json.data.target).toBe("service");
    for (const [method, body] of [
      ["PUT", { name: "plain", target: "router" }],
      ["PATCH", { target: "router" }],
    ] as const) {
      const { status, json } = await c.admin(method, `/config-types/${id}`, body);
      expect([status, json.error.cause.field]).toEqual([400, "target"]);
    }
    expect((await c.admin("PATCH", `/config-types/${id}`, { target: "service", name: "plainer" })).status).toBe(200);
    const { json } = await c.admin("GET", `/config-types?filter=${encodeURIComponent('target = "router"')}`);
    expect(json.data).toMatchObject([{ id: "router.link.v1", target: "router" }]);
    expect((await c.admin("POST", "/config-types", { name: "wrong", target: "nothing" })).status).toBe(400);
  });
});

test("a config type that an administrator made before it was a fixed one stays", async () => {
  const { db } = c.ctx.store;
  expect(await seed(c.ctx.store)).toEqual([]);
  await c.admin("DELETE", "/config-types/proxy.v1");
  const own = await c.make("config-types", { name: "proxy.v1" });
  expect(await seed(c.ctx.store)).toEqual(["proxy.v1"]);
  const rows = await db.selectFrom("config_type").select("id").where("name", "=", "proxy.v1").execute();
  expect(rows).toEqual([{ id: own }]);
});

test("an edge router shows its version, and while it is online what it can do", async () => {
  const id = await c.make("edge-routers", { name: "capable" });
  const get = async () => (await c.admin("GET", `/edge-routers/${id}`)).json.data;
  expect(await get()).toMatchObject({ version: "" });
  expect(await get()).not.toHaveProperty("capabilities");
  const version = { version: "v2.1.0", revision: "", buildDate: "", os: "", arch: "" };
  const state = {
    isOnline: true,
    hostname: "h",
    supportedProtocols: {},
    syncStatus: "SYNC_DONE",
    versionInfo: version,
  } as const;
  c.online.set(id, { ...state });
  expect(await get()).toMatchObject({ version: "v2.1.0", capabilities: [] });
  const { MultiChannel, BindSuccess, DataModel } = RouterCapability;
  c.online.set(id, { ...state, capabilities: capabilityMask([MultiChannel, BindSuccess, DataModel]) });
  expect((await get()).capabilities).toEqual(["MULTI_CHANNEL", "BIND_SUCCESS"]);
});
