import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { libraryTarballs } from "../../scripts/release/npm-tarballs.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { type NpmRegistry, npmEnvironment, startNpmRegistry } from "../network/npm-registry.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PAGE = readFileSync(join(ROOT, "docs/start/application.md"), "utf8");
/** The programs of the page, by their file names. */
const PROGRAMS = new Map(
  [...PAGE.matchAll(/`(\w+\.ts)`[^`]*:\n\n```ts\n([\s\S]*?)```/g)].map(([, name, text]) => [name ?? "", text ?? ""]),
);
const COMPILERS = [
  { version: "5.9", tsc: join(ROOT, "e2e/node_modules/typescript/bin/tsc") },
  { version: "7", tsc: join(ROOT, "node_modules/typescript/bin/tsc") },
] as const;
/** Strict, and with every library checked: what is not said here is TypeScript's default. */
const OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  target: "es2023",
  module: "nodenext",
  types: ["node"],
};
/** More than the page shows: the tunnel library, a module of CommonJS, and wrong calls. */
const FURTHER = {
  "tunneler.ts": `import { ProxyInterceptor, Tunneler } from "@sallyport/tunnel";
import { AuthenticationError, SdkOverlay } from "@sallyport/tunnel/sdk";

export const load = async (file: string): Promise<SdkOverlay | undefined> =>
  await SdkOverlay.load(file).catch((error: unknown) => {
    if (error instanceof AuthenticationError) return undefined;
    throw error;
  });
export const parts = [Tunneler, ProxyInterceptor];
`,
  "common.cts": `import sdk = require("@sallyport/sdk");
console.log(typeof sdk.Context.load, sdk.SdkError.name);
`,
  // What the types have to refuse.
  "wrong.ts": `import { Context, type EdgeConnection } from "@sallyport/sdk";

const context = await Context.load("me.json");
// @ts-expect-error
const connection: EdgeConnection = await context.dial(80);
// @ts-expect-error
const port: number = connection.callerId;
export { port };
`,
};

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly output: string;
}

describe("the built packages outside of the repository", { timeout: 120_000 }, () => {
  const folder = makeScratch("sdk-outside");
  const project = join(folder, "project");
  const inProject = (...path: string[]) => join(project, ...path);
  let registry: NpmRegistry;
  let network: Network;

  const run = (command: string, args: readonly string[], env = process.env): Promise<Ended> =>
    new Promise((resolve) => {
      execFile(command, args, { cwd: project, env }, (error, stdout, stderr) => {
        resolve({ status: error === null ? 0 : Number(error.code), stdout, output: `${stdout}${stderr}` });
      });
    });
  beforeAll(async () => {
    const started = startNetwork(join(folder, "network"));
    started.catch(() => {});
    mkdirSync(project);
    writeFileSync(inProject("package.json"), JSON.stringify({ name: "outside", private: true, type: "module" }));
    // `make check` has the types checked.
    const tarballs = libraryTarballs({
      root: ROOT,
      version: "0.1.0",
      madeAt: 0,
      folder: join(folder, "compiled"),
      isChecked: true,
    });
    for (const { file, bytes } of tarballs) writeFileSync(join(folder, file), bytes);
    registry = await startNpmRegistry();
    const files = tarballs.map(({ file }) => `../${file}`);
    const env = npmEnvironment(process.env, { url: registry.url, folder });
    const npm = await run(
      "npm",
      ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...files, "@types/node"],
      env,
    );
    if (npm.status !== 0) throw new Error(`npm could not install the tarballs:\n${npm.output}`);
    for (const [name, text] of [...PROGRAMS, ...Object.entries(FURTHER)]) writeFileSync(inProject(name), text);
    network = await started;
  }, 180_000);

  afterAll(async () => {
    await registry?.close();
    await network?.stop();
    removeScratch(folder);
  }, 60_000);

  it("install from files, and ask a registry for no package of this repository", () => {
    expect(registry.asked).toContain("zod");
    expect(registry.asked.filter((name) => name.startsWith("@sallyport/"))).toEqual([]);
    const { packages } = JSON.parse(readFileSync(inProject("package-lock.json"), "utf8")) as { packages: object };
    const own = Object.keys(packages).filter((path) => path.includes("@sallyport/"));
    expect(own).toEqual(["node_modules/@sallyport/sdk", "node_modules/@sallyport/tunnel"]);
  });

  it.each(COMPILERS)("compile in strict TypeScript $version, all declarations checked", async ({ version, tsc }) => {
    expect((await run(process.execPath, [tsc, "--version"])).output).toMatch(new RegExp(`^Version ${version}\\.`));
    expect([...PROGRAMS.keys()]).toEqual(["enroll.ts", "server.ts", "client.ts"]);
    const config = inProject(`tsconfig-${version}.json`);
    const files = [...PROGRAMS.keys(), ...Object.keys(FURTHER)];
    writeFileSync(config, JSON.stringify({ compilerOptions: { ...OPTIONS, outDir: `built-${version}` }, files }));
    expect(await run(process.execPath, [tsc, "-p", config])).toMatchObject({ status: 0, output: "" });
    expect((await run(process.execPath, [`built-${version}/common.cjs`])).output).toBe("function SdkError\n");
  });

  it("run the programs of the page docs/start/application.md on a network", async () => {
    const { management } = network;
    const semantic = "AllOf";
    await management.createService({ body: { name: "hello", roleAttributes: ["web"], encryptionRequired: true } });
    for (const [name, role, type] of [
      ["alice", "clients", "Dial"],
      ["bob", "servers", "Bind"],
    ] as const) {
      const body = { name, isAdmin: false, roleAttributes: [role as string], enrollment: { ott: true } };
      const { data } = await management.createIdentity({ body: { ...body, type: "Device" } });
      const detail = await management.detailIdentity({ params: { id: data.id } });
      writeFileSync(inProject(`${name}.jwt`), detail.data.enrollment.ott?.jwt ?? "");
      const roles = { identityRoles: [`#${role}`], serviceRoles: ["#web"] };
      await management.createServicePolicy({ body: { name: role, type, semantic, ...roles } });
    }
    const edgeRouterRoles = ["#all"];
    await management.createEdgeRouterPolicy({
      body: { name: "all", semantic, identityRoles: ["#all"], edgeRouterRoles },
    });
    await management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic, serviceRoles: ["#all"], edgeRouterRoles },
    });

    expect(await run(process.execPath, ["enroll.ts", "alice", "bob"])).toMatchObject({ status: 0, output: "" });
    const server = new Program({
      name: "server",
      command: process.execPath,
      args: ["server.ts"],
      cwd: project,
      logFile: join(folder, "server.log"),
    });
    try {
      await server.line(/^hosting hello$/);
      expect(await run(process.execPath, ["client.ts"])).toMatchObject({ status: 0, output: "hello, alice\n" });
    } finally {
      await server.stop();
    }
  });

  it("bring the tunneler", async () => {
    const { stdout } = await run(process.execPath, ["node_modules/.bin/sallyport-tunnel", "--version"]);
    expect(stdout).toMatch(/^sallyport-tunnel 0\.1\.0 \(protocol /);
  });
});
