import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { enroll } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli } from "../../network/cli.ts";
import { credentialsOf } from "../../network/login/identity-file.ts";
import { declareService, type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-read");
const passwordFile = join(folder, "password");
let cli: Cli;
let network: Network;
let url: string;
let authority: string;

beforeAll(async () => {
  cli = await Cli.packed(folder);
  network = await startNetwork(join(folder, "network"));
  url = `https://localhost:${network.port}`;
  writeFileSync(passwordFile, `${network.adminPassword}\n`, { mode: 0o600 });
  const declared = await declareService(network, { name: "web" });
  authority = credentialsOf(declared.clientFile).ca;
  writeFileSync(join(folder, "ca.pem"), authority);
}, 120_000);

afterAll(async () => {
  await network?.stop();
  removeScratch(folder);
});

describe("an administrator with sallyport", () => {
  it("trusts no controller without being told to", async () => {
    const refused = await cli.run("login", url, "-u", "admin", "--password-file", passwordFile);
    expect(refused).toMatchObject({ code: 2, output: "" });
    expect(refused.errors).toMatch(/SHA-256 [0-9A-F:]{95}/);
    expect(refused.errors).toContain("log in with --ca FILE or --fingerprint SHA256");
    const wrong = await cli.run("login", url, "-u", "admin", "--password-file", passwordFile, "--fingerprint", "00:11");
    expect(wrong).toMatchObject({
      code: 1,
      errors: expect.stringContaining("names no authority with the fingerprint 00:11"),
    });
    expect((await cli.run("networks")).errors).toContain("no networks");
  });

  it("logs in by password with the fingerprint that the controller's administrator tells", async () => {
    const { output } = await network.runToEnd("controller", "pki", "status", network.controllerFile);
    const [, fingerprint = ""] = /SHA-256 ([0-9A-F:]+)/.exec(output) ?? [];
    const login = [
      "login",
      url,
      "-u",
      "admin",
      "--password-file",
      passwordFile,
      "--fingerprint",
      fingerprint,
      "-n",
      "one",
    ];
    expect(await cli.done(...login)).toBe(`logged in to one (${url}) as Default Admin\n`);
    expect(await cli.done("whoami", "-o", "jsonpath=$.isAdmin")).toBe("true\n");
    expect(await cli.done("networks")).toMatch(/^\* +one +https:.+ password +Default Admin$/m);
  });

  it("gets entities as tables, documents and names, with names in place of ids", async () => {
    expect(await cli.done("get", "edge-routers")).toMatch(/^NAME +ONLINE .*\nr1 +true .*\nr2 +true /);
    expect(await cli.done("get", "routers", "-o", "name")).toBe("router/r1\nrouter/r2\n");
    expect(await cli.done("get", "er", "r1", "-o", "jsonpath=$.isOnline")).toBe("true\n");
    const listed = JSON.parse(await cli.done("get", "services", "--filter", 'name = "web"', "-o", "json"));
    expect(listed).toMatchObject([{ name: "web", encryptionRequired: true }]);
    const roles = { identityRoles: ["#all"], serviceRoles: [`@${listed[0].id}`] };
    await network.management.createServicePolicy({
      body: { name: "by-id", type: "Dial", semantic: "AnyOf", ...roles },
    });
    expect(await cli.done("get", "sp", "by-id")).toMatch(/^by-id +Dial +AnyOf +#all +@web +-$/m);
    expect(await cli.done("describe", "sp", "by-id")).toMatch(/^Service roles: +@web$/m);
    expect(await cli.done("get", "identities", "--limit", "1", "--no-headings")).toMatch(/^[^\n]+\n$/);
    const described = await cli.done("describe", "service", "web");
    expect(described).toMatch(/^Name: +web$/m);
    expect(described).toMatch(/^Service policies: +\S/m);
  });

  it("gets every kind of the contract", async () => {
    const kinds = (await cli.done("explain"))
      .split("\n")
      .slice(1, -1)
      .map((line) => line.split(" ", 1)[0] ?? "");
    expect(kinds.length).toBeGreaterThan(20);
    for (const kind of kinds) expect(await cli.run("get", kind, "-o", "wide"), kind).toMatchObject({ code: 0 });
  });

  it("calls any operation, and tells the nearest path", async () => {
    expect(JSON.parse(await cli.done("api", "GET", "/services?limit=1"))).toMatchObject({
      meta: { pagination: { limit: 1 } },
    });
    const made = await cli.runWith(
      { input: '{"name":"by-api","encryptionRequired":true}' },
      "api",
      "POST",
      "/services",
      "--data",
      "@-",
    );
    expect(made.code).toBe(0);
    expect(await cli.done("get", "service", "by-api", "-o", "name")).toBe("service/by-api\n");
    expect(await cli.run("api", "GET", "/servces")).toMatchObject({
      code: 3,
      errors: expect.stringContaining("did you mean /edge/management/v1/services?"),
    });
    expect(await cli.run("api", "POST", "/services", "--data", "{")).toMatchObject({ code: 2, output: "" });
  });

  it("is told the nearest name, and by the exit status what was wrong", async () => {
    expect(await cli.run("get", "service", "wbe")).toEqual({
      code: 3,
      output: "",
      errors: "sallyport: no service 'wbe': did you mean 'web'?\n",
    });
    expect(await cli.run("get", "services", "--filter", "nope = 1")).toMatchObject({ code: 1, output: "" });
    expect(await cli.run("get", "services", "-n", "oen")).toMatchObject({
      code: 4,
      errors: expect.stringContaining("did you mean 'one'?"),
    });
    const wrong = await cli.runWith(
      { input: "wrong-password\n" },
      "login",
      url,
      "-u",
      "admin",
      "--password-file",
      "-",
      "-n",
      "one",
    );
    expect(wrong).toMatchObject({ code: 4, errors: expect.stringContaining("the user name or the password is wrong") });
    expect(await cli.done("whoami", "-o", "jsonpath=$.network")).toBe("one\n");
  });

  it("logs in with an identity file, and goes on after its session was ended", async () => {
    const { management } = network;
    const { data } = await management.createIdentity({
      body: { name: "robot", type: "Default", isAdmin: true, enrollment: { ott: true } },
    });
    const detail = await management.detailIdentity({ params: { id: data.id } });
    const file = join(folder, "robot.json");
    writeFileSync(file, JSON.stringify(await enroll(detail.data.enrollment.ott?.jwt ?? "")), { mode: 0o600 });
    expect(await cli.done("login", "--identity", file, "-n", "robot")).toContain("as robot");
    const sessions = await management.listAPISessions({ query: { filter: `identity = "${data.id}"` } });
    for (const { id } of sessions.data) await management.deleteAPISessions({ params: { id } });
    expect(await cli.done("whoami", "-o", "jsonpath=$.identity")).toBe("robot\n");
    const { cert, key } = credentialsOf(file);
    for (const [name, pem] of Object.entries({ cert, key })) writeFileSync(join(folder, `${name}.pem`), pem);
    const parts = ["cert", "key", "ca"].flatMap((name) => [`--${name}`, join(folder, `${name}.pem`)]);
    expect(await cli.done("login", url, ...parts, "-n", "parts")).toContain("as robot");
    expect(await cli.done("logout", "parts")).toBe("logged out of parts\n");
    expect(await cli.done("networks", "use", "one")).toBe("using one\n");
  });

  it("is told that a session has ended, and that a controller is away", async () => {
    const other = new Cli(cli.main, join(folder, "other"));
    await other.done(
      "login",
      url,
      "-u",
      "admin",
      "--password-file",
      passwordFile,
      "--ca",
      join(folder, "ca.pem"),
      "-n",
      "two",
    );
    const mine = JSON.parse(await other.done("api", "GET", "/current-api-session")).data.id;
    await other.done("api", "DELETE", `/api-sessions/${mine}`);
    expect(await other.run("get", "services")).toMatchObject({
      code: 4,
      errors: expect.stringContaining("'sallyport login' begins a new one"),
    });
    expect(await other.done("login", "--password-file", passwordFile)).toContain("logged in to two");
    const port = await freePort();
    const away = await other.run(
      "login",
      `https://localhost:${port}`,
      "-u",
      "admin",
      "--password-file",
      passwordFile,
      "--ca",
      join(folder, "ca.pem"),
    );
    expect(away).toMatchObject({ code: 5, errors: expect.stringContaining("no program listens there") });
  });

  it("stops quietly when the reader of its output does", async () => {
    const child = spawn(
      "/bin/sh",
      ["-c", `"$0" "$1" get config-types -o yaml | head -n 1`, process.execPath, cli.main],
      { env: cli.env },
    );
    let errors = "";
    child.stderr.on("data", (chunk) => {
      errors += String(chunk);
    });
    await once(child, "close");
    expect(errors).toBe("");
  });
});
