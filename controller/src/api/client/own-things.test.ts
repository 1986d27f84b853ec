/** What is called "current" is the caller's, whatever it asks for. */
import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;

interface Caller {
  readonly token: string;
  /** Of a certificate of the session, an authenticator of the identity, and a session for a service. */
  readonly certificate: string;
  readonly authenticator: string;
  readonly session: string;
}
/** Two sessions of one identity, and one of another. */
let first: Caller;
let second: Caller;
let outsider: Caller;

const CLIENT = "/edge/client/v1";
const MANAGEMENT = "/edge/management/v1";

beforeAll(async () => {
  c = await startTestController();
  const serviceId = await c.make("services", { name: "svc", encryptionRequired: false });
  await c.make("edge-routers", { name: "r" });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", ...all, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...all, serviceRoles: ["#all"] });
  const roles = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"] };
  await c.make("service-policies", { name: "dial", type: "Dial", ...roles });
  const csr = await createCsr({ commonName: "session", keyPem: (await createKeyPair()).keyPem });
  const made = async (path: string, token: string, body: object): Promise<string> => {
    const answer = await c.call("POST", `${CLIENT}${path}`, { token, body });
    expect(answer.status, answer.text).toBe(201);
    return answer.json.data.id;
  };
  const caller = async (name: string, authenticator: string): Promise<Caller> => {
    const token = await c.login(name, "correct horse");
    const certificate = await made("/current-api-session/certificates", token, { csr });
    return { token, certificate, authenticator, session: await made("/sessions", token, { serviceId }) };
  };
  const person = async (name: string): Promise<string> => {
    const identityId = await c.make("identities", { name, type: "Default", isAdmin: false });
    return c.make("authenticators", { identityId, method: "updb", username: name, password: "correct horse" });
  };
  const [alice, mallory] = [await person("alice"), await person("mallory")];
  first = await caller("alice", alice);
  second = await caller("alice", alice);
  outsider = await caller("mallory", mallory);
});
afterAll(() => c.close());

/** Filters by which a caller could try to see more. */
const FILTERS = [
  "",
  "true",
  "true or true",
  'id != "" or true',
  'not id = "x"',
  "true limit none",
  "true sort by id desc",
];

const idsOf = async (path: string, token: string, filter: string): Promise<string[]> => {
  const answer = await c.call("GET", `${path}?filter=${encodeURIComponent(filter)}`, { token });
  expect(answer.status, answer.text).toBe(200);
  return answer.json.data.map(({ id }: { id: string }) => id);
};

describe("GHSA-6v5r-p2wr-q492: lists are of the caller's alone, whatever the filter says:", () => {
  it.each(FILTERS)("%j", async (filter) => {
    for (const { token, certificate, authenticator, session } of [first, second, outsider]) {
      expect(await idsOf(`${CLIENT}/current-api-session/certificates`, token, filter)).toEqual([certificate]);
      expect(await idsOf(`${CLIENT}/sessions`, token, filter)).toEqual([session]);
      expect(await idsOf(`${MANAGEMENT}/sessions`, token, filter)).toEqual([session]);
      for (const api of [CLIENT, MANAGEMENT]) {
        expect(await idsOf(`${api}/current-identity/authenticators`, token, filter)).toEqual([authenticator]);
      }
    }
  });
});

describe("GHSA-6v5r-p2wr-q492: what is another's is not found:", () => {
  const paths = [
    (of: Caller) => `${CLIENT}/current-api-session/certificates/${of.certificate}`,
    (of: Caller) => `${CLIENT}/sessions/${of.session}`,
    (of: Caller) => `${MANAGEMENT}/sessions/${of.session}`,
  ];
  it.each([0, 1, 2])("path %i, neither to see nor to delete", async (n) => {
    const path = paths[n]!;
    for (const [whose, who] of [
      [first, second],
      [first, outsider],
    ] as const) {
      for (const method of ["GET", "DELETE"]) {
        expect((await c.call(method, path(whose), { token: who.token })).status).toBe(404);
      }
    }
    expect((await c.call("GET", path(first), { token: first.token })).status).toBe(200);
  });

  it("an authenticator, in no way", async () => {
    const csr = await createCsr({ commonName: "x", keyPem: (await createKeyPair()).keyPem });
    const change = { username: "mallory-was-here", password: "new password", currentPassword: "correct horse" };
    for (const api of [CLIENT, MANAGEMENT]) {
      const own = `${api}/current-identity/authenticators/${first.authenticator}`;
      const tries: [string, string, object | undefined][] = [
        ["GET", own, undefined],
        ["PUT", own, change],
        ["PATCH", own, change],
        ["POST", `${own}/extend`, { clientCertCsr: csr }],
        ["POST", `${own}/extend-verify`, { clientCert: c.pki.caBundlePem }],
      ];
      for (const [method, path, body] of tries) {
        expect((await c.call(method, path, { token: outsider.token, body })).status, `${method} ${path}`).toBe(404);
      }
    }
    await c.login("alice", "correct horse");
  });

  it("and everything is there still", async () => {
    for (const path of paths) expect((await c.call("GET", path(first), { token: first.token })).status).toBe(200);
  });
});
