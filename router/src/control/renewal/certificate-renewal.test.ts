import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { CsrConfig } from "@sallyport/router-config";
import {
  BaseType,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Logger,
  silentLogger,
  splitPem,
  x509,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RouterIdentity } from "../../config/router-identity.ts";
import { ScriptedController, testControllers } from "../../testing/scripted-controller.ts";
import { ScriptedRenewal } from "../../testing/scripted-renewal.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { CertificateRenewal, newAnchors } from "./certificate-renewal.ts";

const run = promisify(execFile);
const DAY = 86_400_000;
const csr: CsrConfig = {
  ...{ country: undefined, province: undefined, locality: undefined, organizationalUnit: undefined },
  organization: "Example",
  sans: { dns: ["localhost", "r1.example"], ip: ["::1"], uri: [], email: [] },
};

let authority: TestAuthority;
let dir: string;
let controller: ScriptedController;
let scripted: ScriptedRenewal;
let controllers: Controllers;
let identity: RouterIdentity;
let renewal: CertificateRenewal | undefined;
const events: string[] = [];
const log: Logger = {
  ...silentLogger,
  info: (_fields, text) => events.push(text),
  warn: (fields, text) => events.push(`${text}: ${(fields as { reason?: string }).reason ?? ""}`),
  error: (_fields, text) => events.push(text),
};

const path = (name: string) => join(dir, name);
const content = (name: string) => readFile(path(name), "utf8");

beforeAll(async () => {
  authority = await TestAuthority.create();
});

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-renewal-"));
  await mkdir(path("pki"));
  controller = await ScriptedController.start(await authority.identity("ctrl1"));
  scripted = new ScriptedRenewal(controller, authority);
  await enrolled({});
});

afterEach(async () => {
  renewal?.close();
  renewal = undefined;
  controllers.stop();
  await controller.close();
  await rm(dir, { recursive: true });
  events.length = 0;
});

/** A router that is enrolled, with certificates of this validity, connected to the controller. */
async function enrolled(validity: { notBefore?: Date; notAfter?: Date }): Promise<void> {
  controllers?.stop();
  const { certPem, keyPem } = await authority.issue({ commonName: "r1", dns: ["localhost"], ...validity });
  for (const [name, text] of Object.entries({ "r1.cert": certPem, "r1.server.cert": certPem, "r1.key": keyPem })) {
    await writeFile(path(`pki/${name}`), text, { mode: 0o600 });
  }
  await writeFile(path("pki/ca.pem"), authority.certPem);
  const files = { cert: "pki/r1.cert", server_cert: "pki/r1.server.cert", key: "pki/r1.key", ca: "pki/ca.pem" };
  identity = await RouterIdentity.load({ ...files, alt_server_certs: [] }, dir, log);
  controllers = testControllers(await authority.identity("r1"));
}

async function connect(): Promise<void> {
  const connected = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
  controllers.setEndpoints([controller.address]);
  await connected;
}

function renewing(o: { csr?: CsrConfig | undefined; extendNow?: boolean; inline?: boolean } = {}): CertificateRenewal {
  const files = o.inline === true ? undefined : identity.files;
  renewal = new CertificateRenewal({
    ...{ controllers, files, log },
    csr: "csr" in o ? o.csr : csr,
    identity: () => identity.current,
    reload: () => identity.reload(),
    extendNow: o.extendNow ?? false,
  });
  return renewal;
}

/** The next time that the identity is another. */
const changed = () => new Promise<void>((resolve) => identity.onChange(() => resolve()));

describe("renewing certificates", () => {
  it("keeps keys and name, asks for the names of the configuration, and writes what the controller has seen", async () => {
    await connect();
    const before = { cert: await content("pki/r1.cert"), key: await content("pki/r1.key") };
    scripted.verify = async () => {
      // Complete beside the old ones, which still count.
      const names = await readdir(path("pki"));
      expect(names.filter((name) => name.endsWith(".new"))).toHaveLength(2);
      expect(await content("pki/r1.cert")).toBe(before.cert);
      return "";
    };
    await renewing().now();
    const [request] = scripted.requests;
    expect(request?.requireVerification).toBe(true);
    for (const pem of [request?.clientCertCsr, request?.serverCertCsr]) {
      const asked = new x509.Pkcs10CertificateRequest(pem ?? "");
      expect(asked.subject).toMatch(/CN=r1/);
      expect(asked.subject).toMatch(/O=Example/);
    }
    const { leaf } = identity.current;
    expect(leaf.subjectAltName).toMatch(/DNS:r1\.example/);
    expect(scripted.shown).toEqual([await content("pki/r1.cert")]);
    expect(await content("pki/r1.key")).toBe(before.key);
    expect(await content("pki/ca.pem")).toBe(authority.certPem);
    expect((await stat(path("pki/r1.cert"))).mode & 0o777).toBe(0o600);
    expect((await readdir(path("pki"))).toSorted()).toEqual(["ca.pem", "r1.cert", "r1.key", "r1.server.cert"]);
    expect(controller.hellos).toHaveLength(1);
  });

  it("changes nothing when the controller does not take the new certificate", async () => {
    await connect();
    const before = await content("pki/r1.cert");
    scripted.verify = () => "not that one";
    await expect(renewing().now()).rejects.toMatchObject({
      code: "RENEWAL_REFUSED",
      message: expect.stringContaining("not that one"),
    });
    expect(await content("pki/r1.cert")).toBe(before);
    expect((await readdir(path("pki"))).filter((name) => name.endsWith(".new"))).toEqual([]);
  });

  it.each([
    [
      "a text and a code",
      {
        contentType: EdgeCtrlType.Error,
        headers: new Headers().setU32(EdgeCtrlHeader.ErrorCode, 1),
        body: Buffer.from("too many renewals"),
      },
    ],
    [
      "a message",
      {
        contentType: EdgeCtrlType.Error,
        body: encodeControl(edgeCtrlPb.ErrorSchema, { code: "BUSY", message: "too many renewals" }),
      },
    ],
    ["a result", { contentType: BaseType.Result, body: Buffer.from("too many renewals") }],
  ])("says why the controller refuses it, told by %s", async (_, refusal) => {
    await connect();
    const before = await content("pki/r1.cert");
    scripted.refusal = refusal;
    await expect(renewing().now()).rejects.toMatchObject({
      code: "RENEWAL_REFUSED",
      message: expect.stringMatching(/renews no certificates: .*too many renewals/),
    });
    expect(await content("pki/r1.cert")).toBe(before);
    scripted.refusal = undefined;
    await renewal?.now();
    expect(await content("pki/r1.cert")).not.toBe(before);
  });

  it("takes certificates that come as the answer", async () => {
    await connect();
    scripted.answers = true;
    await renewing().now();
    expect(scripted.shown).toEqual([await content("pki/r1.cert")]);
  });

  it("adds the authorities of a network that changes them", async () => {
    await connect();
    const next = await TestAuthority.create("next");
    scripted.caPem = authority.certPem + next.certPem;
    await renewing().now();
    expect(splitPem(await content("pki/ca.pem"))).toEqual(splitPem(authority.certPem + next.certPem));
    expect(identity.current.anchors).toHaveLength(2);
  });

  it("is one at a time: who asks during one waits for that", async () => {
    await connect();
    const made = renewing();
    await Promise.all([made.now(), made.now()]);
    expect(scripted.requests).toHaveLength(1);
  });

  it("is not asked for without a controller, a csr section, or files", async () => {
    await expect(renewing().now()).rejects.toMatchObject({ code: "NO_CONTROLLER" });
    await expect(renewing({ csr: undefined }).now()).rejects.toThrow("without a csr section");
    await expect(renewing({ inline: true }).now()).rejects.toThrow("inline certificates cannot be renewed");
    renewing({ inline: true, extendNow: true }).start();
    expect(events).toContain("inline certificates cannot be renewed, only files: ");
  });

  it.skipIf(process.getuid?.() !== 0)("is not asked for when the files could not be written", async () => {
    await connect();
    await run("mount", ["--bind", path("pki"), path("pki")]);
    try {
      await run("mount", ["-o", "remount,ro,bind", path("pki")]);
      await expect(renewing().now()).rejects.toMatchObject({
        code: "NOT_WRITABLE",
        message: expect.stringMatching(/r1\.cert cannot be written: .*EROFS/),
      });
      expect(scripted.requests).toEqual([]);
    } finally {
      await run("umount", [path("pki")]);
    }
  });
});

describe("when certificates are renewed", () => {
  it("is at once when that time is past, and not again afterwards", async () => {
    await enrolled({ notBefore: new Date(Date.now() - 20 * DAY), notAfter: new Date(Date.now() + DAY) });
    await connect();
    const loaded = changed();
    renewing().start();
    await loaded;
    // A renewal that starts again would ask again at once.
    await expect.poll(() => events).toContain("the certificates were renewed");
    await controllers.request("a sign that it was heard", { contentType: 9_999 }, { timeoutMs: 20 }).catch(() => {});
    expect(scripted.requests).toHaveLength(1);
  });

  it("is put off when another program has renewed them", async () => {
    const { certPem, keyPem } = await authority.issue({ commonName: "r1", dns: ["localhost"] });
    await enrolled({ notBefore: new Date(Date.now() - 20_000), notAfter: new Date(Date.now() + 19_000) });
    await connect();
    const made = renewing();
    // Due in less than six seconds, at two thirds of 39.
    made.start();
    identity.onChange(() => made.rearm());
    await writeFile(path("pki/r1.key"), keyPem);
    await writeFile(path("pki/r1.cert"), certPem);
    await writeFile(path("pki/r1.server.cert"), certPem);
    await identity.reload();
    await controllers.request("a while", { contentType: 9_999 }, { timeoutMs: 7_000 }).catch(() => {});
    expect(scripted.requests).toEqual([]);
  });

  it("is tried again later when it failed", async () => {
    await connect();
    scripted.verify = () => "not now";
    renewing({ extendNow: true }).start();
    await expect.poll(() => events.join()).toMatch(/not renewed yet; trying again: .*not now/);
  });

  it("is never when they have ended: that is told once", async () => {
    await enrolled({ notBefore: new Date(Date.now() - 2 * DAY), notAfter: new Date(Date.now() - DAY) });
    await connect();
    renewing().start();
    await expect.poll(() => events).toContain("the certificates can no longer be renewed");
    await expect(renewing().now()).rejects.toMatchObject({
      code: "CERTIFICATE_EXPIRED",
      message: expect.stringContaining("has to be enrolled again"),
    });
    expect(scripted.requests).toEqual([]);
  });
});

describe("what a renewal adds to the bundle of authorities", () => {
  it("is those that the bundle lacks, and nothing that is none", async () => {
    const [mine, former, present] = await Promise.all(
      ["mine", "former", "present"].map((cn) => TestAuthority.create(cn)),
    );
    const leaf = await present!.issue({ commonName: "leaf" });
    const own = mine!.certPem + former!.certPem;
    const offered = present!.certPem + former!.certPem + leaf.certPem;
    expect(splitPem(own + newAnchors(own, offered))).toEqual(splitPem(own + present!.certPem));
    expect(splitPem(own.trimEnd() + newAnchors(own.trimEnd(), offered))).toHaveLength(3);
    expect(newAnchors(own + present!.certPem, offered)).toBe("");
    expect(newAnchors(own, "")).toBe("");
    expect(newAnchors("", present!.certPem)).toBe(present!.certPem);
  });
});
