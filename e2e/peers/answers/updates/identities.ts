import { it } from "vitest";
import type { Both } from "../ask.ts";
import { get, patch, post, put, remove } from "../steps.ts";

export function identityUpdates(both: () => Both): void {
  it("identities: null, names, system entities, types", async () => {
    const identity = { name: "u-id", type: "Device", isAdmin: false };
    await both().expectSame(
      post(
        "/identities",
        { ...identity, externalId: "e", roleAttributes: ["a"], appData: { a: 1 } },
        { keep: { id: "id" } },
      ),
      post("/identities", { ...identity, externalId: "f" }),
      post("/identities", { ...identity, name: "u-other", externalId: "e" }),
      post("/identities", { ...identity, name: "u-other", type: "Bogus" }),
      post(
        "/identities",
        { ...identity, name: "u-router", type: "Router" },
        { ours: { status: 400, code: "COULD_NOT_VALIDATE", because: "only an edge router makes such an identity" } },
      ),
      post("/identities", { ...identity, name: "u-other", isAdmin: "x" }),
      post("/identities", { name: "u-other" }),
      post("/identities", { ...identity, name: "u-ottca", enrollment: { ottca: "nowhere" } }),
      post("/identities", { ...identity, name: "u-bogus", enrollment: { bogus: true } }),
      post("/identities", { ...identity, name: "u-costs", serviceHostingCosts: { nowhere: 1 } }),
      post("/identities", { ...identity, name: "u-other", defaultHostingCost: 70_000 }),
      post("/identities", { ...identity, name: "u-other", defaultHostingPrecedence: "bogus" }),
      get("/identities/{id}"),
      patch("/identities/{id}", { externalId: null }),
      patch("/identities/{id}", { roleAttributes: null, appData: null, tags: null }),
      get("/identities/{id}"),
      patch("/identities/{id}", { isAdmin: null }),
      patch("/identities/{id}", { name: null }),
      get("/identities/{id}"),
      put("/identities/{id}", { ...identity, name: "u-put", isAdmin: true }),
      get("/identities/{id}"),
      put("/identities/{id}", { name: "u-put" }),
      get("/identities/{id}/edge-routers"),
      get("/identities/{id}/services"),
      get("/identities/{id}/service-configs"),
      get("/identities/{id}/posture-data"),
      get("/identities/{id}/failed-service-requests"),
      get("/identities/nowhere/services"),
      put("/identities/{id}/trace", { enabled: true, duration: "1m", channels: ["all"], traceId: "t" }),
      put("/identities/{id}/trace", { enabled: true, duration: "bogus", channels: ["all"], traceId: "t" }),
      remove("/identities/{id}"),
      get("/identity-types/nowhere"),
      get("/terminators"),
      get("/network-jwts"),
      get("/controllers"),
      get("/enumerated-capabilities", {
        ours: { status: 200, because: "OIDC_AUTH_WITH_CSR is a capability of OpenZiti 2.x" },
      }),
    );
  });
}
