import { it } from "vitest";
import { type Both, CLIENT, type Step } from "../ask.ts";
import { get, post, remove } from "../steps.ts";

export function sessionAnswers(both: () => Both): void {
  it("sessions, and what a client sees of itself", async () => {
    const client = (method: string, path: string, body?: NonNullable<Step["body"]>): Step => ({
      ...{ method, path: `${CLIENT}${path}`, session: "{session}" },
      ...(body !== undefined && { body }),
    });
    const updb = { method: "updb", identityId: "{person}", username: "u-person", password: "correct horse" };
    await both().expectSame(
      post("/identities", { name: "u-person", type: "Device", isAdmin: false }, { keep: { person: "id" } }),
      post("/services", { name: "u-service", encryptionRequired: true }, { keep: { service: "id" } }),
      post("/authenticators", updb, { keep: { authenticator: "id" } }),
      post(
        `${CLIENT}/authenticate?method=password`,
        { username: "u-person", password: "correct horse" },
        {
          ...{ session: null, keep: { session: "token", apiSession: "id" } },
        },
      ),
      client("GET", "/current-api-session"),
      client("GET", "/current-identity"),
      client("GET", "/current-identity/authenticators"),
      client("GET", "/current-identity/edge-routers"),
      client("GET", "/services"),
      client("GET", "/services/{service}"),
      client("GET", "/identities"),
      client("POST", "/sessions", { serviceId: "{service}", type: "Dial" }),
      client("POST", "/sessions", { serviceId: "nowhere", type: "Dial" }),
      client("POST", "/sessions", { serviceId: "{service}", type: "Bogus" }),
      client("GET", "/sessions"),
      client("GET", "/service-updates"),
      client("GET", "/current-api-session/service-updates"),
      client("GET", "/current-api-session/certificates"),
      client("POST", "/current-api-session/certificates", { csr: "none" }),
      { method: "GET", path: "/services", session: "{session}" },
      { method: "POST", path: "/services", session: "{session}", body: { name: "x", encryptionRequired: true } },
      client("PUT", "/current-identity/authenticators/{authenticator}", {
        ...{ username: "u-person", password: "x", currentPassword: "wrong" },
      }),
      client("PATCH", "/current-identity/authenticators/{authenticator}", {
        ...{ password: "another horse", currentPassword: "wrong" },
      }),
      client("PATCH", "/current-identity/authenticators/{authenticator}", {
        ...{ password: "another horse", currentPassword: "correct horse" },
      }),
      client("POST", "/posture-response", { typeId: "DOMAIN", id: "x", domain: "a" }),
      client("POST", "/posture-response", { typeId: "BOGUS", id: "x" }),
      get("/api-sessions/{apiSession}"),
      remove("/api-sessions/{apiSession}"),
      remove("/api-sessions/{apiSession}"),
      client("GET", "/current-api-session"),
      remove("/authenticators/{authenticator}"),
      remove("/identities/{person}"),
      remove("/services/{service}"),
      get("/sessions"),
      remove("/sessions/nowhere"),
    );
  });
}
