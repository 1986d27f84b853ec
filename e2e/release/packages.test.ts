import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { npmEnvironment } from "../network/npm-registry.ts";
import { accepts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { ROOT } from "../scenarios/root.ts";
import { APPLICATION, WRONG } from "./application.ts";
import { hasRelease, RELEASE_FOLDER, VERSION } from "./offered.ts";

/** Major versions of Node that the libraries are promised to run on, oldest first. */
const NODES = ["22", "26"] as const;
/** Older than any package is promised to run on. */
const OLDER = "18";
/** What npm says when there is no registry that it could ask. */
const NO_REGISTRY = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ENOTCACHED)\b/;
const ENVIRONMENT_OF_USER = npmEnvironment(process.env);
const EVERYTHING = ["sdk", "tunnel", "controller", "router", "operator", "cli"];

describe.skipIf(!hasRelease)("the packages of a release, installed by npm into empty projects", () => {
  const scratch = makeScratch("release-packages");
  const project = (node: string, ...path: string[]) => join(scratch, `node-${node}`, ...path);
  const nodeOf = (node: string) => (node === "26" ? process.execPath : project(node, "node_modules/.bin/node"));
  let network: Network | undefined;
  let declared: DeclaredService;
  let why: string | undefined;

  const run = (command: string, args: readonly string[], cwd: string, env = process.env) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, {
      cwd,
      env,
      encoding: "utf8",
      timeout: 300_000,
    });
    if (error !== undefined) throw error;
    return { status, output: `${stdout}${stderr}`, stdout };
  };
  const install = (node: string, names: readonly string[], ...more: string[]): string | undefined => {
    mkdirSync(project(node));
    writeFileSync(project(node, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
    const tarballs = names.map((name) => join(RELEASE_FOLDER, "npm", `sallyport-${name}-${VERSION}.tgz`));
    const args = ["install", "--no-audit", "--no-fund", "--fetch-retries=1", ...tarballs, ...more];
    const { status, output } = run("npm", args, project(node), ENVIRONMENT_OF_USER);
    if (status === 0) return undefined;
    if (NO_REGISTRY.test(output)) return output.trim();
    throw new Error(`npm could not install the tarballs:\n${output}`);
  };

  beforeAll(async () => {
    // The programs need Node 26; on the oldest Node only libraries and the tunneler are promised.
    why =
      install("26", EVERYTHING) ?? install("22", ["tunnel", "sdk"], "node@22") ?? install(OLDER, [], `node@${OLDER}`);
    if (why !== undefined) {
      console.warn(`\n*** THE PACKAGES ARE NOT TESTED: npm has no registry to install what they need from: ${why}\n`);
      return;
    }
    network = await startNetwork(join(scratch, "network"), {
      programFile: (program) => project("26", "node_modules/@sallyport", program, "lib/main.js"),
    });
    declared = await declareService(network, { name: "echo" });
    for (const node of NODES) writeFileSync(project(node, "application.ts"), APPLICATION);
  });
  afterAll(async () => {
    await network?.stop();
    removeScratch(scratch);
  });

  test.for(NODES)(
    "an application on Node %s hosts and dials a service of a network of the packed programs",
    (node, context) => {
      if (why !== undefined) return context.skip(why);
      const compiled = compile(node, "application.ts", "--outDir", "built");
      expect(compiled.output).toBe("");
      const { output } = run(
        nodeOf(node),
        ["built/application.js", declared.hostFile, declared.clientFile],
        project(node),
      );
      expect(output).toMatch(new RegExp(`^v${node}\\.\\S+ 1000000 true\nSERVICE_NOT_AVAILABLE\n$`));
    },
  );

  test("types are those of the SDK: a wrong call is found by the compiler", (context) => {
    if (why !== undefined) return context.skip(why);
    writeFileSync(project("26", "wrong.ts"), WRONG);
    const { status, output } = compile("26", "wrong.ts");
    expect(status).not.toBe(0);
    expect(output).toContain(
      "wrong.ts(4,20): error TS2345: Argument of type 'number' is not assignable to parameter of type 'string'",
    );
  });

  test.for(NODES)("the tunneler on Node %s takes connections to the service", async (node, context) => {
    if (why !== undefined) return context.skip(why);
    const port = await freePort();
    const program = (name: string, ...args: string[]) =>
      new Program({
        name,
        command: nodeOf(node),
        args,
        cwd: project(node),
        logFile: join(scratch, `${name}-${node}.log`),
      });
    const host = program("host", "built/application.js", declared.hostFile, declared.clientFile, "serve");
    const main = "node_modules/@sallyport/tunnel/lib/main.js";
    const tunneler = program("tunneler", main, "proxy", "-i", declared.clientFile, `echo:${port}`);
    try {
      await host.line(/^serving$/);
      await tunneler.ready("its port", () => accepts(port));
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      await once(socket, "connect");
      socket.end("through the tunneler");
      expect(await text(socket)).toBe("through the tunneler");
    } finally {
      await tunneler.stop();
      await host.stop();
    }
  });

  test("every program prints its version", (context) => {
    if (why !== undefined) return context.skip(why);
    const told = (node: string, name: string) =>
      run(nodeOf(node), [project(node, `node_modules/@sallyport/${name}/lib/main.js`), "--version"], project(node))
        .stdout;
    for (const name of ["controller", "router", "operator", "tunnel"]) expect(told("26", name)).toContain(VERSION);
    expect(told("22", "tunnel")).toContain(VERSION);
    for (const name of ["controller", "router", "operator", "tunnel"]) {
      // As a user starts it, with this Node on the PATH.
      const env = { ...process.env, PATH: `${join(process.execPath, "..")}:${process.env.PATH}` };
      const started = spawnSync(project("26", `node_modules/.bin/sallyport-${name}`), ["--version"], {
        encoding: "utf8",
        env,
      });
      expect(started.stdout, started.stderr).toContain(VERSION);
    }
  });

  test("every program on an older Node says in one line what it needs, and exits with 1", (context) => {
    if (why !== undefined) return context.skip(why);
    const cases = [
      { node: NODES[0], names: ["controller", "router", "operator", "cli"], needs: "26" },
      { node: OLDER, names: ["controller", "router", "operator", "cli"], needs: "26" },
      { node: OLDER, names: ["tunnel"], needs: "22" },
    ];
    for (const { node, names, needs } of cases) {
      const env = { ...process.env, PATH: `${join(nodeOf(node), "..")}:${process.env.PATH}` };
      for (const name of names) {
        const program = name === "cli" ? "sallyport" : `sallyport-${name}`;
        const file = project("26", "node_modules/.bin", program);
        const { status, stdout, stderr } = spawnSync(file, ["--help"], { encoding: "utf8", env });
        const line = `^${program} needs Node ${needs}\\.x or later; this is v${node}\\.\\S+ \\(.*\\); get it .*\n$`;
        expect(stderr).toMatch(new RegExp(line));
        expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
      }
    }
  });

  test("every package brings its licence and says what it needs", (context) => {
    if (why !== undefined) return context.skip(why);
    const license = readFileSync(join(ROOT, "LICENSE"), "utf8");
    for (const name of EVERYTHING) {
      const home = project("26", "node_modules/@sallyport", name);
      expect(readFileSync(join(home, "LICENSE"), "utf8")).toBe(license);
      expect(readFileSync(join(home, "README.md"), "utf8")).toMatch(/^# @sallyport\//);
      const manifest = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
      expect(manifest).toMatchObject({ version: VERSION, license: "Apache-2.0", type: "module" });
      expect(manifest.engines.node).toBe(name === "sdk" || name === "tunnel" ? ">=22" : ">=26");
      expect(manifest).not.toHaveProperty("private");
      expect(manifest).not.toHaveProperty("devDependencies");
    }
  });

  /** By the compiler of the repository, without anything of it but the types of Node. All declarations are checked once: they are the same in both projects. */
  function compile(node: string, file: string, ...more: string[]) {
    const strict = ["--strict", "--target", "es2023", "--module", "nodenext"];
    if (node !== NODES[0]) strict.push("--skipLibCheck");
    const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules/@types")];
    const emit = more.length > 0 ? more : ["--noEmit"];
    return run(join(ROOT, "node_modules/.bin/tsc"), [...strict, ...types, ...emit, file], project(node));
  }
});
