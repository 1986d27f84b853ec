/** What tests of the operator take for granted of the fake API server, and no test of theirs would miss. */
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { KINDS, type KubeObject, type ResourceKind } from "../kinds.ts";
import { serverPerTest } from "./server-per-test.ts";

const Thing: ResourceKind = { group: "example.org", version: "v1", plural: "things", kind: "Thing", namespaced: true };
const ref = { kind: Thing, namespace: "edge", name: "a" };
const api = serverPerTest({ kinds: [Thing] });

type Json = Readonly<Record<string, unknown>>;
interface ThingObject extends KubeObject {
  readonly spec?: Json;
  readonly status?: Json;
}

const list = (type: string, items: object, key = "name") => ({
  ...{ type: "array", "x-kubernetes-list-type": type, items },
  ...(type === "map" ? { "x-kubernetes-list-map-keys": [key] } : {}),
});
const item = (...names: string[]) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: name === "port" ? "integer" : "string" }])),
});
const spec = {
  size: { type: "integer", default: 1 },
  roles: list("set", { type: "string" }),
  steps: list("atomic", { type: "string" }),
  free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  listeners: list("map", item("name", "port", "note")),
};
const status = { id: { type: "string" }, conditions: list("map", item("type", "status"), "type") };
const properties = { spec: { type: "object", properties: spec }, status: { type: "object", properties: status } };
const version = {
  name: "v1",
  subresources: { status: {} },
  schema: { openAPIV3Schema: { type: "object", properties } },
};

function thing(spec: Json, status?: Json, metadata: object = {}): ThingObject {
  const all = {
    apiVersion: "example.org/v1",
    kind: "Thing",
    metadata: { namespace: "edge", name: "a", ...metadata },
    spec,
  };
  return status === undefined ? all : { ...all, status };
}
const live = (): ThingObject => api.server.read<ThingObject>(ref) as ThingObject;
const define = () =>
  api.server.put(KINDS.CustomResourceDefinition, {
    metadata: { name: "things.example.org" },
    spec: {
      group: "example.org",
      scope: "Namespaced",
      names: { plural: "things", kind: "Thing" },
      versions: [version],
    },
  });

// biome-ignore format: a table
test.each<[string, [manager: string, spec: Json][], Json]>([
  ["removes what its manager leaves out, and nothing of others", [["me", { size: 3, roles: ["a", "b"], free: { x: 1, y: 2 } }], ["other", { roles: ["b", "c"], free: { y: 2 } }], ["me", { roles: ["a"] }]], { size: 1, roles: ["a", "b", "c"], free: { y: 2 } }],
  ["lets a map have its first field", [["me", { free: {} }], ["me", { free: { a: 1 } }]], { size: 1, free: { a: 1 } }],
  ["lets a map lose its last field", [["me", { free: { a: 1 } }], ["me", { free: {} }]], { size: 1, free: {} }],
  ["takes a map away with its field", [["me", { free: { a: 1 } }], ["me", {}]], { size: 1 }],
  ["merges keyed lists by key", [["me", { listeners: [{ name: "x", port: 1 }, { name: "y", port: 2 }] }], ["other", { listeners: [{ name: "y", note: "n" }] }], ["me", { listeners: [{ name: "x", port: 9 }] }]], { size: 1, listeners: [{ name: "x", port: 9 }, { name: "y", note: "n" }] }],
  ["replaces other lists whole", [["me", { steps: ["a", "b"] }], ["other", { steps: ["c"] }]], { size: 1, steps: ["c"] }],
])("server-side apply %s", async (_what, writes, expected) => {
  define();
  for (const [manager, spec] of writes) await api.client.apply(thing(spec), { manager });
  expect(live().spec).toEqual(expected);
});

describe("server-side apply", () => {
  test("changes nothing when the same comes again, not even the version", async () => {
    define();
    const writeAll = async () => {
      await api.client.apply(thing({ roles: ["a"] }));
      await api.client.apply(thing({}, { id: "x", conditions: [{ type: "Ready", status: "True" }] }), { status: true });
      return live().metadata.resourceVersion;
    };
    expect(await writeAll()).toBe(await writeAll());
  });

  test("through the status removes a condition that is left out, and writes no spec", async () => {
    define();
    const ready = { type: "Ready", status: "False" };
    await api.client.apply(thing({ size: 2 }));
    await api.client.apply(thing({ size: 9 }, { conditions: [ready, { ...ready, type: "Stalled" }] }), {
      status: true,
    });
    await api.client.apply(thing({}, { conditions: [ready] }), { status: true });
    expect(live()).toMatchObject({ spec: { size: 2 }, status: { conditions: [ready] } });
  });

  test("refuses managedFields and old versions", async () => {
    const made = await api.client.apply<ThingObject>(thing({ size: 2 }));
    await expect(api.client.apply(made)).rejects.toThrow(/managedFields must be nil/);
    const { resourceVersion = "" } = made.metadata;
    await api.client.apply(thing({ size: 3 }, undefined, { resourceVersion }));
    const late = api.client.apply(thing({ size: 4 }, undefined, { resourceVersion }));
    await expect(late).rejects.toThrow(/has been modified/);
  });
});

test("spec and status are written apart, the generation grows with the spec alone, and a dry run keeps nothing", async () => {
  define();
  await api.client.apply(thing({ size: 4 }), { dryRun: true });
  expect(live()).toBeUndefined();
  await api.client.create(thing({ size: 1 }));
  await api.client.patch(ref, { spec: { size: 3 }, status: { id: "x" } }, { status: true });
  expect(live()).toMatchObject({ metadata: { generation: 1 }, spec: { size: 1 }, status: { id: "x" } });
  await api.client.patch(ref, { spec: { size: 2 }, status: { id: "no" } });
  expect(live()).toMatchObject({ metadata: { generation: 2 }, spec: { size: 2 }, status: { id: "x" } });
});

test("an object that is being deleted gets no new finalizers, and a Lease's times need six digits", async () => {
  await api.client.create(thing({}, undefined, { finalizers: ["example.org/f"] }));
  await api.client.delete(ref);
  const more = api.client.patch(ref, { metadata: { finalizers: ["example.org/f", "example.org/g"] } });
  await expect(more).rejects.toThrow(/no new finalizers/);
  const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { namespace: "edge", name: "l" } };
  const timed = { ...lease, spec: { renewTime: new Date().toISOString() } };
  await expect(api.client.create(timed as KubeObject)).rejects.toThrow(/cannot parse/);
});

test("a client that goes away in the middle of its request does no harm", async () => {
  const socket = connect(Number(new URL(api.server.url).port), "127.0.0.1").resume();
  socket.end("POST /apis/example.org/v1/namespaces/edge/things HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{");
  await once(socket, "close");
  expect(api.server.requests).toEqual([]);
  await api.client.create(thing({}));
});
