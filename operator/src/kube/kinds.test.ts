import { describe, expect, test } from "vitest";
import { errorOfAnswer, errorOfWatch } from "./client/errors.ts";
import { retryAfterMs } from "./client/transport.ts";
import { collectionPath, KINDS, KindTable, keyFor, keyOf, objectPath, query, splitKey } from "./kinds.ts";

describe("paths", () => {
  test.each([
    [collectionPath(KINDS.Secret), "/api/v1/secrets"],
    [collectionPath(KINDS.Secret, "edge"), "/api/v1/namespaces/edge/secrets"],
    [collectionPath(KINDS.Lease, "a/b"), "/apis/coordination.k8s.io/v1/namespaces/a%2Fb/leases"],
    [collectionPath(KINDS.Namespace, "ignored"), "/api/v1/namespaces"],
    [objectPath({ kind: KINDS.Namespace, name: "edge" }), "/api/v1/namespaces/edge"],
    [objectPath({ kind: KINDS.Pod, namespace: "edge", name: "p" }, "status"), "/api/v1/namespaces/edge/pods/p/status"],
    [objectPath({ kind: KINDS.Pod, namespace: "edge", name: "../x" }), "/api/v1/namespaces/edge/pods/..%2Fx"],
    [query({ a: 1, b: undefined, c: "x=y,z", d: true }), "?a=1&c=x%3Dy%2Cz&d=true"],
    [query({ a: undefined }), ""],
  ])("%s", (path, expected) => {
    expect(path).toBe(expected);
  });

  test.each(["", ".", ".."])("the name %j is refused", (name) => {
    expect(() => objectPath({ kind: KINDS.Pod, namespace: "edge", name })).toThrow(/is no name/);
  });
});

describe("keys and kinds", () => {
  test("a key is namespace and name", () => {
    expect(keyOf({ metadata: { namespace: "edge", name: "a" } })).toBe("edge/a");
    expect(keyFor("", "a")).toBe("a");
    expect(splitKey("edge/a")).toEqual({ namespace: "edge", name: "a" });
    expect(splitKey("a")).toEqual({ name: "a" });
  });

  test("the table finds a kind by what an object calls itself", () => {
    const thing = { group: "example.org", version: "v1", plural: "things", kind: "Thing", namespaced: true };
    const table = new KindTable([thing]);
    expect(table.of({ apiVersion: "example.org/v1", kind: "Thing" })).toBe(thing);
    expect(table.of({ apiVersion: "v1", kind: "Secret" })).toBe(KINDS.Secret);
    expect(() => table.of({ apiVersion: "v1", kind: "Thing" })).toThrow(TypeError);
  });
});

describe("errors of answers", () => {
  const status = {
    kind: "Status",
    reason: "TooManyRequests",
    message: "slow down",
    code: 429,
    details: { retryAfterSeconds: 3 },
  };

  test("take the time to wait from the header, else from the Status", () => {
    expect(errorOfAnswer("GET /x", 429, status).retryAfterMs).toBe(3000);
    expect(errorOfAnswer("GET /x", 429, status, 1000).retryAfterMs).toBe(1000);
    expect(errorOfAnswer("GET /x", 429, { ...status, details: {} }).retryAfterMs).toBeUndefined();
    // No client waits for a year because a proxy says so.
    expect(errorOfAnswer("GET /x", 429, status, 31_536_000_000).retryAfterMs).toBe(300_000);
  });

  test("of a stream have the code of their object", () => {
    expect(errorOfWatch("GET /x", status)).toMatchObject({
      status: 429,
      reason: "TooManyRequests",
      retryAfterMs: 3000,
    });
    expect(errorOfWatch("GET /x", "odd")).toMatchObject({ status: 500 });
  });

  test("say what to do about a missing right", () => {
    expect(errorOfAnswer("GET /x", 403, "no").message).toBe(
      "GET /x: 403 Forbidden: no (give the operator's service account this right)",
    );
  });

  test("Retry-After is seconds or a date", () => {
    expect(retryAfterMs("7")).toBe(7000);
    expect(retryAfterMs(["7", "8"])).toBe(7000);
    expect(retryAfterMs(new Date(Date.now() - 5000).toUTCString())).toBe(0);
    expect(retryAfterMs(new Date(Date.now() + 60_000).toUTCString())).toBeGreaterThan(50_000);
    expect(retryAfterMs("soon")).toBeUndefined();
    expect(retryAfterMs(undefined)).toBeUndefined();
  });
});
