import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, expect, it } from "vitest";
import { testTokens } from "../auth/tokens/testing/test-tokens.ts";
import { saveNetworkKeys } from "../certificates/network-keys.ts";
import { createPkiMaterial } from "../pki/material.ts";
import { DEFAULT_LIFETIMES } from "../pki/testing.ts";
import { KeyVault, Secrets } from "../store/secrets.ts";
import { urlOf } from "../store/testing/oldest-server.ts";
import { type TestStore, testStore } from "../store/testing/test-store.ts";
import { pkiCommand } from "./pki.ts";

let test: TestStore;
let folder: string;
beforeAll(async () => {
  test = await testStore();
  folder = await mkdtemp(join(tmpdir(), "sallyport-pki-command-"));
});
afterAll(async () => {
  await test.drop();
  await rm(folder, { recursive: true, force: true });
});

it("pki rotate --tokens works beside a controller, which then signs with the new key; --at-once ends all logins by OIDC", async () => {
  const key = randomBytes(32);
  const secrets = new Secrets(key);
  const material = await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "controller", hosts: ["h"] });
  await saveNetworkKeys(new KeyVault(test.store.db, secrets), material);
  const tokens = await testTokens(test.store, { secrets });
  const file = join(folder, "controller.yml");
  await writeFile(
    file,
    `api: { bind: ":1280", advertise: "h:1280" }\nctrl: { bind: ":1280", advertise: "h:1280" }\ndatabase: { url: "${urlOf(test.connection)}" }\n`,
  );
  await test.store.pool.query(`
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id) VALUES ('i', 'i', 'Default');
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES ('legacy', 'l', 'i', 'x', '::1');
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, kind, expires_at, access_until)
      SELECT 'a' || n, 'oidc:a' || n, 'i', 'x', '::1', 'oidc', now() + interval '1 day', now() + interval '1 hour' FROM generate_series(1, 501) n`);
  const run = async (command: { action: "status" } | { action: "rotate-tokens"; atOnce: boolean }) => {
    const lines: string[] = [];
    const env = { SALLYPORT_SECRET_KEY: key.toString("base64") };
    await pkiCommand({ command: "pki", file, ...command }, { env, say: (line) => lines.push(line), log: silentLogger });
    return lines;
  };
  const first = tokens.keys.signer().kid;
  const sessions = async () => (await test.store.pool.query("SELECT id FROM api_session")).rowCount;

  const [planned = "", ...rest] = await run({ action: "rotate-tokens", atOnce: false });
  const second =
    /^The key ([0-9a-f]{40}) is published\. It signs tokens from \S+Z on, and every session goes on\.$/.exec(
      planned,
    )?.[1];
  expect(rest.filter((line) => line.startsWith("token key:"))).toEqual([
    expect.stringMatching(new RegExp(`^token key: ${first}, signs from \\S+, tokens count until \\S+Z$`)),
    expect.stringMatching(new RegExp(`^token key: ${second}, signs from \\S+Z$`)),
  ]);
  await expect.poll(() => tokens.keys.published().map(({ kid }) => kid)).toEqual([first, second]);
  expect([tokens.keys.signer().kid, await sessions()]).toEqual([first, 502]);

  const [now = ""] = await run({ action: "rotate-tokens", atOnce: true });
  const third =
    /^The key ([0-9a-f]{40}) signs tokens now\. No token of a former key counts any more; 501 logins by OIDC have ended\.$/.exec(
      now,
    )?.[1];
  await expect.poll(() => tokens.keys.published().map(({ kid }) => kid)).toEqual([third]);
  expect([tokens.keys.signer().kid, await sessions()]).toEqual([third, 1]);
  const { rowCount } = await test.store.pool.query("SELECT FROM revocation");
  expect(rowCount).toBe(0);
  expect((await run({ action: "status" })).filter((line) => line.startsWith("token key:"))).toHaveLength(1);
  tokens.close();
});
