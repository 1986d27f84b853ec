import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Identity, type Logger, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { RouterIdentity } from "./router-identity.ts";

let dir: string;
let authority: TestAuthority;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-identity-"));
  authority = await TestAuthority.create();
  await writeFile(join(dir, "ca.pem"), authority.certPem);
});

afterEach(() => rm(dir, { recursive: true }));

async function write(commonName: string): Promise<void> {
  const { certPem, keyPem } = await authority.issue({ commonName });
  await writeFile(join(dir, "r1.key"), keyPem, { mode: 0o600 });
  await writeFile(join(dir, "r1.cert.new"), certPem);
  await rename(join(dir, "r1.cert.new"), join(dir, "r1.cert"));
}

it("follows its files: a change is used, files that make no identity are not, until they do", async () => {
  await write("r1");
  const refused = Promise.withResolvers<object>();
  const log: Logger = { debug() {}, info() {}, warn: (fields) => refused.resolve(fields), error() {} };
  const config = { cert: "r1.cert", key: "r1.key", server_cert: "r1.cert", ca: "ca.pem", alt_server_certs: [] };
  const identity = await RouterIdentity.load(config, dir, log);
  const changes: Identity[] = [];
  let changed = Promise.withResolvers<void>();
  identity.onChange((next) => {
    changes.push(next);
    changed.resolve();
  });
  const stop = identity.watch();
  try {
    await identity.reload();
    expect(changes).toEqual([]);
    const before = identity.current.leafFingerprint;
    await write("r1");
    await changed.promise;
    expect(identity.current.leafFingerprint).not.toBe(before);
    const good = identity.current;
    await writeFile(join(dir, "r1.key"), "no key");
    expect(await refused.promise).toMatchObject({ err: { code: "IDENTITY_INVALID" } });
    expect(identity.current).toBe(good);
    changed = Promise.withResolvers();
    await write("r1");
    await changed.promise;
    expect(changes).toHaveLength(2);
  } finally {
    stop();
  }
});

const files = { cert: "r1.cert", key: "r1.key", server_cert: "r1.cert", ca: "ca.pem", alt_server_certs: [] };

/** The next time that the identity is another. */
const changed = (identity: RouterIdentity) => new Promise<void>((resolve) => identity.onChange(() => resolve()));

it("follows a mounted secret, whose files are links through a link that is exchanged", async () => {
  const version = async (name: string): Promise<void> => {
    const { certPem, keyPem } = await authority.issue({ commonName: name });
    await mkdir(join(dir, name));
    await writeFile(join(dir, name, "r1.cert"), certPem);
    await writeFile(join(dir, name, "r1.key"), keyPem);
    await symlink(name, join(dir, "..data_tmp"));
    await rename(join(dir, "..data_tmp"), join(dir, "..data"));
  };
  await version("..1");
  for (const name of ["r1.cert", "r1.key"]) await symlink(join("..data", name), join(dir, name));
  const identity = await RouterIdentity.load(files, dir, silentLogger);
  // Not found by looking, but by being told.
  const stop = identity.watch({ lookMs: 3_600_000 });
  try {
    const next = changed(identity);
    await version("..2");
    await next;
    expect(identity.current.id).toBe("..2");
  } finally {
    stop();
  }
});

it("finds changes by looking where nothing tells of them; what it cannot use it tries once", async () => {
  const elsewhere = join(dir, "elsewhere");
  await mkdir(elsewhere);
  await write("r1");
  await rename(join(dir, "r1.cert"), join(elsewhere, "r1.cert"));
  await symlink(join("elsewhere", "r1.cert"), join(dir, "r1.cert"));
  const refused: object[] = [];
  const log: Logger = { ...silentLogger, warn: (fields) => refused.push(fields) };
  const identity = await RouterIdentity.load(files, dir, log);
  const stop = identity.watch({ lookMs: 20 });
  try {
    await writeFile(join(elsewhere, "r1.cert"), "no certificate");
    await expect.poll(() => refused.length, { timeout: 10_000 }).toBe(1);
    const next = changed(identity);
    const { certPem, keyPem } = await authority.issue({ commonName: "r1" });
    await writeFile(join(dir, "r1.key"), keyPem);
    await writeFile(join(elsewhere, "r1.cert"), certPem);
    await next;
    expect(identity.current.certPem).toContain(certPem.trim());
    expect(refused).toHaveLength(1);
  } finally {
    stop();
  }
});

it("tells other servers' certificates apart: a change of an alternative is one, too", async () => {
  await write("r1");
  const alternative = async (name: string): Promise<void> => {
    const { certPem, keyPem } = await authority.issue({ commonName: name, dns: ["alt.example"] });
    await writeFile(join(dir, "alt.key"), keyPem);
    await writeFile(join(dir, "alt.cert"), certPem);
  };
  await alternative("first");
  const alt_server_certs = [{ server_cert: "alt.cert", server_key: "alt.key" }];
  const identity = await RouterIdentity.load({ ...files, alt_server_certs }, dir, silentLogger);
  const before = identity.current.serverContext("alt.example");
  const stop = identity.watch();
  try {
    const next = changed(identity);
    await alternative("second");
    await next;
    expect(identity.current.serverContext("alt.example")).not.toBe(before);
  } finally {
    stop();
  }
});
