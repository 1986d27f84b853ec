/** A new user with a release and three machines without Node and npm. Run by `../new-user.test.ts`, in namespaces. */
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Host, hasNamespaces, Site } from "../../namespaces/network-namespace.ts";
import type { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { hasRelease, RELEASE_FOLDER } from "../offered.ts";

const BYTES = "bytes of the first machine\n";
/** What is promised on two idle cores is a minute; they are seldom idle here. */
const LIMIT_S = 240;

describe.skipIf(!hasRelease || !hasNamespaces)("a new user with three machines", () => {
  const site = new Site();
  const folder = makeScratch("new-user");
  const machines: Host[] = [];
  let commands = 0;

  beforeAll(async () => {
    const middle = await site.host("switch");
    await middle.ip("link", "add", "br0", "type", "bridge");
    await middle.ip("link", "set", "br0", "up");
    for (const number of [1, 2, 3]) {
      const machine = await site.host(`m${number}`);
      const { b } = await site.cable(machine, `10.77.0.${number}/24`, middle, []);
      await middle.ip("link", "set", b.device, "master", "br0");
      await machine.ip("route", "add", "default", "via", "10.77.0.254");
      machines.push(machine);
      for (const name of [prefixOf(machine), homeOf(machine)]) mkdirSync(name);
    }
    // The tunneler writes names there: into a copy, which this run alone sees.
    const hosts = join(folder, "hosts");
    copyFileSync("/etc/hosts", hosts);
    chmodSync(hosts, 0o644);
    execFileSync("mount", ["--bind", hosts, "/etc/hosts"]);
  });

  afterAll(async () => {
    await site.close();
    removeScratch(folder);
  });

  const prefixOf = (machine: Host) => join(folder, `${machine.label}-prefix`);
  const homeOf = (machine: Host) => join(folder, `${machine.label}-home`);

  /** The environment of a user with nothing but a system. */
  const asUser = (machine: Host, ...command: string[]): string[] => {
    const nft = (process.env.PATH ?? "").split(":").find((each) => existsSync(join(each, "nft"))) ?? "";
    const path = [join(prefixOf(machine), "bin"), nft, "/usr/sbin:/usr/bin:/sbin:/bin"].filter((each) => each !== "");
    return ["-i", `HOME=${homeOf(machine)}`, "LANG=C.UTF-8", `PATH=${path.join(":")}`, ...command];
  };

  /** A command of the user that ends. */
  const type = async (machine: Host, ...command: string[]): Promise<string> => {
    commands += 1;
    return (await machine.run("env", ...asUser(machine, ...command))).stdout;
  };

  /** A command of the user that stays in the foreground. */
  const stays = (machine: Host, ...command: string[]): Program => {
    commands += 1;
    const [name = ""] = command;
    const logFile = join(folder, `${machine.label}-${name}.log`);
    return machine.start({ name, command: "env", args: asUser(machine, ...command), logFile });
  };

  const install = async (machine: Host): Promise<void> => {
    const script = join(RELEASE_FOLDER, "install.sh");
    await type(machine, "sh", script, "--from", RELEASE_FOLDER, "--prefix", prefixOf(machine));
  };

  /** Asks again until there is an answer. */
  const read = async (machine: Host, url: string): Promise<string> => {
    const script = `fetch(${JSON.stringify(url)}).then((r) => r.text()).then((t) => process.stdout.write(t))`;
    for (let count = 0; ; count++) {
      const { code, stdout, stderr } = await machine.attempt(process.execPath, "-e", script);
      if (code === 0) return stdout;
      if (count === 60) throw new Error(`${url} does not answer: ${stderr}`);
      await pause(500);
    }
  };

  const joined = async (program: Program): Promise<string> => {
    const line = await program.line(/^web is at /);
    const [, host, port] = /^web is at (\S+?)(?::|, port )(\d+)$/.exec(line) ?? [];
    return `http://${host}:${port}/`;
  };

  test("reaches a server of the first one from the second one, after four commands", async (context) => {
    const [first, second, third] = machines;
    if (first === undefined || second === undefined || third === undefined) throw new Error("there are three machines");
    const server = join(folder, "server.mjs");
    writeFileSync(
      server,
      `import { createServer } from "node:http";
       createServer((_request, response) => response.end(${JSON.stringify(BYTES)})).listen(8080, "127.0.0.1");`,
    );
    first.startNode("server", server);

    const started = performance.now();
    await install(first);
    const network = stays(first, "sallyport", "quickstart", "--expose", "web=8080");
    context.onTestFailed(() => console.log(network.tail.join("\n")));
    // As copied from one machine to the other.
    const [, token = ""] =
      /a copy of (.*machine-2\.jwt)$/.exec(await network.line(/a copy of .*machine-2\.jwt$/)) ?? [];
    await install(second);
    const join2 = stays(second, "sallyport", "quickstart", "--join", token);
    const url = await joined(join2);
    expect(await read(second, url)).toBe(BYTES);
    const seconds = (performance.now() - started) / 1_000;
    console.log(`a new user's service answered at ${url} after ${commands} commands and ${seconds.toFixed(1)} s`);
    expect(commands).toBeLessThanOrEqual(4);
    expect(seconds).toBeLessThan(LIMIT_S);

    // The third machine becomes a router, by which the second one goes on when the first router cannot be reached.
    await network.line(/^The network runs/);
    const router = await type(first, "sallyport", "create", "edge-router", "r2", "-o", "jsonpath=$.enrollmentJwt");
    await install(third);
    await stays(third, "sallyport", "quickstart", "--join", router.trim()).line(/^connected to the controller/);
    expect(await join2.stop()).toBe(0);
    await second.lose({ protocol: "tcp", port: 3022, address: "10.77.0.1" });
    const again = stays(second, "sallyport", "quickstart", "--join");
    expect(await joined(again)).toBe(url);
    expect(await read(second, url)).toBe(BYTES);
    expect(await again.stop()).toBe(0);
    expect(await network.stop()).toBe(0);
  });
});
