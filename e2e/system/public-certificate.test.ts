import { X509Certificate } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api";
import { type Context, enroll } from "@sallyport/sdk";
import { commonName, x509 } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { Contexts } from "../network/contexts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { PublicCertificate, shownBy } from "../network/public-certificate.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const REFUSED = /cannot be used: the former one stays/;

const folder = makeScratch("public-certificate");
let certificate: PublicCertificate;
let network: Network;
let echo: DeclaredService;
const contexts = new Contexts();
const dials = (context: Context) =>
  eventually(
    "echo can be dialled",
    async () => {
      await exchange(await context.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 }), 1, 100_000);
      return true;
    },
    60_000,
  );
const shown = (...protocols: string[]) => shownBy(network.port, "localhost", ...protocols);
const invite = async (name: string): Promise<() => Promise<string>> => {
  const { data } = await network.management.createIdentity({
    body: { name, type: "Device", isAdmin: false, enrollment: { ott: true } },
  });
  return async () => {
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    return detail.data.enrollment.ott?.jwt ?? "";
  };
};
const linesLike = (pattern: RegExp) =>
  readFileSync(join(network.folder, "controller.log"), "utf8")
    .split("\n")
    .filter((line) => pattern.test(line));

beforeAll(async () => {
  certificate = await PublicCertificate.create(folder);
  await certificate.renew("public 1");
  network = await startNetwork(join(folder, "network"), { controllerSettings: (text) => certificate.settings(text) });
  echo = await declareService(network, { name: "echo" });
  const host = await contexts.load(echo.hostFile);
  await hostEcho(host, "echo");
}, 180_000);

afterAll(async () => {
  await contexts.close();
  await network?.stop();
  removeScratch(folder);
}, 180_000);

describe("a network whose API has a certificate of a public authority", { timeout: 120_000 }, () => {
  it("shows it to clients of the API, and its own to routers and under every other name", async () => {
    expect(await shown("http/1.1")).toBe("public 1");
    expect(await shown("h2", "http/1.1")).toBe("public 1");
    expect(await shown()).toBe("public 1");
    expect(await shown("ziti-ctrl")).toBe("controller");
    expect(await shownBy(network.port, "elsewhere.example", "http/1.1")).toBe("controller");
    expect(await shownBy(network.port, undefined, "http/1.1")).toBe("controller");
  });

  it("has clients trust its issuer besides the network's authority, and no client gets in by it", async () => {
    const baseUrl = `https://localhost:${network.port}`;
    const anonymous = createClient("client", { baseUrl, tls: { rejectUnauthorized: false } });
    const { data } = await anonymous.listWellKnownCas();
    anonymous.close();
    const served = new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64"));
    const names = served.map((one) => commonName(new X509Certificate(one.toString("pem"))));
    expect(names).toHaveLength(3);
    expect(names).toContain("Public Issuer");

    const { certPem: cert, keyPem: key } = await certificate.issue("intruder");
    const intruder = createClient("client", { baseUrl, cert, key, tls: { rejectUnauthorized: false } });
    const login = intruder.authenticate({ query: { method: "cert" }, body: {} });
    await expect(login).rejects.toThrow(/authentication/);
    intruder.close();
  });

  it("enrolls our identities and routers, which then work", async () => {
    await dials(await contexts.load(echo.clientFile));
  });

  it("takes over another pair when the files are replaced, and signs the outstanding tokens with its key", async () => {
    const token = await invite("outstanding");
    const before = await token();
    const next = await certificate.issue("public 2");
    certificate.write("cert", next);
    await network.controller.line(REFUSED);
    expect(await shown("http/1.1")).toBe("public 1");
    certificate.write("key", next);
    await eventually("the new one is served", async () => (await shown("http/1.1")) === "public 2");
    expect(linesLike(REFUSED)).toHaveLength(1);
    expect(await shown("ziti-ctrl")).toBe("controller");

    await expect(enroll(before)).rejects.toMatchObject({ code: "TOKEN_FORGED" });
    let after = before;
    await eventually("the token is signed again", async () => {
      after = await token();
      return after !== before;
    });
    const file = join(folder, "outstanding.json");
    writeFileSync(file, JSON.stringify(await enroll(after)), { mode: 0o600 });
    await contexts.load(file);
    await dials(await contexts.load(echo.clientFile));
  });

  it("looks at the files at once on SIGHUP, and stays with what it has when they are broken", async () => {
    writeFileSync(certificate.cert, "-----BEGIN CERTIFICATE-----\nMII");
    network.controller.signal("SIGHUP");
    await eventually("the broken one is refused", () => linesLike(REFUSED).length >= 2);
    expect(await shown("http/1.1")).toBe("public 2");
    await certificate.renew("public 3");
    network.controller.signal("SIGHUP");
    await eventually("the new one is served", async () => (await shown("http/1.1")) === "public 3");
  });

  it("goes on after a restart, and its routers with it", async () => {
    await network.restartController();
    expect(await shown("http/1.1")).toBe("public 3");
    await dials(await contexts.load(echo.clientFile));
  });

  it("does not start with files that cannot be used, and says where they are named", async () => {
    const text = readFileSync(network.controllerFile, "utf8");
    const file = join(network.folder, "controller", "wrong.yml");
    writeFileSync(file, text.replace(JSON.stringify(certificate.key), "missing.key"));
    const line = text.split("\n").findIndex((one) => one.includes(certificate.key)) + 1;
    const ended = await network.runToEnd("controller", "run", file);
    expect(ended).toMatchObject({
      code: 3,
      output: expect.stringMatching(
        new RegExp(
          `wrong\\.yml:${line}:12: api\\.serverCertificates\\[0\\]\\.key: expected a file with a private key .* ENOENT`,
        ),
      ),
    });
  });
});
