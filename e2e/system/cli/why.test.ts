import { spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli } from "../../network/cli.ts";
import { declareService, type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-why");
let cli: Cli;
let network: Network;
let clientFile: string;

beforeAll(async () => {
  cli = await Cli.packed(folder);
  network = await startNetwork(join(folder, "network"));
  const declared = await declareService(network, { name: "web" });
  clientFile = declared.clientFile;
  await cli.login(network);
}, 120_000);

afterAll(async () => {
  await network?.stop();
  removeScratch(folder);
});

/** Runs a command that an answer gives, as a user would paste it into a shell. */
function pasted(command: string): void {
  const program = join(folder, "bin-sallyport");
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${cli.main}' "$@"\n`);
  chmodSync(program, 0o755);
  const line = command.replace(/^sallyport /, `'${program}' `);
  const { status, stderr } = spawnSync("sh", ["-c", line], { env: cli.env, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
}

describe("sallyport why", () => {
  it("names what is missing and the command that fixes it, until the service can be reached", async () => {
    await cli.done("patch", "identity", "web-client", "--role-attributes", "stranger");
    const first = await cli.run("why", "web-client", "web");
    expect(first.code).toBe(1);
    expect(first.output).toMatch(/^web-client cannot dial web\n/);
    expect(first.output).toMatch(/^service-policy +FAILED/m);

    const fixed: string[] = [];
    for (;;) {
      const { code, output } = await cli.run("why", "web-client", "web", "-o", "json");
      const { allowed, firstProblem } = JSON.parse(output);
      expect(code).toBe(allowed ? 0 : 1);
      if (allowed || firstProblem.code === "NOT_HOSTED") break;
      expect(fixed).not.toContain(firstProblem.code);
      fixed.push(firstProblem.code);
      const { command } = firstProblem.remedies.find((remedy: { command?: string }) => remedy.command !== undefined);
      pasted(command);
    }
    expect(fixed.length).toBeGreaterThan(0);
    expect((await cli.run("why", "web-client", "web", "--all")).output).toMatch(/^service-policy +ok +granted by/m);
  }, 60_000);

  it("answers an identity about itself, and nothing about a service that it may not see", async () => {
    const own = await cli.run("why", "web", "--identity", clientFile, "-o", "jsonpath=$.identity.name");
    expect(own.output).toBe("web-client\n");
    expect(await cli.run("why", "elsewhere", "--identity", clientFile)).toMatchObject({ code: 3, output: "" });
  });

  it("says what is wrong with its command line", async () => {
    expect(await cli.run("why", "web")).toMatchObject({
      code: 2,
      errors: expect.stringContaining("expected an identity and a service"),
    });
    expect(await cli.run("why", "a", "b", "--identity", clientFile)).toMatchObject({
      code: 2,
      errors: expect.stringContaining("expected the service alone"),
    });
    expect(await cli.run("why", "web-client", "web", "--type", "call")).toMatchObject({ code: 2 });
    expect(await cli.run("why", "web-clent", "web")).toEqual({
      code: 3,
      output: "",
      errors: "sallyport: no identity 'web-clent': did you mean 'web-client'?\n",
    });
  });
});
