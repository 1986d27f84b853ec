import { describe, expect, test } from "vitest";
import type { KubeObject } from "../kube/kinds.ts";
import { Admissions, isAsIntended, withIntent } from "./intent.ts";

type Json = Readonly<Record<string, unknown>>;

const service = (spec: object, metadata: object = {}): KubeObject =>
  ({ apiVersion: "v1", kind: "Service", metadata: { name: "a", namespace: "n", ...metadata }, spec }) as KubeObject;

/** What a server keeps of an object: the intent and what else is there. */
const stored = (intended: KubeObject, spec: object): KubeObject =>
  ({ ...intended, metadata: { ...intended.metadata, uid: "u", resourceVersion: "7" }, spec }) as KubeObject;

describe("an object as it is wanted", () => {
  const intended = withIntent(
    service({ type: "ClusterIP", ports: [{ name: "api", port: 1280 }], selector: { app: "a" } }),
  );

  const api = { name: "api", port: 1280 };
  const found = (ports: object[], more: object = { selector: { app: "a" } }) => ({ type: "ClusterIP", ports, ...more });
  test.each<[string, object, boolean]>([
    ["with what the API server fills in", { ...found([{ ...api, protocol: "TCP" }]), clusterIP: "10.0.0.1" }, true],
    ["with a port that another client has added", found([{ name: "x", port: 1 }, api]), true],
    ["with another port", found([{ ...api, port: 1 }]), false],
    ["without its selector", found([api], {}), false],
  ])("%s", (_name, spec, expected) => expect(isAsIntended(stored(intended, spec), intended)).toBe(expected));

  test("a field that is wanted no more is noticed by the hash", () => {
    const former = withIntent(service({ type: "ClusterIP", externalTrafficPolicy: "Local", selector: { app: "a" } }));
    const now = withIntent(service({ type: "ClusterIP", selector: { app: "a" } }));
    expect(isAsIntended(former, now)).toBe(false);
    expect(isAsIntended(now, now)).toBe(true);
    expect(isAsIntended(undefined, now)).toBe(false);
  });

  test("a field without a value is not wanted, so what the API server fills in there stays", () => {
    const now = withIntent(service({ type: "ClusterIP", externalTrafficPolicy: undefined }));
    expect(now).toEqual(withIntent(service({ type: "ClusterIP" })));
    expect(isAsIntended(stored(now, { type: "ClusterIP", externalTrafficPolicy: "Cluster" }), now)).toBe(true);
  });

  test.each<[unknown, unknown, boolean]>([
    ["500m", "0.5", true],
    ["1Gi", "1024Mi", true],
    ["1", 1, true],
    ["1Gi", "1G", false],
    [undefined, "", true],
    [undefined, {}, true],
    [[], undefined, true],
    [[1, 2], [1], false],
    [{ a: 1, b: 2 }, { a: 1 }, true],
    [{ selector: { app: "a", other: "b" } }, { selector: { app: "a" } }, false],
    [{ matchLabels: { app: "a", other: "b" } }, { matchLabels: { app: "a" } }, false],
    [{ ingress: [{ ports: [{ port: 1, protocol: "TCP" }] }] }, { ingress: [{ ports: [{ port: 1 }] }] }, true],
    [{ ingress: [{ ports: [{ port: 1 }, { port: 2 }] }] }, { ingress: [{ ports: [{ port: 1 }] }] }, false],
    [{ ingress: [{ ports: [{ port: 1 }] }, {}] }, { ingress: [{ ports: [{ port: 1 }] }] }, false],
  ])("found %j, wanted %j: %s", (found, wanted, expected) => {
    const now = withIntent(service({ value: wanted }));
    expect(isAsIntended(stored(now, { value: found }), now)).toBe(expected);
  });

  test("the order of keys does not count", () => {
    const hash = (object: KubeObject) => withIntent(object).metadata.annotations;
    expect(hash(service({ a: 1, b: 2 }))).toEqual(hash(service({ b: 2, a: 1 })));
    expect(hash(service({ a: 1 }))).not.toEqual(hash(service({ a: 2 })));
  });
});

describe("what admission makes of a write", () => {
  const workload = (image: string, name = "eu-0"): KubeObject =>
    withIntent({
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: { name, namespace: "edge", labels: { app: "router" } },
      spec: { template: { spec: { containers: [{ name: "router", image, args: ["run"] }] } } },
    } as KubeObject);

  /** What an API server keeps of it. */
  function admitted(object: KubeObject, container: Json, more: Json = {}): KubeObject {
    const { metadata } = object;
    const containers = [
      { name: "proxy", image: "mesh" },
      { name: "router", args: ["run"], ...container },
    ];
    const kept = { ...object, metadata: { ...metadata, uid: "u", resourceVersion: "7", ...more } };
    return {
      ...kept,
      spec: { replicas: 1, template: { spec: { containers } } },
      status: { replicas: 1 },
    } as KubeObject;
  }

  const wanted = workload("docker.io/router:1");
  const rewritten = admitted(wanted, { image: "mirror.example/router:1" });

  test("counts as what was wanted, once it is known", () => {
    const admissions = new Admissions();
    expect(admissions.isThere(undefined, wanted)).toBe(false);
    expect(admissions.isThere(rewritten, wanted)).toBe(false);
    expect(admissions.wrote(wanted, rewritten)).toBe(true);
    expect(admissions.isThere(rewritten, wanted)).toBe(true);
    expect(admissions.wrote(wanted, rewritten)).toBe(false);
    const later = { ...rewritten, status: { replicas: 0 }, metadata: { ...rewritten.metadata, resourceVersion: "9" } };
    expect(admissions.isThere(later as KubeObject, wanted)).toBe(true);
  });

  // biome-ignore format: a table
  test.each<[string, KubeObject, boolean]>([
    ["what others have added beside it", admitted(wanted, { image: "mirror.example/router:1", stdin: true }, { annotations: { ...wanted.metadata.annotations, mesh: "on" } }), true],
    ["another change of the same field", admitted(wanted, { image: "evil.example/router:1" }), false],
    ["a change of another field", admitted(wanted, { image: "mirror.example/router:1", args: ["serve"] }), false],
    ["a label that is gone", admitted(wanted, { image: "mirror.example/router:1" }, { labels: {} }), false],
    ["what was wanted at first", admitted(wanted, { image: "docker.io/router:1" }), true],
  ])("with %s: %#", (_what, found, expected) => {
    const admissions = new Admissions();
    admissions.wrote(wanted, rewritten);
    expect(admissions.isThere(found, wanted)).toBe(expected);
  });

  test("says nothing of another intent, nor of another object", () => {
    const admissions = new Admissions();
    admissions.wrote(wanted, rewritten);
    expect(admissions.isThere(rewritten, workload("docker.io/router:2"))).toBe(false);
    expect(admissions.isThere(rewritten, workload("docker.io/router:1", "eu-1"))).toBe(false);
  });

  test("is forgotten when the server takes the object as it is", () => {
    const admissions = new Admissions();
    admissions.wrote(wanted, rewritten);
    admissions.wrote(wanted, admitted(wanted, { image: "docker.io/router:1" }));
    expect(admissions.isThere(rewritten, wanted)).toBe(false);
  });

  test("is kept of so many objects, and of the newest", () => {
    const admissions = new Admissions(2);
    const names = ["a", "b", "c"];
    const all = names.map((name) => workload("docker.io/router:1", name));
    for (const each of all) admissions.wrote(each, admitted(each, { image: "mirror.example/router:1" }));
    const known = all.map((each) => admissions.isThere(admitted(each, { image: "mirror.example/router:1" }), each));
    expect(known).toEqual([false, true, true]);
  });

  test.each<[string, object, object]>([
    ["rules of a NetworkPolicy", { ingress: [{ ports: [{ port: 1 }] }] }, { ingress: [{ ports: [{ port: 1 }] }, {}] }],
    ["a selector", { selector: { app: "a" } }, { selector: { app: "a", more: "b" } }],
    ["a list without names", { args: ["run"] }, { args: ["run", "--more"] }],
    ["a field that is taken away", { type: "ClusterIP" }, {}],
    ["an item that is taken away", { ports: [{ name: "edge", port: 1 }] }, { ports: [] }],
  ])("may be anything: %s", (_what, spec, got) => {
    const object = (of: object): KubeObject =>
      ({ apiVersion: "v1", kind: "Service", metadata: { name: "a", namespace: "n" }, spec: of }) as KubeObject;
    const admissions = new Admissions();
    expect(admissions.wrote(object(spec), object(got))).toBe(true);
    expect(admissions.isThere(object(got), object(spec))).toBe(true);
    expect(admissions.isThere(object({ type: "NodePort", selector: { app: "z" } }), object(spec))).toBe(false);
  });
});
