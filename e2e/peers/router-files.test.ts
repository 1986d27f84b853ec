import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { formatProblem } from "@sallyport/config-file";
import { loadRouterConfig } from "@sallyport/router-config";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const run = promisify(execFile);

describe.skipIf(peer.isMissing)("router files that OpenZiti's generator writes", () => {
  let scratch: string;
  beforeAll(() => {
    scratch = makeScratch("router-files");
  });
  afterAll(() => removeScratch(scratch));

  it.each([
    ["edge", []],
    ["edge", ["--tunnelerMode", "host"]],
    ["edge", ["--tunnelerMode", "proxy"]],
    ["edge", ["--tunnelerMode", "tproxy", "--lanInterface", "lo"]],
    ["edge", ["--tunnelerMode", "none"]],
    ["edge", ["--private"]],
    ["edge", ["--wss"]],
    ["edge", ["--wss", "--tunnelerMode", "none"]],
    ["fabric", []],
  ] as const)("%s %j: loads without complaint and means the same", async (kind, flags) => {
    const file = join(scratch, `${[kind, ...flags].join("-")}.yml`);
    const args = ["create", "config", "router", kind, "--routerName", "r1", "--output", file, ...flags];
    await run(peer.path, args, { cwd: scratch, env: { ...process.env, ZITI_HOME: scratch } });
    const text = await readFile(file, "utf8");
    const { config, warnings } = await loadRouterConfig(file);
    expect(warnings.map((warning) => formatProblem(warning, file))).toEqual([]);
    const bindings = config.listeners.map((listener) => listener.binding);
    expect(bindings.includes("tunnel")).toBe(/^ *- binding: tunnel/m.test(text));
    expect(bindings.includes("edge")).toBe(kind === "edge");
    expect(config.link?.listeners).toHaveLength((flags as readonly string[]).includes("--private") ? 0 : 1);
    expect(config.csr?.sans.ip).toEqual(["127.0.0.1", "::1"]);
    expect(config.ctrl.endpoints).toHaveLength(1);
    for (const listener of config.listeners) {
      const isWss = (flags as readonly string[]).includes("--wss");
      if (listener.binding === "edge") expect(listener.address.protocol).toBe(isWss ? "wss" : "tls");
      if (listener.binding === "tunnel")
        expect(listener.options.mode).toBe(/tproxy|proxy/.exec(flags.join())?.[0] ?? "host");
    }
  });
});
