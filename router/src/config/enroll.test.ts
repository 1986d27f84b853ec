import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseRouterConfig, type RouterConfig } from "@sallyport/router-config";
import { createKeyPair, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readEndpointsFile } from "../control/endpoints-file.ts";
import { ScriptedEnrollment } from "../testing/scripted-enrollment.ts";
import { uncoveredHosts } from "./advertise.ts";
import { enrollRouter } from "./enroll.ts";
import { RouterIdentity } from "./router-identity.ts";

let dir: string;
let controller: ScriptedEnrollment;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-enroll-"));
  controller = await ScriptedEnrollment.start();
});

afterEach(async () => {
  await controller.close();
  await rm(dir, { recursive: true });
});

const config = (
  csr = "csr: { country: NO, organization: N, sans: { dns: [r1.example], ip: [192.0.2.1] } }",
): RouterConfig =>
  parseRouterConfig(
    `v: 3
identity: { cert: r1.cert, server_cert: file:r1.server.cert, key: r1.key, ca: sub/r1.ca }
ctrl: {}
${csr}
edge: {}
listeners: [{ binding: edge, address: "tls:0.0.0.0:3022", options: { advertise: "r1.example:3022" } }]
`,
  ).config;

const enroll = (jwt: string, c = config()) =>
  enrollRouter({
    config: c,
    jwt,
    baseDir: dir,
    endpointsFile: join(dir, "state", "endpoints.yml"),
    log: silentLogger,
  });

describe("enrolling a router", () => {
  it("writes key, certificates, anchors and endpoints, readable by nobody else, and they make an identity", async () => {
    expect(await enroll(controller.token("router1"))).toEqual({ routerId: "router1" });
    for (const file of ["r1.key", "r1.cert", "r1.server.cert", "sub/r1.ca", "state/endpoints.yml"]) {
      expect((await stat(join(dir, file))).mode & 0o777, file).toBe(0o600);
    }
    expect(await readFile(join(dir, "r1.key"), "utf8")).toContain("BEGIN EC PRIVATE KEY");
    expect(await readEndpointsFile(join(dir, "state", "endpoints.yml"), silentLogger)).toEqual([
      { protocol: "tls", host: "localhost", port: 6262 },
    ]);
    const identity = await RouterIdentity.load(config().identity, dir, silentLogger);
    expect(identity.current.id).toBe("router1");
    expect(identity.current.leaf.subject.split("\n").toSorted()).toEqual(["C=NO", "CN=router1", "O=N"]);
    expect(uncoveredHosts(config(), identity.current)).toEqual([]);
  });

  it("asks with the method and token of the JWT, JSON and two requests", async () => {
    await enroll(controller.token("router1"));
    const [bundle, post] = controller.requests;
    expect(bundle).toMatchObject({ method: "GET", url: "/edge/client/v1/.well-known/est/cacerts" });
    expect(post).toMatchObject({
      method: "POST",
      url: "/edge/client/v1/enroll?method=erott&token=jti-router1",
      contentType: "application/json",
    });
    const sent = JSON.parse(post!.body) as object;
    expect(Object.keys(sent).toSorted()).toEqual(["certCsr", "serverCertCsr"]);
  });

  it("uses a key that exists and never replaces it", async () => {
    const { keyPem } = await createKeyPair();
    await writeFile(join(dir, "r1.key"), keyPem);
    await enroll(controller.token("router1"));
    expect(await readFile(join(dir, "r1.key"), "utf8")).toBe(keyPem);
    await writeFile(join(dir, "r1.key"), "not a key");
    await expect(enroll(controller.token("router1"))).rejects.toMatchObject({ code: "KEY_UNREADABLE" });
    expect(await readFile(join(dir, "r1.key"), "utf8")).toBe("not a key");
  });

  it("refuses a token that was used, and says what to do", async () => {
    const jwt = controller.token("router1");
    await enroll(jwt);
    await expect(enroll(jwt)).rejects.toThrow(/INVALID_ENROLLMENT_TOKEN.*used before.*ask the administrator/);
  });

  it.each([
    ["has ended", () => controller.token("router1", { exp: 1_600_000_000 }), "TOKEN_EXPIRED"],
    ["is for an identity", () => controller.token("router1", { em: "ott" }), "WRONG_TOKEN"],
    ["is no token", () => "hello", "TOKEN_MALFORMED"],
    ["is cut off", () => controller.token("router1").slice(0, -60), "TOKEN_FORGED"],
  ])("refuses a token that %s, and writes nothing", async (_what, make, code) => {
    await expect(enroll(make())).rejects.toMatchObject({ code });
    expect(await readdir(dir)).toEqual([]);
  });

  it("refuses a token that another key signed", async () => {
    const { keyPem } = await createKeyPair();
    await expect(enroll(controller.token("router1", { key: keyPem }))).rejects.toMatchObject({ code: "TOKEN_FORGED" });
    expect(controller.requests).toEqual([]);
  });

  it("needs a csr section and says so", async () => {
    await expect(enroll(controller.token("router1"), config(""))).rejects.toThrow(/no csr section/);
  });
});
