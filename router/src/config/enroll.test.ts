import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, watch } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parseRouterConfig, type RouterConfig } from "@sallyport/router-config";
import { createKeyPair, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readEndpointsFile } from "../control/controllers/endpoints-file.ts";
import { ScriptedEnrollment } from "../testing/scripted-enrollment.ts";
import { uncoveredHosts } from "./certificate-names.ts";
import { enrolledFiles, enrollIfNeeded, enrollRouter, type RouterEnrollOptions } from "./enroll.ts";
import { journalOf, readJournal, writeJournal } from "./enrollment-journal.ts";
import { RouterIdentity } from "./router-identity.ts";

const run = promisify(execFile);
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

const options = (c = config()) => ({
  config: c,
  baseDir: dir,
  endpointsFile: join(dir, "state", "endpoints.yml"),
  log: silentLogger,
});
const enroll = (jwt: string, c = config(), more: Partial<RouterEnrollOptions> = {}) =>
  enrollRouter({ ...options(c), jwt, ...more });

describe("enrolling a router", () => {
  it("writes key, certificates, anchors and endpoints, readable by this user alone, and they make an identity", async () => {
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

  it.each(["EC", "RSA"] as const)("makes a key of the kind %s when asked, and uses it again", async (algorithm) => {
    await enroll(controller.token("router1"), config(), { algorithm });
    const pem = await readFile(join(dir, "r1.key"), "utf8");
    expect(pem).toContain(algorithm === "EC" ? "BEGIN EC PRIVATE KEY" : "BEGIN RSA PRIVATE KEY");
    await enroll(controller.token("router1"), config(), { algorithm });
    expect(await readFile(join(dir, "r1.key"), "utf8")).toBe(pem);
    const other = algorithm === "EC" ? "RSA" : "EC";
    await expect(enroll(controller.token("router1"), config(), { algorithm: other })).rejects.toMatchObject({
      code: "KEY_MISMATCH",
    });
    await enroll(controller.token("router1"));
    expect(await readFile(join(dir, "r1.key"), "utf8")).toBe(pem);
    expect((await RouterIdentity.load(config().identity, dir, silentLogger)).current.id).toBe("router1");
  });

  it("refuses a key of an unusual size only when a kind is asked for", async () => {
    const { keyPem } = await createKeyPair("P-384");
    await writeFile(join(dir, "r1.key"), keyPem);
    const refused = enroll(controller.token("router1"), config(), { algorithm: "EC" });
    await expect(refused).rejects.toThrow(/EC secp384r1, not EC prime256v1/);
    expect(await enroll(controller.token("router1"))).toEqual({ routerId: "router1" });
  });

  it("works with csr without names, a trace section, and a token that names no controllers", async () => {
    const { config: c } = parseRouterConfig(`v: 3
identity: { cert: file:///${dir}/r1.cert, server_cert: "file:${dir}/s.cert", key: ./r1.key, ca: r1.ca }
ctrl: {}
csr: {}
trace: { path: /nonexistent/folder/trace }
`);
    expect(await enroll(controller.token("router1", { ctrls: null }), c)).toEqual({ routerId: "router1" });
    expect(await readFile(join(dir, "state", "endpoints.yml"), "utf8")).toBe("endpoints: []\n");
    expect((await readdir(dir)).toSorted()).toEqual(["r1.ca", "r1.cert", "r1.cert.token", "r1.key", "s.cert", "state"]);
  });

  it.each([
    ["cert", '"pem:-----BEGIN CERTIFICATE-----"', "NOT_A_FILE"],
    ["ca", '"-----BEGIN CERTIFICATE-----"', "NOT_A_FILE"],
    ["key", '"pkcs11:///usr/lib/hsm.so?slot=1&pin=2"', "IDENTITY_INVALID"],
  ])("says that identity.%s %s cannot be written to", async (name, value, code) => {
    const parts = { cert: "a", server_cert: "b", key: "c", ca: "d", [name]: value };
    const list = Object.entries(parts).map(([key, text]) => `${key}: ${text}`);
    const { config: c } = parseRouterConfig(`v: 3\nidentity: { ${list.join(", ")} }\nctrl: {}\ncsr: {}\n`);
    await expect(enroll(controller.token("router1"), c)).rejects.toMatchObject({ code });
    expect(controller.requests).toEqual([]);
  });

  it("finds out that files cannot be written before the token is used", async () => {
    await writeFile(join(dir, "sub"), "a file where a folder should be");
    await expect(enroll(controller.token("router1"))).rejects.toThrow(/sub/);
    expect(controller.requests.map((request) => request.method)).toEqual(["GET"]);
  });

  it.skipIf(process.getuid?.() !== 0)("onto a full disk leaves nothing half written and the token unused", async () => {
    const disk = join(dir, "sub");
    await mkdir(disk);
    await run("mount", ["-t", "tmpfs", "-o", "size=16k", "none", disk]);
    try {
      const identity = "{ cert: sub/cert, server_cert: sub/server, key: sub/key, ca: sub/ca }";
      const { config: c } = parseRouterConfig(`v: 3\nidentity: ${identity}\nctrl: {}\ncsr: {}\n`);
      const jwt = controller.token("router1");
      await expect(enroll(jwt, c)).rejects.toMatchObject({ code: "ENOSPC" });
      expect(controller.requests.map((request) => request.method)).toEqual(["GET"]);
      // At most the key, which is whole, and is used by the next attempt.
      const left = await readdir(disk);
      expect(left.filter((name) => name !== "key")).toEqual([]);
      await run("mount", ["-o", "remount,size=1m", disk]);
      expect(await enroll(jwt, c)).toEqual({ routerId: "router1" });
      expect((await readdir(disk)).toSorted()).toEqual(["ca", "cert", "cert.token", "key", "server"]);
    } finally {
      await run("umount", [disk]);
    }
  });

  it("refuses the token of another router than the one expected", async () => {
    const refused = enroll(controller.token("router1"), config(), { expectId: "router2" });
    await expect(refused).rejects.toThrow("the token is for router router1, not for router2");
    expect(controller.requests).toEqual([]);
  });
});

describe("enrolling a router if needed", () => {
  const jwtFile = () => join(dir, "token.jwt");
  const ifNeeded = (expectId?: string) =>
    enrollIfNeeded({ ...options(), jwtFile: jwtFile(), ...(expectId === undefined ? {} : { expectId }) });

  it("enrolls once, and needs no token from then on", async () => {
    await writeFile(jwtFile(), controller.token("router1"));
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: true });
    await rm(jwtFile());
    for (const id of ["router1", undefined]) {
      expect(await ifNeeded(id)).toEqual({ routerId: "router1", enrolled: false });
    }
    expect(controller.requests).toHaveLength(2);
  });

  it("enrolls again for another id, with the same key", async () => {
    await enroll(controller.token("router1"));
    const key = await readFile(join(dir, "r1.key"), "utf8");
    await expect(ifNeeded("router2")).rejects.toThrow(
      /certificate is that of router1, not of router2, and the token file of --jwt cannot be read/,
    );
    await writeFile(jwtFile(), controller.token("router2"));
    expect(await ifNeeded("router2")).toEqual({ routerId: "router2", enrolled: true });
    expect(await readFile(join(dir, "r1.key"), "utf8")).toBe(key);
  });

  it("enrolls again, as the same router, when it is given another token; the used one changes nothing", async () => {
    const first = controller.token("router1");
    await writeFile(jwtFile(), first);
    await ifNeeded("router1");
    const before = await readFile(join(dir, "r1.cert"), "utf8");
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: false });
    const second = controller.token("router1", { jti: "second" });
    await writeFile(jwtFile(), second);
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: true });
    expect(await readFile(join(dir, "r1.cert"), "utf8")).not.toBe(before);
    for (const token of [first, second]) {
      expect(await readFile(join(dir, "r1.cert.token"), "utf8")).not.toContain(token.trim());
    }
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: false });
    await writeFile(jwtFile(), "");
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: false });
  });

  it("leaves the controllers to the file where it is told to, unless the file has none", async () => {
    const endpoints = () => readEndpointsFile(options().endpointsFile, silentLogger);
    const given = config();
    const c = { ...given, ctrl: { ...given.ctrl, endpoints: [{ protocol: "tls", host: "mine.example", port: 1280 }] } };
    await enroll(controller.token("router1"), c, { configuredEndpoints: true });
    expect(await endpoints()).toEqual([]);
    await enroll(controller.token("router1"), given, { configuredEndpoints: true });
    expect(await endpoints()).toEqual([{ protocol: "tls", host: "localhost", port: 6262 }]);
  });

  it("enrolls again when the certificate has ended or a part is missing", async () => {
    await enroll(controller.token("router1"));
    await rm(join(dir, "r1.server.cert"));
    await writeFile(jwtFile(), controller.token("router1"));
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: true });
    controller.lifetimeMs = -1000;
    await enroll(controller.token("router1"));
    controller.lifetimeMs = 60_000;
    await writeFile(jwtFile(), controller.token("router1"));
    expect(await ifNeeded("router1")).toEqual({ routerId: "router1", enrolled: true });
  });

  it("finishes without a token what a crash has interrupted, wherever that was", async () => {
    await enroll(controller.token("router1"));
    const files = enrolledFiles(config(), dir, options().endpointsFile);
    const text = (file: string) => readFile(file, "utf8");
    const issued = {
      routerId: "router1",
      cert: await text(files.cert),
      serverCert: await text(files.serverCert),
      ca: await text(files.ca),
      endpoints: ["tls:localhost:6262"],
    };
    const steps = [files.endpoints, files.ca, files.serverCert, files.cert];
    for (let done = 0; done <= steps.length; done++) {
      await writeJournal(files, issued);
      for (const file of steps.slice(done)) await rm(file, { force: true });
      expect(await ifNeeded("router1"), `after ${done} files`).toEqual({ routerId: "router1", enrolled: false });
      expect(await text(files.endpoints)).toContain("tls:localhost:6262");
      expect(await readJournal(files)).toBeUndefined();
    }
    expect(controller.requests).toHaveLength(2);
  });

  it("survives being killed when its token is used and nothing but the record of that is on disk", async () => {
    await writeFile(
      join(dir, "router.yml"),
      `v: 3
identity: { cert: r1.cert, server_cert: r1.server.cert, key: r1.key, ca: sub/r1.ca }
ctrl: {}
csr: {}
`,
    );
    await writeFile(jwtFile(), controller.token("router1"));
    const program = fileURLToPath(new URL("../main.ts", import.meta.url));
    const start = () =>
      spawn(process.execPath, [program, "enroll", "router.yml", "--if-needed", "--jwt", "token.jwt"], {
        cwd: dir,
        env: { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: "1" },
        stdio: "ignore",
      });
    const child = start();
    const changes = watch(dir, (_event, name) => {
      if (name === "r1.cert.enrolled" && existsSync(join(dir, name))) child.kill("SIGKILL");
    });
    await once(child, "close");
    changes.close();
    expect(controller.open.size).toBe(0);
    await rm(jwtFile());
    const [code] = (await once(start(), "close")) as [number];
    expect(code).toBe(0);
    expect(existsSync(journalOf(enrolledFiles(config(), dir, "")))).toBe(false);
    expect((await RouterIdentity.load(config().identity, dir, silentLogger)).current.id).toBe("router1");
  });
});
