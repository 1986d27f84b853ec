import { generateKeyPairSync } from "node:crypto";
import { createCsr, fingerprint } from "@sallyport/wire";
import { afterAll, beforeAll, expect, it } from "vitest";
import { testReplica } from "../../model/testing/changing-replicas.ts";
import { renewReplica } from "../../pki/replica-material.ts";
import { DEFAULT_LIFETIMES } from "../../pki/testing.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let token: string;
beforeAll(async () => {
  c = await startTestController();
  const body = { username: "admin", password: "admin" };
  token = (await c.call("POST", "/edge/client/v1/authenticate?method=password", { body })).json.data.token;
});
afterAll(() => c.close());

const APIS = ["client", "management"] as const;
const capabilities = async () => (await c.call("GET", "/edge/client/v1/version")).json.data.capabilities;
const claims = (jwt: string) => JSON.parse(Buffer.from(jwt.split(".")[1] ?? "", "base64url").toString());

/** Two controllers from now on; the certificate of the second is known. */
async function join(isLive = true): Promise<string> {
  const material = c.pki.material;
  const own = await renewReplica(material, undefined, {
    ...{ id: "c2", hosts: ["c2.example"], lifetimes: DEFAULT_LIFETIMES, now: new Date() },
  });
  c.pki.adopt(material, new Map([["c2", own!]]));
  const print = fingerprint(own!.server.certPem);
  const two = testReplica("c2", 6262, {
    apiAddress: "c2.example:1280",
    ctrlAddress: "tls:c2.example:6262",
    isLive,
    fingerprint: print,
  });
  c.replicas.set([testReplica("controller", 1280), two]);
  return print;
}

async function ottToken(): Promise<string> {
  const id = await c.make("identities", {
    name: `i${Math.random()}`,
    type: "Device",
    isAdmin: false,
    enrollment: { ott: true },
  });
  return (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ott.token;
}

async function enrolled() {
  const keyPem = String(
    generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "sec1", format: "pem" }),
  );
  const body = { clientCsr: await createCsr({ commonName: "x", keyPem }) };
  const answer = await c.call("POST", `/edge/client/v1/enroll?token=${await ottToken()}`, { body });
  expect(answer.status).toBe(200);
  return answer.json.data.controllers;
}

it("a controller that is alone lists none, and names itself to those who enroll", async () => {
  for (const api of APIS) {
    expect((await c.call("GET", `/edge/${api}/v1/controllers`, { token })).json).toMatchObject({ data: [] });
  }
  expect(await capabilities()).not.toContain("HA_CONTROLLER");
  expect(await enrolled()).toMatchObject([{ id: "controller", isOnline: true }]);
});

it("several list each other, with the addresses and the certificate of each", async () => {
  const print = await join();
  expect(await capabilities()).toContain("HA_CONTROLLER");
  for (const api of APIS) {
    const list = async (query = "") => (await c.call("GET", `/edge/${api}/v1/controllers${query}`, { token })).json;
    const all = await list();
    expect(all.meta.pagination.totalCount).toBe(2);
    expect(all.data).toMatchObject([
      {
        ...{ id: "c2", isOnline: true, fingerprint: print, ctrlAddress: "tls:c2.example:6262" },
        apiAddresses: {
          "edge-client": [{ url: "https://c2.example:1280/edge/client/v1", version: "v1" }],
          "edge-oidc": [{ url: "https://c2.example:1280/oidc", version: "v1" }],
        },
      },
      { id: "controller", name: "controller", isOnline: true },
    ]);
    expect(fingerprint(all.data[0].certPem)).toBe(print);
    const filter = encodeURIComponent('ctrlAddress contains "c2" and isOnline = true');
    expect((await list(`?filter=${filter}`)).data).toMatchObject([{ id: "c2" }]);
  }
  expect(await enrolled()).toMatchObject([{ id: "controller" }, { id: "c2" }]);
});

it("routers are invited with the control addresses of all", async () => {
  await join();
  const router = await c.make("edge-routers", { name: "r1" });
  const { enrollmentJwt } = (await c.admin("GET", `/edge-routers/${router}`)).json.data;
  expect(claims(enrollmentJwt).ctrls).toEqual(["tls:localhost:1280", "tls:c2.example:6262"]);
});

it("one that does not run is listed as offline, and one without a known certificate is not", async () => {
  await join(false);
  const ids = async () =>
    (await c.admin("GET", "/controllers")).json.data.map(({ id, isOnline }: { id: string; isOnline: boolean }) => [
      id,
      isOnline,
    ]);
  expect(await ids()).toEqual([
    ["c2", false],
    ["controller", true],
  ]);
  c.pki.adopt(c.pki.material, new Map());
  expect(await ids()).toEqual([["controller", true]]);
  c.replicas.set([testReplica("controller", 1280)]);
  expect(await capabilities()).not.toContain("HA_CONTROLLER");
});
