import { describe, expect, it } from "vitest";
import { main } from "./main.ts";
import { testContext } from "./testing/test-context.ts";

async function run(...args: string[]) {
  const context = testContext();
  const status = await main(args, context);
  return { status, output: context.output(), errors: context.errors() };
}

describe("sallyport", () => {
  it.each([
    [["gett"], "unknown command 'gett': did you mean get?; see 'sallyport --help'"],
    [["get"], "missing required argument 'kind'; see 'sallyport get --help'"],
    [["get", "idntities"], "unknown kind 'idntities': did you mean 'identities'?"],
    [["get", "frobnicators"], "unknown kind 'frobnicators': 'sallyport explain' lists the kinds"],
    [
      ["get", "services", "--fliter", "x"],
      "unknown option '--fliter': did you mean --filter?; see 'sallyport get --help'",
    ],
    [
      ["get", "services", "-o", "jsn"],
      "unknown output 'jsn': expected table, wide, json, yaml, name or jsonpath=QUERY; did you mean 'json'?",
    ],
    [
      ["get", "services", "--limit", "0"],
      "option '--limit <number>' argument '0' is invalid. Expected a whole number from 1.; see 'sallyport get --help'",
    ],
    [["get", "services", "--filter", "a", "--filter", "b"], "--filter was given twice"],
    [["get", "service", "web", "--limit", "3"], "--filter and --limit go with lists: leave out the names"],
    [["explain", "identity.typ"], "identity has no field 'typ': did you mean 'type'?"],
    [
      ["whoami", "extra"],
      "too many arguments for 'whoami'. Expected 0 arguments but got 1: extra.; see 'sallyport whoami --help'",
    ],
    [["api", "GTE", "/services"], "unknown method 'GTE': did you mean GET?"],
    [["api", "GET", "https://other.example/services"], "expected a path, not a URL: the host is that of the network"],
    [["login"], "which controller? sallyport login https://HOST:PORT"],
    [["login", "http://host"], "'http://host' is no address of a controller: expected https://HOST:PORT"],
    [["login", "https://host", "--cert", "a.pem"], "--cert and --key go together"],
    [
      ["login", "https://host", "-u", "a", "--token-file", "b"],
      "log in by one of --username, --cert with --key, --identity and --token-file, not by several",
    ],
    [
      ["networks", "us", "x"],
      "too many arguments for 'list'. Expected 0 arguments but got 2: us, x.; see 'sallyport networks --help'",
    ],
  ])("refuses %j in one line", async (args, line) => {
    const context = testContext({ SALLYPORT_CONFIG_DIR: "/nonexistent/sallyport" });
    expect(await main(args, context)).toBe(2);
    expect(context.errors()).toBe(`sallyport: ${line}\n`);
    expect(context.output()).toBe("");
  });

  it("says what to do without a home folder, and without a login", async () => {
    expect(await run("get", "services")).toMatchObject({
      status: 1,
      errors: expect.stringContaining("HOME is not set"),
    });
    const context = testContext({ HOME: "/nonexistent" });
    expect(await main(["get", "services"], context)).toBe(4);
    expect(context.errors()).toBe("sallyport: no network is chosen: log in with 'sallyport login https://HOST:PORT'\n");
  });

  it("prints help where it was asked for, and where a command is missing", async () => {
    const asked = await run("--help");
    expect(asked).toMatchObject({ status: 0, errors: "" });
    expect(asked.output).toContain("Exit status:");
    const missing = await run();
    expect(missing).toMatchObject({ status: 2, output: "" });
    expect(missing.errors).toContain("Usage: sallyport");
    expect((await run("get", "--help")).output).toContain("Examples:");
    expect((await run("help", "explain")).output).toContain("sallyport explain service-policy");
  });

  it("prints its version", async () => {
    expect(await run("--version")).toMatchObject({
      status: 0,
      output: expect.stringMatching(/^sallyport \d+\.\d+\.\d+\n$/),
    });
  });

  it("explains kinds and fields from the contract", async () => {
    expect((await run("explain")).output).toMatch(/^service-policy +sp +get,create,patch,delete +Service policies$/m);
    expect((await run("explain", "sp")).output).toMatch(/^type +one of Dial, Bind +required +yes +yes$/m);
    expect((await run("explain", "services.encryptionRequired")).output).toMatch(/^Change: +no$/m);
    expect((await run("explain", "auth-policy.primary.cert")).output).toMatch(/^primary.cert.allowed +true or false/m);
    expect((await run("explain", "posture-check.domains")).output).toMatch(/^Only for: +typeId DOMAIN$/m);
  });
});
