import { it } from "vitest";
import type { Both } from "../ask.ts";
import { get, patch, post, put, remove } from "../steps.ts";

const NUMBERED = {
  ...{ status: 400, code: "COULD_NOT_VALIDATE" },
  because: "OpenZiti answers with the number of its validator's error, which is no HTTP status",
};

export function policyUpdates(both: () => Both): void {
  it("policies: roles, names, what they refer to", async () => {
    const policy = {
      name: "u-policy",
      type: "Dial",
      semantic: "AnyOf",
      serviceRoles: ["#all"],
      identityRoles: ["#a"],
    };
    await both().expectSame(
      post(
        "/identities",
        { name: "u-member", type: "Device", isAdmin: false, roleAttributes: ["a"] },
        { keep: { member: "id" } },
      ),
      post("/services", { name: "u-used", encryptionRequired: true }, { keep: { used: "id" } }),
      post("/service-policies", { ...policy, identityRoles: ["@{member}", "#a"] }, { keep: { policy: "id" } }),
      get("/service-policies/{policy}"),
      get("/service-policies/{policy}/identities"),
      get("/service-policies/{policy}/services"),
      post("/service-policies", policy),
      post("/service-policies", { ...policy, name: "" }),
      post("/service-policies", { ...policy, name: "bad", type: "Both" }),
      post("/service-policies", { ...policy, name: "bad", identityRoles: ["@nowhere"] }),
      post("/service-policies", { ...policy, name: "bad", postureCheckRoles: ["@nowhere"] }),
      post("/service-policies", { ...policy, name: "bad", identityRoles: ["#"] }),
      post("/service-policies", { ...policy, name: "bad", identityRoles: "x" }),
      post("/service-policies", { name: "bad", type: "Dial" }),
      patch("/service-policies/{policy}", { serviceRoles: ["@{used}"], semantic: "AllOf" }),
      get("/service-policies/{policy}"),
      patch("/service-policies/{policy}", { identityRoles: null }),
      get("/service-policies/{policy}"),
      patch("/service-policies/{policy}", { type: "Bind" }),
      get("/service-policies/{policy}"),
      put("/service-policies/{policy}", { ...policy, type: "Bind" }),
      get("/service-policies/{policy}"),
      get("/identities/{member}/policy-advice/{used}"),
      get("/identities/{member}/policy-advice/nowhere"),
      get("/services/{used}/identities?policyType=bind"),
      { ...get("/services/{used}/identities?policyType=bogus"), ours: NUMBERED },
      remove("/services/{used}"),
      get("/service-policies/{policy}"),
      remove("/identities/{member}"),
      remove("/service-policies/{policy}"),
      remove("/service-policies/{policy}"),
      post(
        "/edge-router-policies",
        { name: "u-erp", semantic: "AllOf", edgeRouterRoles: ["#all"], identityRoles: ["#all"] },
        { keep: { erp: "id" } },
      ),
      post("/edge-router-policies", { name: "u-erp", semantic: "AllOf" }),
      post("/edge-router-policies", { name: "bad", semantic: "AllOf", edgeRouterRoles: ["@nowhere"] }),
      patch("/edge-router-policies/{erp}", { tags: { a: "b" } }),
      get("/edge-router-policies/{erp}"),
      remove("/edge-router-policies/{erp}"),
      post(
        "/service-edge-router-policies",
        { name: "u-serp", semantic: "AnyOf", edgeRouterRoles: [], serviceRoles: ["#x"] },
        { keep: { serp: "id" } },
      ),
      get("/service-edge-router-policies/{serp}"),
      put("/service-edge-router-policies/{serp}", { name: "u-serp", semantic: "Bogus" }),
      remove("/service-edge-router-policies/{serp}"),
    );
  });
}
