import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { main } from "../main.ts";
import { testContext } from "../testing/test-context.ts";
import { Redactor } from "./redact.ts";

const JWT = `eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl`;
const KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA0123456789\n-----END EC PRIVATE KEY-----";

describe("of a configuration", () => {
  it.each([
    ["password: hunter2-secret", "hunter2-secret"],
    ["password: two words with blanks", "two words with blanks"],
    ["# password: an old one here", "an old one here"],
    ['"client_secret": "a \\"quoted\\" one"', 'quoted\\" one'],
    ["auth: {user: me, password: in-a-flow-map, other: x}", "in-a-flow-map"],
    ["database:\n  url: postgres://me:pa55word@host/db", "pa55word"],
    ["secret: |\n  first line of it\n  second line of it", "second line of it"],
    ["tokens:\n  - list-of-tokens-1\n  - list-of-tokens-2", "list-of-tokens-2"],
    ["credentials:\n  user: me\n  phrase: below-a-secret-name", "below-a-secret-name"],
    ["SALLYPORT_SECRET_KEY=0123456789abcdef", "0123456789abcdef"],
    ["export API_KEY='single-quoted'", "single-quoted"],
    [`key: "${KEY.replaceAll("\n", "\\n")}"`, "MHcCAQEEIA0123456789"],
    [`key: |\n  ${KEY.replaceAll("\n", "\n  ")}`, "MHcCAQEEIA0123456789"],
    [`enrollmentJwt: ${JWT}`, JWT],
    [`something: ${JWT}`, "c2lnbmF0dXJl"],
    ["tls.key: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg==", "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg=="],
    ["kind: Secret\ndata:\n  anything: aHVudGVyMg==", "aHVudGVyMg=="],
    ["- &a b\n- {kind: Secret}\n- password: in-a-list", "in-a-list"],
    ["&a password: anchored-secret\nother: *a", "anchored-secret"],
  ])("%j no secret remains", async (text, secret) => {
    const redacted = await new Redactor().configuration(text);
    expect(redacted).not.toContain(secret);
    expect(redacted).toContain("[redacted]");
  });

  it.each([
    "listen: 0.0.0.0:1280\nsecretKeyFile: secret.key\npasswordFile: /etc/pass",
    "tokenLifetime: 30m\nmaxTokens: 5\npasswordRequired: true\ntoken: null",
    "name: web # a comment: with a colon\nroles: ['#all']",
  ])("%j all remains", async (text) => {
    expect(await new Redactor().configuration(text)).toBe(text);
  });

  it("a secret goes wherever else it stands, and one that is short does not take half of the text", async () => {
    const redactor = new Redactor();
    await redactor.configuration("password: hunter2-secret\npassphrase: ab");
    expect(redactor.text("abracadabra: login with hunter2-secret failed")).toBe(
      "abracadabra: login with [redacted] failed",
    );
    expect(redactor.value({ a: [{ b: "hunter2-secret" }], token: "x", count: 1, none: null })).toEqual({
      a: [{ b: "[redacted]" }],
      token: "[redacted]",
      count: 1,
      none: null,
    });
  });

  it("that cannot be read is refused: its secrets are not known", async () => {
    await expect(new Redactor().configuration("a: [\nsecret: |\n x")).rejects.toThrow();
  });
});

describe("of a log", () => {
  it.each([
    ['{"level":"info","token":"abcdef-123","msg":"x"}', "abcdef-123"],
    ["msg: password=hunter2 failed", "hunter2"],
    ["GET /oidc?state=x&access_token=abc.def&y=1", "abc.def"],
    ["zt-session: 0a1b2c3d-4e5f", "0a1b2c3d-4e5f"],
    ["Authorization: Bearer xyz-123-abc", "xyz-123-abc"],
    ["tokenUri: https://h/?password=nested-one", "nested-one"],
  ])("%j no secret remains", (text, secret) => {
    expect(new Redactor().text(text)).not.toContain(secret);
  });

  it("lines of any length and form take linear time", () => {
    const started = performance.now();
    for (const part of ["password=", '"token":"', "secret_", "a=", "'", '"\\'])
      new Redactor().text(part.repeat(20_000));
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe("sallyport bugreport", () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "sallyport-bugreport-"));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  async function run(...args: string[]) {
    const context = testContext({ SALLYPORT_CONFIG_DIR: join(dir, "settings"), PATH: "", SALLYPORT_X: "value-of-x" });
    const status = await main(["bugreport", "--no-journal", ...args], context);
    return { status, output: context.output(), errors: context.errors() };
  }

  it("packs what there is without a network, for its owner alone", async () => {
    const target = join(dir, "r.tar.gz");
    const config = join(dir, "router.yml");
    writeFileSync(config, "v: 3\npassword: hunter2-secret\n");
    const log = join(dir, "router.log");
    writeFileSync(log, `${"x".repeat(2_000)}\n`.repeat(600).concat("the last line has hunter2-secret\n"));
    const { status, output } = await run("-o", target, "--config", config, "--log", log);
    expect(status).toBe(0);
    expect(output).toMatch(/^config\/1-router.yml +\d+ +/m);
    expect(output).toMatch(/^status.txt +\d+ +why the network could not be asked$/m);
    expect(statSync(target).mode & 0o777).toBe(0o600);
    const text = execFileSync("tar", ["-xzOf", target], { encoding: "utf8", maxBuffer: 1e8 });
    expect(text).toContain("password: [redacted]");
    expect(text).toContain("the last line has [redacted]");
    expect(text).toContain("[the beginning is left out]");
    expect(text).toContain("SALLYPORT_X");
    for (const secret of ["hunter2-secret", "value-of-x"]) expect(text).not.toContain(secret);
  });

  it("leaves out what it cannot read as a configuration, and says so", async () => {
    const config = join(dir, "broken.yml");
    writeFileSync(config, "a: [\nsecret: |\n unknown\n");
    const { status, output } = await run("-o", join(dir, "r.tar.gz"), "--config", config);
    expect([status, output]).toEqual([0, expect.stringContaining("left out, because it can be read as neither")]);
    const text = execFileSync("tar", ["-xzOf", join(dir, "r.tar.gz")], { encoding: "utf8" });
    expect(text).not.toContain("unknown\n");
  });

  it("replaces no file, and leaves none behind when it fails", async () => {
    writeFileSync(join(dir, "there"), "mine");
    expect(await run("-o", join(dir, "there"))).toMatchObject({
      status: 1,
      errors: expect.stringContaining("it exists"),
    });
    const missing = await run("-o", join(dir, "r"), "--config", join(dir, "none.yml"));
    expect(missing).toMatchObject({ status: 1, errors: expect.stringContaining("cannot read") });
    expect(await run("-o", join(dir, "r"), "--log", dir)).toMatchObject({ status: 1 });
    execFileSync("mkfifo", [join(dir, "pipe")]);
    expect(await run("-o", join(dir, "r"), "--log", join(dir, "pipe"))).toMatchObject({
      status: 1,
      errors: expect.stringContaining("it is no regular file"),
    });
    expect(await run("-o", join(dir, "no/folder"))).toMatchObject({
      status: 1,
      errors: expect.stringContaining("its folder does not exist"),
    });
    expect(readdirSync(dir).sort()).toEqual(["pipe", "there"]);
  });
});
