import { describe, expect, test } from "vitest";
import type { KubeObject } from "../kube/kinds.ts";
import { Admissions, withIntent } from "./intent.ts";

type Json = Readonly<Record<string, unknown>>;
const workload = (image: string, name = "eu-0"): KubeObject =>
  withIntent({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name, namespace: "edge", labels: { app: "router" } },
    spec: { template: { spec: { containers: [{ name: "router", image, args: ["run"] }] } } },
  } as KubeObject);

/** What an API server keeps of it. */
function stored(object: KubeObject, container: Json, more: Json = {}): KubeObject {
  const { metadata } = object;
  const containers = [
    { name: "proxy", image: "mesh" },
    { name: "router", args: ["run"], ...container },
  ];
  const kept = { ...object, metadata: { ...metadata, uid: "u", resourceVersion: "7", ...more } };
  return { ...kept, spec: { replicas: 1, template: { spec: { containers } } }, status: { replicas: 1 } } as KubeObject;
}

describe("what admission makes of a write", () => {
  const wanted = workload("docker.io/router:1");
  const rewritten = stored(wanted, { image: "mirror.example/router:1" });

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
    ["what others have added beside it", stored(wanted, { image: "mirror.example/router:1", stdin: true }, { annotations: { ...wanted.metadata.annotations, mesh: "on" } }), true],
    ["another change of the same field", stored(wanted, { image: "evil.example/router:1" }), false],
    ["a change of another field", stored(wanted, { image: "mirror.example/router:1", args: ["serve"] }), false],
    ["a label that is gone", stored(wanted, { image: "mirror.example/router:1" }, { labels: {} }), false],
    ["what was wanted at first", stored(wanted, { image: "docker.io/router:1" }), true],
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
    admissions.wrote(wanted, stored(wanted, { image: "docker.io/router:1" }));
    expect(admissions.isThere(rewritten, wanted)).toBe(false);
  });

  test("is kept of so many objects, and of the newest", () => {
    const admissions = new Admissions(2);
    const names = ["a", "b", "c"];
    const all = names.map((name) => workload("docker.io/router:1", name));
    for (const each of all) admissions.wrote(each, stored(each, { image: "mirror.example/router:1" }));
    const known = all.map((each) => admissions.isThere(stored(each, { image: "mirror.example/router:1" }), each));
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
