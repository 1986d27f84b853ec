import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Identity, Logger } from "@sallyport/wire";
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
