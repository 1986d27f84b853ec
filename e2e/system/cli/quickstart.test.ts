/** `sallyport quickstart` as its user runs it, on loopback. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Context, enroll } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fetchPage } from "../../demo/client.ts";
import { Cli } from "../../network/cli.ts";
import { alive } from "../../network/processes.ts";
import { accepts, Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("quickstart");
const home = join(folder, "network");
const BIN = join(import.meta.dirname, "../../../node_modules/.bin");
let cli: Cli;
let ports: string[];
let web: Server;
let running: Program | undefined;

beforeAll(async () => {
  const packed = await Cli.packed(folder);
  // The programs of a network are those of this repository.
  cli = new Cli(packed.main, folder, { PATH: `${BIN}:${process.env.PATH}` });
  ports = (await freePorts(2)).map(String);
  web = createServer((_request, response) => response.end("from the first machine\n"));
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
}, 60_000);

afterAll(async () => {
  await running?.stop();
  web?.close();
  removeScratch(folder);
}, 60_000);

function start(...args: string[]): Program {
  const [port = "", routerPort = ""] = ports;
  const options = ["--dir", home, "--host", "localhost", "--port", port, "--router-port", routerPort];
  running = new Program({
    name: "quickstart",
    command: process.execPath,
    args: [cli.main, "quickstart", ...options, ...args],
    env: cli.env as Record<string, string>,
  });
  return running;
}

const pidOf = (program: string): number => Number.parseInt(readFileSync(join(home, `${program}.pid`), "utf8"), 10);

describe("a quick start", () => {
  it("that is killed at any step is finished by the next run, which stops what has gone on", async () => {
    const expose = `web=${(web.address() as AddressInfo).port}`;
    // In the middle of making the controller, and when both programs run.
    const steps: [(run: Program) => Promise<void>, string[]][] = [
      [async (run) => await run.ready("init", async () => existsSync(join(home, "controller", "secret.key"))), []],
      [
        async (run) => await run.ready("the router", async () => existsSync(join(home, "router.pid"))),
        ["controller", "router"],
      ],
    ];
    let left: number[] = [];
    for (const [reached, programs] of steps) {
      const run = start("--expose", expose);
      await reached(run);
      run.signal("SIGKILL");
      await run.exited;
      left = programs.map(pidOf);
      expect(alive(left)).toEqual(left);
    }
    const run = start("--expose", expose);
    await run.line(/^The network runs/);
    expect(alive(left)).toEqual([]);
    expect(run.tail.join("\n")).toMatch(/ {2}web {2}127\.0\.0\.1:\d+ {2}web\.sallyport\.internal:\d+/);
  }, 120_000);

  it("is logged in to, and has a service that a machine with a token dials", async () => {
    expect(await cli.done("get", "identities", "-o", "name")).toContain("identity/machine-2\n");
    expect(await cli.done("networks")).toMatch(/\* +quickstart/);
    const identity = await enroll(readFileSync(join(home, "tokens", "machine-2.jwt"), "utf8"));
    const file = join(folder, "machine-2.json");
    writeFileSync(file, JSON.stringify(identity), { mode: 0o600 });
    const context = await Context.load(file);
    const agent = context.httpAgent();
    try {
      expect(await fetchPage(agent, "web")).toBe("from the first machine\n");
    } finally {
      agent.destroy();
      await context.close();
    }
  });

  it("refuses a second run in its folder, and one that would be another network", async () => {
    const second = await cli.run("quickstart", "--dir", home);
    expect([second.code, second.errors]).toEqual([
      1,
      expect.stringMatching(/another 'sallyport quickstart' uses .* \(process \d+\): stop it/),
    ]);
  });

  it("starts a program again that was killed", async () => {
    process.kill(pidOf("router"), "SIGKILL");
    await running?.line(/^the router ended \(signal SIGKILL\) and starts again in 0\.5 s/);
    await expect
      .poll(async () => await cli.run("get", "edge-router", "quickstart-router", "-o", "jsonpath=$.isOnline"), {
        timeout: 20_000,
      })
      .toMatchObject({ code: 0, output: "true\n" });
  });

  it("stops in order, goes on where it was, and takes a further service", async () => {
    const programs = ["controller", "router"].map(pidOf);
    expect(await running?.stop()).toBe(0);
    expect(alive(programs)).toEqual([]);
    expect(readdirSync(home).filter((name) => name.endsWith(".pid"))).toEqual([]);
    const other = await cli.run("quickstart", "--dir", home, "--host", "127.0.0.1");
    expect([other.code, other.errors]).toEqual([2, expect.stringContaining("was made with --host localhost")]);
    const run = start("--expose", "more=[::1]:9");
    await run.line(/^The network runs/);
    const said = run.tail.join("\n");
    expect(said).toMatch(/ {2}more {2}::1:9 +no program listens there yet/);
    expect(said).toContain("  web ");
    // It has joined; the other machine has not.
    expect(said).not.toContain("as machine-2");
    expect(said).toContain("as machine-3");
    expect(await run.stop()).toBe(0);
    expect(await accepts(Number(ports[0]))).toBe(false);
  }, 60_000);

  it("says what of its arguments cannot be used, and makes nothing", async () => {
    const [port = "", routerPort = ""] = ports;
    const taken = String((web.address() as AddressInfo).port);
    const none = join(folder, "none");
    for (const [args, code, message] of [
      [["--host", "no-such-host.invalid"], 1, "cannot be resolved on this machine: choose a name"],
      [["--host", "localhost", "--port", taken], 1, `--port ${taken} cannot be used: another program listens there`],
      [["--host", "localhost", "--port", port, "--router-port", port], 2, "must differ"],
      [["--port", "0"], 2, "Expected a whole number from 1"],
      [["--expose", "nothing"], 2, "--expose expects"],
      [["--expose", "80", "--expose", "localhost:80"], 2, "two services would be called 'port-80'"],
      [["--router-port", routerPort, "x"], 2, "too many arguments"],
    ] as const) {
      const { code: found, errors } = await cli.run("quickstart", "--dir", none, ...args);
      expect([found, errors], args.join(" ")).toEqual([code, expect.stringContaining(message)]);
      expect(existsSync(join(none, "quickstart.json"))).toBe(false);
    }
    for (const [dir, message] of [
      ["/proc/none", "the folder /proc/none cannot be made"],
      [cli.main, "is not a folder"],
    ] as const)
      expect((await cli.run("quickstart", "--dir", dir)).errors).toContain(message);
    const homeless = await cli.runWith({ input: "", env: { HOME: "", XDG_DATA_HOME: "" } }, "quickstart");
    expect(homeless.errors).toContain("HOME is not set; choose one with --dir DIR");
    const alone = await cli.runWith({ input: "", env: { PATH: "/usr/bin:/bin" } }, "quickstart", "--dir", none);
    expect(alone.errors).toContain("sallyport-controller is not installed");
  });
});
