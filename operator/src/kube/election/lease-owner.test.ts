import { describe, expect, test } from "vitest";
import { leaseOwner } from "./elector.ts";

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const bearer = (claims: unknown): string => `Bearer ${part({ alg: "RS256" })}.${part(claims)}.c2lnbmF0dXJl`;
const serviceaccount = { name: "sallyport-operator", uid: "3f1c" };
const OF_A_POD = {
  iss: "https://kubernetes.default.svc",
  "kubernetes.io": { namespace: "overlay", pod: { name: "sallyport-operator-0", uid: "77aa" }, serviceaccount },
};

describe("the owner of a Lease", () => {
  test("is the service account that the token names", () => {
    const expected = { apiVersion: "v1", kind: "ServiceAccount", name: "sallyport-operator", uid: "3f1c" };
    expect(leaseOwner(bearer(OF_A_POD), "overlay")).toEqual(expected);
  });

  test.each([
    ["an account of another namespace", bearer(OF_A_POD), "elsewhere"],
    ["a token of something else", bearer({ sub: "me", exp: 1 }), "overlay"],
    ["an opaque token", "Bearer abcdef", "overlay"],
    ["what only looks like a token", "Bearer a.b.c", "overlay"],
    ["name and password", "Basic bWU6c2VjcmV0", "overlay"],
    ["a client certificate", undefined, "overlay"],
  ])("is not known for %s", (_, authorization, namespace) => {
    expect(leaseOwner(authorization, namespace)).toBeUndefined();
  });
});
