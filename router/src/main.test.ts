import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RouterProgram } from "./testing/router-program.ts";
import { ScriptedController } from "./testing/scripted-controller.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-main-"));
});

afterEach(async () => {
  await RouterProgram.endAll();
  await rm(dir, { recursive: true });
});

const startWith = (env: Record<string, string>, ...args: string[]) => RouterProgram.start({ cwd: dir, env }, ...args);
const start = (...args: string[]) => startWith({}, ...args);
const run = (...args: string[]) => start(...args).ended;

async function configure(controllerPort: number): Promise<void> {
  const authority = await TestAuthority.create();
  const { certPem, keyPem } = await authority.issue({ commonName: "r1", dns: ["localhost"] });
  await writeFile(join(dir, "r1.cert"), certPem);
  await writeFile(join(dir, "r1.key"), keyPem);
  await writeFile(join(dir, "ca.pem"), authority.certPem);
  await writeFile(
    join(dir, "router.yml"),
    `v: 3
identity: { cert: r1.cert, server_cert: r1.cert, key: r1.key, ca: ca.pem }
ctrl: { endpoint: "tls:localhost:${controllerPort}", startupTimeout: 500ms }
csr: {}
edeg: {}
ha: { enabled: false }
`,
  );
}

describe("sallyport-router", { timeout: 120_000 }, () => {
  it("tells its version and its commands", async () => {
    expect(await run("--version")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^sallyport-router .*v1\.6\.20/),
    });
    expect(await run("--help")).toMatchObject({ code: 0, out: expect.stringContaining("enroll") });
    for (const words of [["fly"], ["fly", "x"]]) {
      expect(await run(...words)).toMatchObject({ code: 2, err: expect.stringContaining("there is no command fly") });
    }
    expect(await run("run")).toMatchObject({
      code: 2,
      err: expect.stringContaining("run takes exactly one argument, <router.yml>"),
    });
  });

  it("writes a file that serves the address family of its host", async () => {
    const file = (...more: string[]) => run("create-config", "r1", "--controller", "tls:[::1]:1280", ...more);
    const v6 = await file("--host", "::1", "--port", "3033");
    expect(v6).toMatchObject({ code: 0, out: expect.stringContaining("tls:[::]:3033") });
    expect((await file("--host", "192.0.2.1")).out).toContain("tls:0.0.0.0:3022");
    await writeFile(join(dir, "v6.yml"), v6.out);
    expect(await run("check", "v6.yml")).toMatchObject({ code: 0, out: expect.stringContaining("v6.yml is valid") });
    expect(await file("--host", "h", "--port", "http")).toMatchObject({
      code: 2,
      err: expect.stringContaining("--port expects a number from 1 to 65535, found http"),
    });
  });

  it("says how to enroll where certificates or the token are missing", async () => {
    const { out } = await run("create-config", "r1", "--controller", "tls:localhost:1", "--host", "localhost");
    await writeFile(join(dir, "router.yml"), out);
    expect(await run("run", "router.yml")).toMatchObject({
      code: 1,
      err: expect.stringMatching(/cannot read .*r1\.cert.*enroll it with: sallyport-router enroll/),
    });
    expect(await run("enroll", "router.yml", "--jwt", "r1.jwt")).toMatchObject({
      code: 1,
      err: expect.stringContaining("the token file of --jwt cannot be read: ENOENT"),
    });
  });

  it("names line and column of every error of a file, and does not start with it", async () => {
    await writeFile(join(dir, "router.yml"), "v: 2\nidentity: { cert: a }\nctrl: {}\n");
    for (const command of ["check", "run"]) {
      const { code, err } = await run(command, "router.yml");
      expect(code, command).toBe(2);
      expect(err).toContain("router.yml:1:1: v: expected 3");
      expect(err).toContain("router.yml:2:1: identity.key: expected");
      expect(err).toContain("router.yml:2:1: identity.ca: expected");
    }
  });

  it("names a log level that there is not", async () => {
    await configure(1);
    expect(await startWith({ SALLYPORT_LOG_LEVEL: "loud" }, "run", "router.yml").ended).toMatchObject({
      code: 1,
      err: expect.stringContaining("SALLYPORT_LOG_LEVEL must be one of debug, info, warn, error, found"),
    });
  });

  it("checks a file and says what is odd about it", async () => {
    await configure(1);
    const { code, out } = await run("check", "router.yml");
    expect(out).toContain("router.yml:5:1: edeg: expected a known key, perhaps edge");
    expect(out).toContain("router.yml:6:1: ha: without effect: ");
    expect(out).toContain("router r1, certificate valid until");
    expect([code, out.trimEnd().split("\n").at(-1)]).toEqual([0, "router.yml is valid"]);
  });

  it("ends when no controller is reached in time", async () => {
    const unused = await ScriptedController.start(await (await TestAuthority.create()).identity("x"));
    await configure(unused.port.port);
    await unused.close();
    const { code, err, out } = await run("run", "router.yml");
    expect([code, err]).toEqual([1, expect.stringContaining("no controller was reached within 0.5 s")]);
    expect(out).toMatch(/"level":"warn".*"key":"ha".*router\.yml:6:1: ha: without effect: /);
  });

  it("stops on SIGTERM with status 0", async () => {
    await configure(1);
    await writeFile(
      join(dir, "router.yml"),
      `v: 3
identity: { cert: r1.cert, server_cert: r1.cert, key: r1.key, ca: ca.pem }
ctrl: { endpoint: "tls:localhost:1", startupTimeout: 0s }
`,
    );
    const router = start("run", "router.yml");
    await router.printed("the router is running");
    router.child.kill("SIGTERM");
    const { code, out } = await router.ended;
    expect(code).toBe(0);
    expect(out).toContain('"msg":"stopped"');
    for (const line of out.trimEnd().split("\n")) {
      expect(JSON.parse(line)).toMatchObject({
        level: expect.stringMatching(/^[a-z]+$/),
        time: expect.stringMatching(/T.*Z$/),
      });
    }
    expect(out).not.toContain("PRIVATE KEY");
  });
});
