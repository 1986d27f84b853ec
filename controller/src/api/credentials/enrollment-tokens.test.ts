/** A reader of an enrollment token can become the identity that it invites. */
import { clientOperations, managementOperations, type Operation } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
/** Of the invitation of an administrator. */
let invited: { identityId: string; enrollmentId: string; token: string; jwt: string };
/** An identity with every permission that there is by name, and no administrator. */
let reader: string;
beforeAll(async () => {
  c = await startTestController();
  const identityId = await c.make("identities", {
    ...{ name: "invited", type: "Default", isAdmin: true, enrollment: { ott: true } },
  });
  const [{ id, token, jwt }] = (await c.admin("GET", `/identities/${identityId}/enrollments`)).json.data;
  invited = { identityId, enrollmentId: id, token, jwt };
  const permissions = ["enrollment", "identity", "router", "authenticator"].flatMap((entity) => [
    ...[entity, `${entity}.read`, `${entity}.create`, `${entity}.update`, `${entity}.delete`],
  ]);
  const readerId = await c.make("identities", { name: "reader", type: "Default", isAdmin: false, permissions });
  await c.make("authenticators", {
    identityId: readerId,
    method: "updb",
    username: "reader",
    password: "correct horse",
  });
  reader = await c.login("reader", "correct horse");
});
afterAll(() => c.close());

const reads = (base: string, operations: Readonly<Record<string, Operation>>): string[] =>
  Object.values(operations)
    .filter(({ method }) => method === "GET")
    .flatMap(({ path }) =>
      [invited.identityId, invited.enrollmentId].map((id) => `${base}${path.replace("{id}", id)}`),
    );

describe("GHSA-p6gx-g438-rjc8: the token of an enrollment", () => {
  it("is shown to administrators", async () => {
    expect((await c.admin("GET", `/enrollments/${invited.enrollmentId}`)).json.data.token).toBe(invited.token);
  });

  it("is in no answer to an identity that may only read", async () => {
    const paths = [
      ...reads("/edge/management/v1", managementOperations),
      ...reads("/edge/client/v1", clientOperations),
    ];
    expect(paths.length).toBeGreaterThan(100);
    // OpenZiti's identity routes showed it.
    const identity = `/edge/management/v1/identities/${invited.identityId}`;
    expect(paths).toEqual(
      expect.arrayContaining(["/edge/management/v1/identities", identity, `${identity}/enrollments`]),
    );
    for (const path of paths) {
      const { text } = await c.call("GET", path, { token: reader });
      expect([path, text.includes(invited.token), text.includes(invited.jwt)]).toEqual([path, false, false]);
    }
  });
});

describe("#4010: an enrollment", () => {
  it("is made, renewed and taken away by administrators only", async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const body = { identityId: invited.identityId, method: "ott", expiresAt };
    for (const [method, path] of [
      ["POST", "/enrollments"],
      ["POST", `/enrollments/${invited.enrollmentId}/refresh`],
      ["DELETE", `/enrollments/${invited.enrollmentId}`],
    ] as const) {
      expect((await c.call(method, `/edge/management/v1${path}`, { token: reader, body })).status).toBe(401);
    }
    expect((await c.admin("GET", `/enrollments/${invited.enrollmentId}`)).json.data.token).toBe(invited.token);
  });
});
