import { createCsr, createKeyPair, x509 } from "@sallyport/wire";
import { beforeAll, describe, expect, it } from "vitest";
import { createPkiMaterial, type PkiMaterial } from "./material.ts";
import { Pki } from "./pki.ts";
import { reservedHostOf, reservedHosts } from "./reserved-names.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";

const OWN = ["ctrl.example.org", "bücher.example", "localhost", "127.0.0.1", "::1", "192.0.2.7", "2001:db8::7"];
const typed = (type: x509.GeneralNameType, value: string) => new x509.GeneralName(type, value);
const typeOf = (host: string) => (/^[\d.]+$|:/.test(host) ? "ip" : "dns");
const ascii = (host: string) => (host === "bücher.example" ? "xn--bcher-kva.example" : host);
const own = OWN.map((host) => typed(typeOf(host), ascii(host)));
const reserved = reservedHosts(own, []);

describe("a name that is asked for", () => {
  it.each([
    ["dns", "ctrl.example.org"],
    ["dns", "CTRL.Example.ORG"],
    ["dns", "ctrl.example.org."],
    ["dns", "ctrl.example.org.."],
    ["dns", " ctrl.example.org"],
    ["dns", "ｃｔｒｌ.example.org"],
    ["dns", "ctrl。example。org"],
    ["dns", "*.example.org"],
    ["dns", "*.EXAMPLE.org."],
    ["dns", "c*.example.org"],
    ["dns", "*l.example.org"],
    ["dns", "c*r*.example.org"],
    ["dns", "*.*.org"],
    ["dns", "*.*.*"],
    ["dns", "xn--bcher-kva.example"],
    ["dns", "XN--BCHER-KVA.example"],
    ["dns", "bücher.example"],
    ["dns", "BÜCHER.example"],
    ["dns", "192.0.2.7"],
    ["dns", "192.0.2.7."],
    ["dns", "0xc0.0.2.7"],
    ["dns", "0300.0.02.07"],
    ["dns", "3221225991"],
    ["dns", "192.0.519"],
    ["dns", "2001:DB8:0:0::7"],
    ["dns", "[2001:db8::7]"],
    ["dns", "::ffff:192.0.2.7"],
    ["ip", "192.0.2.7"],
    ["ip", "::ffff:192.0.2.7"],
    ["ip", "::ffff:c000:207"],
    ["ip", "2001:db8:0:0:0:0:0:7"],
    ["email", "admin@ctrl.example.org"],
    ["email", "admin@CTRL.example.org."],
    ["email", "ctrl.example.org"],
    ["email", "a@b@ctrl.example.org"],
    ["url", "https://ctrl.example.org"],
    ["url", "https://CTRL.example.org:1280/edge/client/v1"],
    ["url", "https://user:secret@ctrl.example.org/"],
    ["url", "tls:ctrl.example.org:6262"],
    ["url", "tls://ctrl.example.org:6262"],
    ["url", "https://[2001:db8::7]:1280"],
    ["url", "https://0xc0000207/"],
    ["url", "https://*.example.org/"],
  ] as const)("is the controller's: %s %j", (type, value) => {
    expect(reservedHostOf(typed(type, value), reserved)).toBeDefined();
  });

  it.each([
    ["dns", "edge.example.org"],
    ["dns", "example.org"],
    ["dns", "a.ctrl.example.org"],
    ["dns", "*.ctrl.example.org"],
    ["dns", "*.edge.example.org"],
    ["dns", "*.org"],
    ["dns", "*"],
    ["dns", "e*.example.org"],
    ["dns", "xctrl.example.org"],
    ["dns", "localhost"],
    ["dns", "router.localhost"],
    ["ip", "127.0.0.1"],
    ["ip", "::1"],
    ["ip", "192.0.2.8"],
    ["ip", "2001:db8::8"],
    ["email", "ctrl.example.org@edge.example.org"],
    ["url", "https://edge.example.org/ctrl.example.org"],
    ["url", "urn:uuid:8d3c1f5e-0000-4000-8000-000000000000"],
  ] as const)("may be a router's: %s %j", (type, value) => {
    expect(reservedHostOf(typed(type, value), reserved)).toBeUndefined();
  });

  it("may be a router's when the host is shared", () => {
    const shared = reservedHosts(own, ["Ctrl.Example.org", "192.0.2.7", "bücher.example"]);
    expect([...shared]).toEqual(["2001:db8::7"]);
    expect(reservedHostOf(typed("dns", "*.example.org"), shared)).toBeUndefined();
  });

  it("is compared in little time, however many stars it has", () => {
    const reservedLong = reservedHosts([typed("dns", `${"a".repeat(63)}.example.org`)], []);
    expect(reservedHostOf(typed("dns", `${"*a".repeat(5_000)}b.example.org`), reservedLong)).toBeUndefined();
  });
});

describe("a router", () => {
  let material: PkiMaterial;
  let keyPem: string;
  beforeAll(async () => {
    material = await createPkiMaterial({
      lifetimes: DEFAULT_LIFETIMES,
      controllerId: "controller",
      hosts: ["ctrl.example.org", "localhost"],
    });
    keyPem = (await createKeyPair()).keyPem;
  });

  const requests = async (name: string) => {
    const plain = await createCsr({ commonName: "r1", keyPem, sans: { dns: ["edge.example.org", "localhost"] } });
    const bold = await createCsr({ commonName: "r1", keyPem, sans: { dns: ["edge.example.org", name] } });
    return { routerId: "r1", plain, bold };
  };

  it("gets no certificate with a name of the controller, neither for clients nor for servers", async () => {
    const pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
    const { routerId, plain, bold } = await requests("*.example.org");
    await pki.issueRouterCertificates({ routerId, certCsr: plain, serverCertCsr: plain });
    for (const [certCsr, serverCertCsr] of [
      [plain, bold],
      [bold, plain],
    ] as const) {
      await expect(pki.issueRouterCertificates({ routerId, certCsr, serverCertCsr })).rejects.toMatchObject({
        code: "COULD_NOT_PROCESS_CSR",
        message: expect.stringContaining('the dns name "*.example.org" is of the controller\'s host ctrl.example.org'),
      });
    }
  });

  it("gets it when the host is shared, also after the keys have changed", async () => {
    const pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES, sharedHosts: ["ctrl.example.org"] });
    pki.adopt(material);
    const { routerId, bold } = await requests("ctrl.example.org");
    const { server } = await pki.issueRouterCertificates({ routerId, certCsr: bold, serverCertCsr: bold });
    expect(server.leafPem).toContain("BEGIN CERTIFICATE");
  });
});
