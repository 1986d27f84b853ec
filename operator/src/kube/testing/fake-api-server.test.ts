import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { WatchEvent } from "../client/client.ts";
import { clusterAt } from "../client/cluster.ts";
import { HttpKubeClient } from "../client/http-client.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../kinds.ts";
import { FakeApiServer } from "./fake-api-server.ts";

const Thing: ResourceKind = { group: "example.org", version: "v1", plural: "things", kind: "Thing", namespaced: true };
const ref = { kind: Thing, namespace: "edge", name: "a" };

interface ThingObject extends KubeObject {
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
}

const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.example.org" },
  spec: {
    group: "example.org",
    scope: "Namespaced",
    names: { plural: "things", kind: "Thing" },
    versions: [
      {
        name: "v1",
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: {
              spec: {
                type: "object",
                properties: {
                  size: { type: "integer", default: 1 },
                  roles: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
                  steps: { type: "array", items: { type: "string" } },
                  free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
                  listeners: {
                    type: "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    items: {
                      type: "object",
                      properties: { name: { type: "string" }, port: { type: "integer" }, note: { type: "string" } },
                    },
                  },
                },
              },
              status: {
                type: "object",
                default: { observedGeneration: -1 },
                properties: {
                  observedGeneration: { type: "integer" },
                  id: { type: "string" },
                  conditions: {
                    type: "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    items: { type: "object", properties: { type: { type: "string" }, status: { type: "string" } } },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

let server: FakeApiServer;
let client: HttpKubeClient;

beforeEach(async () => {
  server = await FakeApiServer.start();
  client = new HttpKubeClient(clusterAt(server.url), { kinds: [Thing] });
  await client.create(definition as KubeObject);
});

afterEach(async () => {
  await client.close();
  await server.close();
});

function thing(spec: Record<string, unknown>, more: object = {}, status?: Record<string, unknown>): ThingObject {
  return {
    apiVersion: "example.org/v1",
    kind: "Thing",
    metadata: { namespace: "edge", name: "a", ...more },
    spec,
    ...(status === undefined ? {} : { status }),
  };
}

const live = (): ThingObject => server.read<ThingObject>(ref) as ThingObject;

describe("objects", () => {
  test("get defaults of the schema, lose what it does not know, and their status on creation", async () => {
    await client.create(thing({ odd: 1, free: { any: [1] } }, {}, { id: "x" }));
    expect(live()).toMatchObject({ spec: { size: 1, free: { any: [1] } }, status: { observedGeneration: -1 } });
    expect(live().spec).not.toHaveProperty("odd");
    expect(live().status).not.toHaveProperty("id");
  });

  test("generation grows with the spec alone, the version with every change and with no other write", async () => {
    const made = await client.create<ThingObject>(thing({ size: 1 }));
    expect(made.metadata.generation).toBe(1);
    await client.patch(ref, { metadata: { labels: { a: "b" } } });
    await client.patch(ref, { status: { id: "x" } }, { status: true });
    expect(live().metadata.generation).toBe(1);
    const version = live().metadata.resourceVersion;
    await client.patch(ref, { status: { id: "x" } }, { status: true });
    expect(live().metadata.resourceVersion).toBe(version);
    await client.patch(ref, { spec: { size: 2 } });
    expect(live().metadata.generation).toBe(2);
  });

  test("spec and status are written apart", async () => {
    await client.create(thing({ size: 1 }));
    await client.patch(ref, { spec: { size: 2 }, status: { id: "no" } });
    expect(live().status).not.toHaveProperty("id");
    await client.patch(ref, { spec: { size: 3 }, status: { id: "yes" } }, { status: true });
    expect(live()).toMatchObject({ spec: { size: 2 }, status: { id: "yes" } });
  });

  test("finalizers hold an object that is deleted; it goes with the last of them, and gets no new ones", async () => {
    await client.create(thing({}, { finalizers: ["example.org/f"] }));
    await client.delete(ref);
    expect(live().metadata.deletionTimestamp).toBeDefined();
    await expect(client.patch(ref, { metadata: { finalizers: ["example.org/f", "example.org/g"] } })).rejects.toThrow(
      /no new finalizers/,
    );
    await client.patch(ref, { metadata: { finalizers: null } });
    expect(server.read(ref)).toBeUndefined();
  });

  test("a dry run answers and keeps nothing", async () => {
    const made = await client.apply<ThingObject>(thing({ size: 4 }), { dryRun: true });
    expect(made.spec).toMatchObject({ size: 4 });
    expect(server.read(ref)).toBeUndefined();
  });

  test("the garbage of deleted owners is collected when asked", async () => {
    const { metadata } = await client.create<ThingObject>(thing({}));
    const owner = { apiVersion: "example.org/v1", kind: "Thing", name: "a", uid: metadata.uid ?? "", controller: true };
    server.put(KINDS.Secret, { metadata: { namespace: "edge", name: "s", ownerReferences: [owner] } });
    expect(server.store.collectGarbage()).toBe(0);
    await client.delete(ref);
    expect(server.store.collectGarbage()).toBe(1);
  });

  test("a Secret's plain texts become data; times of a Lease need six digits", async () => {
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "edge", name: "s" },
      stringData: { a: "b" },
    };
    expect(await client.apply(secret)).toMatchObject({ data: { a: "Yg==" } });
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { namespace: "edge", name: "l" } };
    const spec = { renewTime: new Date().toISOString() };
    await expect(client.create({ ...lease, spec } as KubeObject)).rejects.toThrow(/cannot parse/);
  });
});

describe("server-side apply", () => {
  test("removes what its manager leaves out, and nothing of others", async () => {
    await client.apply(thing({ size: 3, roles: ["a", "b"], free: { x: 1, y: 2 } }));
    await client.apply(thing({ roles: ["b", "c"], free: { y: 2 } }), { manager: "other" });
    await client.apply(thing({ roles: ["a"] }));
    expect(live().spec).toEqual({ size: 1, roles: ["a", "b", "c"], free: { y: 2 } });
  });

  test("a map may get its first field, and lose its last", async () => {
    await client.apply(thing({ free: {} }));
    await client.apply(thing({ free: { a: 1 } }));
    expect(live().spec?.free).toEqual({ a: 1 });
    await client.apply(thing({ free: {} }));
    expect(live().spec?.free).toEqual({});
    await client.apply(thing({}));
    expect(live().spec).not.toHaveProperty("free");
  });

  test("merges keyed lists by key", async () => {
    await client.apply(
      thing({
        listeners: [
          { name: "x", port: 1 },
          { name: "y", port: 2 },
        ],
      }),
    );
    await client.apply(thing({ listeners: [{ name: "y", note: "n" }] }), { manager: "other" });
    await client.apply(thing({ listeners: [{ name: "x", port: 9 }] }));
    expect(live().spec?.listeners).toEqual([
      { name: "x", port: 9 },
      { name: "y", note: "n" },
    ]);
  });

  test("knows the default of a port's protocol, and keeps the address that the server gave", async () => {
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: "edge", name: "s" },
      spec: { ports: [{ port: 443, targetPort: 3022 }] },
    };
    const first = await client.apply<ThingObject>(service);
    const second = await client.apply<ThingObject>(service);
    expect(second).toEqual(first);
    expect(second.spec?.ports).toEqual([{ port: 443, targetPort: 3022, protocol: "TCP" }]);
    expect(second.spec?.clusterIP).toMatch(/^10\./);
  });

  test("replaces other lists whole", async () => {
    await client.apply(thing({ steps: ["a", "b"] }));
    await client.apply(thing({ steps: ["c"] }), { manager: "other" });
    expect(live().spec?.steps).toEqual(["c"]);
  });

  test("the same again changes nothing, not even the version", async () => {
    await client.apply(thing({ roles: ["a"] }));
    await client.apply(thing({}, {}, { id: "x", conditions: [{ type: "Ready", status: "True" }] }), { status: true });
    const version = live().metadata.resourceVersion;
    await client.apply(thing({ roles: ["a"] }));
    await client.apply(thing({}, {}, { id: "x", conditions: [{ type: "Ready", status: "True" }] }), { status: true });
    expect(live().metadata.resourceVersion).toBe(version);
  });

  test("through the status removes a condition that is left out, and writes no spec", async () => {
    const both = [
      { type: "Ready", status: "False" },
      { type: "Stalled", status: "True" },
    ];
    await client.apply(thing({ size: 2 }));
    await client.apply(thing({ size: 9 }, {}, { conditions: both }), { status: true });
    expect(live()).toMatchObject({ spec: { size: 2 }, status: { conditions: both } });
    await client.apply(thing({}, {}, { conditions: [{ type: "Ready", status: "True" }] }), { status: true });
    expect(live().status?.conditions).toEqual([{ type: "Ready", status: "True" }]);
    expect(live().spec).toMatchObject({ size: 2 });
  });

  test("without force a field of another manager is a conflict; a write of another kind owns, too", async () => {
    await client.apply(thing({ size: 2 }));
    server.change(ref, { spec: { size: 3 } });
    await expect(client.apply(thing({ size: 2 }), { force: false })).rejects.toThrow(/conflict with "test"/);
    await client.apply(thing({ size: 2 }));
    expect(live().spec).toMatchObject({ size: 2 });
  });

  test("refuses managedFields and old versions", async () => {
    const made = await client.apply<ThingObject>(thing({ size: 2 }));
    await expect(client.apply(made)).rejects.toThrow(/managedFields must be nil/);
    const { resourceVersion = "" } = made.metadata;
    await client.apply(thing({ size: 3 }, { resourceVersion }));
    await expect(client.apply(thing({ size: 4 }, { resourceVersion }))).rejects.toThrow(/has been modified/);
  });
});

describe("a watch", () => {
  test("without a version sends everything first, then what changes, with selectors", async () => {
    await client.create(thing({}, { labels: { app: "x" } }));
    const stop = new AbortController();
    const events: string[] = [];
    for await (const event of client.watch<ThingObject>(Thing, {
      labelSelector: "app in (x,y),!off",
      signal: stop.signal,
    })) {
      events.push(`${event.type} ${event.object.metadata.name}`);
      if (events.length === 1) server.put(Thing, thing({}, { name: "b", labels: { app: "y" } }));
      if (events.length === 2) server.change({ ...ref, name: "b" }, { metadata: { labels: { off: "1" } } });
      if (events.length === 3) stop.abort();
    }
    expect(events).toEqual(["ADDED a", "ADDED b", "DELETED b"]);
  });

  test("of a version that is forgotten is told so", async () => {
    await client.create(thing({}));
    server.compact();
    server.put(Thing, thing({ size: 5 }));
    const events: WatchEvent[] = [];
    const read = async (): Promise<void> => {
      for await (const event of client.watch(Thing, { resourceVersion: "2" })) events.push(event);
    };
    await expect(read()).rejects.toMatchObject({ status: 410, reason: "Expired" });
    expect(events).toEqual([]);
  });

  test("another writer can come first", async () => {
    const made = await client.create<ThingObject>(thing({ size: 1 }));
    server.inject({
      method: "PUT",
      fault: { kind: "writer", change: (object) => Object.assign(object, { spec: { size: 7 } }) },
    });
    await expect(client.replace({ ...made, spec: { size: 2 } } as KubeObject)).rejects.toMatchObject({ status: 409 });
    expect(live().spec).toMatchObject({ size: 7 });
  });
});

test("a client that goes away in the middle of its request harms nobody", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1").resume();
  socket.end("POST /apis/example.org/v1/namespaces/edge/things HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{");
  await once(socket, "close");
  expect(server.requests.map(({ path }) => path)).toEqual([expect.stringContaining("/customresourcedefinitions")]);
  await client.create(thing({}));
});
