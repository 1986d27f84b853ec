/** `sallyport quickstart` as its user runs it, on loopback. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli } from "../../network/cli.ts";
import { alive } from "../../network/processes.ts";
import { accepts, Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("quickstart");
const inFolder = (...path: string[]) => joinPath(folder, ...path);
const home = inFolder("network");
const machine = inFolder("machine-2");
const BIN = joinPath(import.meta.dirname, "../../../node_modules/.bin");
let cli: Cli;
let ports: string[];
let web: Server;
let running: Program | undefined;
let joined: Program | undefined;

beforeAll(async () => {
  const packed = await Cli.packed(folder);
  // The programs of a network are those of this repository.
  cli = new Cli(packed.main, folder, { PATH: `${BIN}:${process.env.PATH}` });
  ports = (await freePorts(2)).map(String);
  web = createServer((_request, response) => response.end("from the first machine\n"));
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
}, 60_000);

afterAll(async () => {
  await joined?.stop();
  await running?.stop();
  web?.close();
  removeScratch(folder);
}, 60_000);

function start(...args: string[]): Program {
  const [port = "", routerPort = ""] = ports;
  const options = ["--dir", home, "--host", "localhost", "--port", port, "--router-port", routerPort];
  running = programOf("quickstart", ["quickstart", ...options, ...args]);
  return running;
}

function programOf(name: string, args: readonly string[]): Program {
  return new Program({
    name,
    command: process.execPath,
    args: [cli.main, ...args],
    env: cli.env as Record<string, string>,
  });
}

/** The second machine joins, or goes on. */
function join(...token: string[]): Program {
  const args = ["quickstart", "--dir", machine, "--no-intercept", "--join", ...token];
  joined = programOf("join", args);
  return joined;
}

const readToken = (name: string): string => readFileSync(inFolder("network", "tokens", `${name}.jwt`), "utf8").trim();

const pidOf = (program: string): number => Number.parseInt(readFileSync(joinPath(home, `${program}.pid`), "utf8"), 10);

describe("a quick start", () => {
  it("that is killed at any step is finished by the next run, which stops what has gone on", async () => {
    const expose = `web=${(web.address() as AddressInfo).port}`;
    // In the middle of making the controller, and when both programs run.
    const steps: [(run: Program) => Promise<void>, string[]][] = [
      [async (run) => await run.ready("init", async () => existsSync(joinPath(home, "controller", "secret.key"))), []],
      [
        async (run) => await run.ready("the router", async () => existsSync(joinPath(home, "router.pid"))),
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
    const interrupted = start("--expose", expose);
    await interrupted.line(/^controller ready/);
    interrupted.signal("SIGINT");
    expect(await interrupted.exited).toBe(130);
    expect(interrupted.tail.at(-1)).toBe(
      "sallyport: stopped before the network was complete: run the command again to go on",
    );
    const run = start("--expose", expose);
    await run.line(/^The network runs/);
    // The system forgets a process that has ended a moment later.
    await expect.poll(() => alive(left), { timeout: 10_000 }).toEqual([]);
    expect(run.tail.join("\n")).toMatch(/ {2}web {2}127\.0\.0\.1:\d+ {2}web\.sallyport\.internal:\d+/);
  }, 120_000);

  it("is logged in to, and has a service that another machine reaches after it has joined with a token", async () => {
    expect(await cli.done("get", "identities", "-o", "name")).toContain("identity/machine-2\n");
    expect(await cli.done("networks")).toMatch(/\* +quickstart/);
    const first = join(readToken("machine-2"));
    const [, id = ""] = /for identity (\S+), until 20/.exec(await first.line(/^token of the network/)) ?? [];
    const line = await first.line(/^web is at localhost:\d+$/);
    expect(first.tail).toContain(`joined https://localhost:${ports[0]} as machine-2`);
    const page = async () => (await fetch(`http://${line.replace("web is at ", "")}/`)).text();
    await expect.poll(page, { timeout: 20_000 }).toBe("from the first machine\n");
    expect(await first.stop()).toBe(0);
    // Without the token, on the same port.
    const second = join();
    await second.line(new RegExp(`^${line}$`));
    await expect.poll(page, { timeout: 20_000 }).toBe("from the first machine\n");
    expect(second.tail.join("\n")).not.toContain("token of the network");
    expect(await second.stop()).toBe(0);
    const other = await cli.run("quickstart", "--dir", machine, "--join", readToken("machine-3"));
    expect([other.code, other.errors]).toEqual([
      1,
      expect.stringContaining(`as identity ${id} in ${machine}: join as`),
    ]);
  }, 60_000);

  it("takes a further router, which a machine becomes with the token of one", async () => {
    const token = await cli.done("create", "edge-router", "r2", "-o", "jsonpath=$.enrollmentJwt");
    const [port = ""] = (await freePorts(1)).map(String);
    const args = ["quickstart", "--dir", inFolder("r2"), "--host", "localhost", "--router-port", port];
    joined = programOf("router", [...args, "--join", token.trim()]);
    await joined.line(/^connected to the controller at tls:localhost:/);
    expect(joined.tail.join("\n")).toContain(`listens at tls:localhost:${port}\n`);
    expect(await cli.done("get", "edge-router", "r2", "-o", "jsonpath=$.isOnline")).toBe("true\n");
    expect(await joined.stop()).toBe(0);
    const other = await cli.run("quickstart", "--dir", inFolder("r2"), "--host", "127.0.0.1", "--join");
    expect([other.code, other.errors]).toEqual([
      2,
      expect.stringContaining(`has joined as localhost, port ${port}: omit`),
    ]);
  }, 60_000);

  it("has tokens of which each that cannot be redeemed is refused with the reason", async () => {
    const token = readToken("machine-2");
    const [head = "", claims = "", signature = ""] = readToken("machine-3").split(".");
    const changed = (change: Record<string, unknown>) => {
      const all = { ...JSON.parse(Buffer.from(claims, "base64url").toString()), ...change };
      return [head, Buffer.from(JSON.stringify(all)).toString("base64url"), signature].join(".");
    };
    const garbage = inFolder("garbage");
    writeFileSync(garbage, "no token\u001b[2J");
    for (const [given, message] of [
      [token, "The token was used before"],
      [changed({ sub: "someone-else" }), "was not signed by the server"],
      [changed({ exp: 1 }), "the token ended at 1970-01-01T00:00:01.000Z, and the clock of this machine shows 20"],
      [changed({ em: "ottca" }), "enrolls by 'ottca': expected a one-time token"],
      [changed({ iss: "https://localhost:9" }), "localhost:9"],
      [changed({ iss: "http://localhost" }), "is no enrollment token"],
      ["a.b.c", "the text after --join is no enrollment token"],
      [garbage, `${garbage} is no enrollment token`],
      [inFolder("no-file"), "cannot read"],
    ] as const) {
      const { code, errors } = await cli.run("quickstart", "--dir", inFolder("refused"), "--join", given);
      expect([code, errors], given).toEqual([1, expect.stringContaining(message)]);
    }
    const nothing = await cli.run("quickstart", "--dir", inFolder("nothing"), "--join");
    expect([nothing.code, nothing.errors]).toEqual([1, expect.stringContaining("nothing has joined a network in")]);
    const router = await cli.run(
      "quickstart",
      "--dir",
      inFolder("nothing"),
      "--host",
      "a",
      "--join",
      readToken("machine-3"),
    );
    expect([router.code, router.errors]).toEqual([2, expect.stringContaining("are for the token of an edge router")]);
    const both = await cli.run("quickstart", "--join", token, "--expose", "80");
    expect([both.code, both.errors]).toEqual([
      2,
      expect.stringContaining("--expose is for a network that is made here"),
    ]);
  }, 60_000);

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
    writeFileSync(inFolder("index.html"), "a served page");
    const run = start("--expose", "more=[::1]:9", "--serve", `files=${folder}`);
    await run.line(/^The network runs/);
    const said = run.tail.join("\n");
    const [, files] = / {2}files +(127\.0\.0\.1:\d+) +files\.sallyport\.internal/.exec(said) ?? [];
    expect(await (await fetch(`http://${files}/`)).text()).toBe("a served page");
    expect(said).toMatch(/ {2}more +::1:9 +no program listens there yet/);
    expect(said).toContain("  web ");
    // It has joined; the other machine has not.
    expect(said).not.toContain("as machine-2");
    expect(said).toContain("as machine-3");
    expect(said).toContain(`--join FILE, a copy of ${inFolder("network", "tokens", "machine-3.jwt")}`);
    expect(said).not.toContain(readToken("machine-3"));
    expect(await run.stop()).toBe(0);
    expect(await accepts(Number(ports[0]))).toBe(false);
  }, 60_000);

  it("that begins at the same moment as another one has ports of its own", async () => {
    const runs = ["first", "second"].map((name) =>
      programOf(name, ["quickstart", "--dir", inFolder(name), "--host", "localhost"]),
    );
    try {
      const ready = await Promise.all(
        runs.map(async (run) => [await run.line(/^controller ready/), await run.line(/^router ready/)]),
      );
      const chosen = ready.flat().map((line) => /:(\d+)$/.exec(line)?.[1]);
      expect(new Set(chosen).size).toBe(4);
      await Promise.all(runs.map((run) => run.line(/^The network runs/)));
    } finally {
      await Promise.all(runs.map((run) => run.stop()));
    }
  }, 120_000);

  it("says what of its arguments cannot be used, and makes nothing", async () => {
    const [port = "", routerPort = ""] = ports;
    const taken = String((web.address() as AddressInfo).port);
    const none = inFolder("none");
    for (const [args, code, message] of [
      [["--host", "no-such-host.invalid"], 1, "cannot be resolved on this machine: choose a name"],
      [["--host", "localhost", "--port", taken], 1, `--port ${taken} cannot be used: another program listens there`],
      [["--host", "localhost", "--port", port, "--router-port", port], 2, "must differ"],
      [["--token-dir", ""], 2, "--token-dir expects a folder, found ''"],
      [["--join", ""], 2, "--join expects the text of a token, a file, or - for the standard input; found ''"],
      [["--port", "9", "--port", "10"], 2, "--port was given twice"],
      [["--port", "0"], 2, "Expected a whole number from 1"],
      [["--expose", "nothing"], 2, "--expose expects"],
      [["--expose", "80", "--expose", "localhost:80"], 2, "two services would be called 'port-80'"],
      [["--router-port", routerPort, "x"], 2, "too many arguments"],
    ] as const) {
      const { code: found, errors } = await cli.run("quickstart", "--dir", none, ...args);
      expect([found, errors], args.join(" ")).toEqual([code, expect.stringContaining(message)]);
      expect(existsSync(joinPath(none, "quickstart.json"))).toBe(false);
    }
    for (const [dir, message] of [
      [folder, "has files of something else, such as"],
      ["/proc/none", "the folder /proc/none cannot be made"],
      [cli.main, "is not a folder"],
    ] as const)
      expect((await cli.run("quickstart", "--dir", dir)).errors).toContain(message);
    const nowhere = await cli.run("quickstart", "--dir", "");
    expect([nowhere.code, nowhere.errors]).toEqual([2, expect.stringContaining("--dir expects a folder, found ''")]);
    const homeless = await cli.runWith({ input: "", env: { HOME: "", XDG_DATA_HOME: "" } }, "quickstart");
    expect(homeless.errors).toContain("HOME is not set; choose one with --dir DIR");
    const unknown = await cli.runWith(
      { input: "", env: { HOME: "", SALLYPORT_CONFIG_DIR: "", XDG_CONFIG_HOME: "" } },
      ...["quickstart", "--dir", none],
    );
    expect(unknown.errors).toContain("there is no folder for the logins: HOME is not set");
    const alone = await cli.runWith({ input: "", env: { PATH: "/usr/bin:/bin" } }, "quickstart", "--dir", none);
    expect(alone.errors).toContain("sallyport-controller is not installed");
  });
});
