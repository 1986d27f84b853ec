import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdtemp, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { ConfigError } from "@sallyport/config-file";
import { commonName, parseCertificates } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { TestAuthority } from "../../../packages/wire/src/testing/authority.ts";
import { RecordingLogger } from "../../../packages/wire/src/testing/recording-logger.ts";
import { type Leaf, ThirdParty } from "../auth/testing/third-party.ts";
import { readOperatorCertificate } from "./operator-certificate.ts";
import { OperatorCertificates, type OperatorCertificatesOptions } from "./operator-certificates.ts";

const SERVER = "1.3.6.1.5.5.7.3.1";
const MONTH_MS = 30 * 86_400_000;
const CLIENT = "1.3.6.1.5.5.7.3.2";

let dir: string;
let root: ThirdParty;
let middle: ThirdParty;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "operator-certificates-"));
  root = await ThirdParty.create("Public Root", { key: "rsa" });
  middle = await ThirdParty.create("Public Issuer", { parent: root });
});
afterAll(() => rm(dir, { recursive: true }));

let made = 0;
/** Writes a pair; `chain` goes behind the certificate. */
async function pair(leaf: Partial<Leaf>, chain = middle.certPem + root.certPem) {
  const issued = await middle.issue({
    commonName: "shop",
    dns: ["api.example"],
    usages: [SERVER],
    validMs: MONTH_MS,
    ...leaf,
  });
  const name = `${made++}`;
  const files = { cert: join(dir, `${name}.pem`), key: join(dir, `${name}.key`) };
  await writeFile(files.cert, issued.certPem + chain);
  await writeFile(files.key, issued.keyPem);
  return { ...issued, files };
}
const read = (files: { cert: string; key: string }, now = new Date()) => readOperatorCertificate(files, now);
const namesOf = (pem: readonly string[]) => parseCertificates(pem.join("")).map(commonName);

describe("a pair of files", () => {
  it("is a certificate with its chain, whatever its key, and the authorities that clients have to trust", async () => {
    for (const key of ["ec", "rsa"] as const) {
      const { files } = await pair({ key, dns: ["api.example", "*.apps.example"], ips: ["192.0.2.1"] });
      const certificate = await read(files);
      expect(certificate.names).toEqual(["api.example", "*.apps.example", "192.0.2.1"]);
      expect(namesOf(certificate.authorities)).toEqual(["Public Issuer", "Public Root"]);
      expect(namesOf([certificate.certPem])).toEqual(["shop", "Public Issuer", "Public Root"]);
      const hosts = ["api.example", "a.apps.example", "a.b.apps.example", "192.0.2.1", "192.0.2.2", "other.example"];
      expect(hosts.filter((host) => certificate.covers(host))).toEqual(["api.example", "a.apps.example", "192.0.2.1"]);
    }
  });

  it("may leave the root out, and hold certificates that do not belong to it", async () => {
    const { files } = await pair({}, middle.certPem);
    expect(namesOf((await read(files)).authorities)).toEqual(["Public Issuer"]);
    const other = await ThirdParty.create("Another authority");
    const { files: mixed } = await pair({}, other.certPem + root.certPem + middle.certPem);
    const certificate = await read(mixed);
    expect(namesOf([certificate.certPem])).toEqual(["shop", "Public Issuer", "Public Root"]);
  });

  it("is completed by a root that the system knows", async () => {
    const known = getCACertificates("default");
    setDefaultCACertificates([...known, root.certPem]);
    onTestFinished(() => setDefaultCACertificates(known));
    const { files } = await pair({}, middle.certPem);
    const certificate = await read(files);
    expect(namesOf(certificate.authorities)).toEqual(["Public Issuer", "Public Root"]);
    expect(namesOf([certificate.certPem])).toEqual(["shop", "Public Issuer"]);
  });

  it("is refused with what is wrong with it", async () => {
    const good = await pair({});
    const other = await pair({});
    const write = async (name: string, text: string) => {
      await writeFile(join(dir, name), text);
      return join(dir, name);
    };
    const [ed25519, p224] = [
      generateKeyPairSync("ed25519"),
      generateKeyPairSync("ec", { namedCurve: "secp224r1" }),
    ].map(({ privateKey }) => String(privateKey.export({ type: "pkcs8", format: "pem" })));
    const encrypted = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({
      ...{ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" },
    });
    const { cert, key } = good.files;
    const refused: [part: string, message: RegExp, files: { cert: string; key: string }, now?: Date][] = [
      ["cert", /found .*none\.pem, which cannot be read: ENOENT$/, { cert: join(dir, "none.pem"), key }],
      ["key", /found .*none\.key, which cannot be read: ENOENT$/, { cert, key: join(dir, "none.key") }],
      ["cert", /found no readable certificate in /, { cert: key, key }],
      ["cert", /found no readable certificate in /, { cert: await write("half.pem", good.certPem.slice(0, 300)), key }],
      ["key", /expected a file with a private key .*not encrypted, found no readable one/, { cert, key: cert }],
      ["key", /found no readable one/, { cert, key: await write("half.key", good.keyPem.slice(0, 60)) }],
      ["key", /found no readable one/, { cert, key: await write("encrypted.key", String(encrypted)) }],
      ["key", /expected an RSA key, or an EC key .*, found ed25519/, { cert, key: await write("ed.key", ed25519!) }],
      ["key", /expected an RSA key, or .*, found ec on secp224r1/, { cert, key: await write("p224.key", p224!) }],
      [
        "key",
        /expected the private key of the first certificate .*CN=shop.*, found another one in/,
        { cert, key: other.files.key },
      ],
      ["key", /found another one in/, { cert: await write("turned.pem", middle.certPem + good.certPem), key }],
      [
        "cert",
        /expected a certificate with the names .* found none in that of CN=shop/,
        (await pair({ dns: [] })).files,
      ],
      ["cert", /expected a certificate with the names/, (await pair({ dns: [], emails: ["a@b.example"] })).files],
      ["cert", /expected a certificate for servers, found one of CN=shop/, (await pair({ usages: [CLIENT] })).files],
      ["cert", /valid now, 20.*, found one of CN=shop from 20.* to 20/, (await pair({ validMs: -30_000 })).files],
      ["cert", /valid now/, good.files, new Date(Date.now() - 86_400_000)],
      [
        "cert",
        /expected behind the certificate that of its issuer \(CN=Public Issuer\).*, found none in/,
        (await pair({}, "")).files,
      ],
    ];
    for (const [part, message, files, now] of refused) {
      await expect(read(files, now), String(message)).rejects.toMatchObject({
        part,
        message: expect.stringMatching(message),
      });
    }
  });
});

const LOOK_MS = 20;

async function load(options: Partial<OperatorCertificatesOptions>) {
  const log = new RecordingLogger();
  const loaded = await OperatorCertificates.load({
    ...{ files: [], apiHost: "api.example", configFile: "c.yml", lookEveryMs: LOOK_MS, log },
    placeOf: ([, , index, part]) => ({ line: Number(index) + 10, column: part === "key" ? 7 : 3 }),
    ...options,
  });
  onTestFinished(() => loaded.stop());
  return { loaded, log, lines: () => log.entries.map(({ msg }) => msg) };
}

describe("the certificates of the API", () => {
  it("are checked together, each problem at its place", async () => {
    const good = (await pair({})).files;
    const failure = load({ files: [{ ...good, key: join(dir, "none") }, good, (await pair({ dns: [] })).files] });
    await expect(failure).rejects.toBeInstanceOf(ConfigError);
    const { message } = (await failure.catch((error: unknown) => error)) as ConfigError;
    expect(message.split("\n")).toEqual([
      expect.stringMatching(/^c\.yml:10:7: api\.serverCertificates\[0\]\.key: expected a file with a private key/),
      expect.stringMatching(/^c\.yml:12:3: api\.serverCertificates\[2\]\.cert: expected a certificate with the names/),
    ]);
  });

  it("sign tokens where one covers the advertised host, the first of several", async () => {
    const [shop, apps, second] = [
      await pair({ dns: ["shop.example"] }),
      await pair({ dns: ["*.apps.example"] }, middle.certPem),
      await pair({ dns: ["a.apps.example"] }),
    ];
    const files = [shop.files, apps.files, second.files];
    const { loaded } = await load({ files, apiHost: "a.apps.example" });
    expect(loaded.forPki.signer).toMatchObject({ keyPem: apps.keyPem });
    expect(namesOf(loaded.forPki.authorities)).toEqual(["Public Issuer", "Public Root"]);
    const { loaded: elsewhere } = await load({ files, apiHost: "ctrl.example" });
    expect(elsewhere.forPki.signer).toBeUndefined();
    expect(elsewhere.forPki.authorities).toHaveLength(2);
    expect((await load({})).loaded.forPki).toEqual({ authorities: [] });
  });

  it("are shown to who names no server only where the advertised host is an address of theirs", async () => {
    const own = await (await TestAuthority.create()).identity("controller");
    const files = [(await pair({})).files, (await pair({ ips: ["192.0.2.1", "2001:db8::1"] })).files];
    const shownAt = async (apiHost: string) => {
      const { loaded } = await load({ files, apiHost });
      return new X509Certificate(loaded.identityBeside(own).defaultServerCertificate.certPem).serialNumber;
    };
    const { loaded } = await load({ files });
    const withAddress = loaded.current[1]?.leaf.serialNumber;
    expect(await shownAt("192.0.2.1")).toBe(withAddress);
    expect(await shownAt("2001:db8::1")).toBe(withAddress);
    expect(await shownAt("192.0.2.2")).toBe(own.leaf.serialNumber);
    expect(await shownAt("api.example")).toBe(own.leaf.serialNumber);
  });

  it("are read again when their files were replaced, both of them, and once they are at rest", async () => {
    const first = await pair({});
    const { loaded, log, lines } = await load({ files: [first.files] });
    const onChange = vi.fn();
    loaded.watch(onChange);
    const next = await pair({});
    const serial = () => loaded.current[0]?.leaf.serialNumber;
    const before = serial();

    // Half of a new pair is no pair: the former one stays.
    await rename(next.files.cert, first.files.cert);
    await vi.waitFor(
      () => expect(lines()).toEqual(["the API's new certificate cannot be used: the former one stays"]),
      10_000,
    );
    expect(log.entries[0]?.fields).toMatchObject({ reason: expect.stringMatching(/found another one in/) });
    expect(serial()).toBe(before);
    expect(onChange).not.toHaveBeenCalled();

    await rename(next.files.key, first.files.key);
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledTimes(1), 10_000);
    expect(serial()).not.toBe(before);
    expect(loaded.forPki.signer).toMatchObject({ keyPem: next.keyPem });
    expect(log.entries.slice(1)).toMatchObject([
      { msg: "the API's certificate was replaced", fields: { names: ["api.example"], signsTokens: true } },
    ]);
  });

  it("are found behind links that are turned over, as certificate programs and Kubernetes do it", async () => {
    const [first, next] = [await pair({}), await pair({ dns: ["new.example"] })];
    const files = { cert: join(dir, "live.pem"), key: join(dir, "live.key") };
    await Promise.all([symlink(first.files.cert, files.cert), symlink(first.files.key, files.key)]);
    const { loaded } = await load({ files: [files] });
    const onChange = vi.fn();
    loaded.watch(onChange);
    for (const part of ["key", "cert"] as const) {
      await unlink(files[part]);
      await symlink(next.files[part], files[part]);
    }
    await vi.waitFor(() => expect(loaded.current[0]?.names).toEqual(["new.example"]), 10_000);
    expect(loaded.forPki.signer).toBeUndefined();
  });

  it("say once what is wrong, and are tried again when asked, or when the files change", async () => {
    const { files } = await pair({});
    const { loaded, lines } = await load({ files: [files] });
    const onChange = vi.fn();
    loaded.watch(onChange);
    await unlink(files.key);
    await vi.waitFor(() => expect(lines()).toHaveLength(1), 10_000);
    await loaded.reload();
    expect(lines()).toHaveLength(2);
    const again = await pair({});
    await writeFile(files.cert, again.certPem + middle.certPem);
    await writeFile(files.key, again.keyPem);
    await loaded.reload();
    expect(onChange).toHaveBeenCalledTimes(1);
    await loaded.reload();
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(loaded.forPki.signer).toMatchObject({ keyPem: again.keyPem });
  });

  it("warn a week before one ends, once a day", async () => {
    const { files } = await pair({ validMs: 6 * 86_400_000 });
    let now = Date.now();
    const { loaded, lines } = await load({ files: [files], now: () => new Date(now) });
    loaded.watch(() => undefined);
    await vi.waitFor(
      () => expect(lines()).toEqual(["a certificate of the API ends soon: put a new one in its place"]),
      10_000,
    );
    now += 86_400_000;
    await vi.waitFor(() => expect(lines()).toHaveLength(2), 10_000);
  });
});
