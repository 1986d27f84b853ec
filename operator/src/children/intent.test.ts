import { describe, expect, test } from "vitest";
import type { KubeObject } from "../kube/kinds.ts";
import { isAsIntended, withIntent } from "./intent.ts";

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
