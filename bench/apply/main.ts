/**
 * `sallyport apply` of a whole network at once, on our controller with PostgreSQL: packed, as users have it. One line of JSON per figure, with its target (docs/benchmarks.md).
 *
 *     npm run bench:apply                 1,000 resources
 *     npm run bench:apply -- --count 100  so many
 *     npm run bench:apply -- --check      exits with 1 when a target is missed
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Cli } from "../../e2e/network/cli.ts";
import { startNetwork } from "../../e2e/network/network.ts";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import { emit, median, missed } from "../dataplane/figure.ts";

const { values: options } = parseArgs({ options: { count: { type: "string" }, check: { type: "boolean" } } });

const RUNS = 5;

/** A service with its config, an identity and a policy in turn: each refers to the others. */
function declared(count: number, port: number): string {
  const made = Array.from({ length: count }, (_, at) => {
    const group = Math.floor(at / 4);
    const ref = (kind: string) => [{ name: `${kind}-${group}` }];
    const of = (kind: string, name: string, spec: object) =>
      JSON.stringify({ apiVersion: "sallyport.dev/v1alpha1", kind, metadata: { name: `${name}-${group}` }, spec });
    switch (at % 4) {
      case 0:
        return of("ServiceConfig", "config", {
          type: "host.v1",
          data: { protocol: "tcp", address: "localhost", port },
        });
      case 1:
        return of("OverlayService", "service", { configRefs: ref("config"), roleAttributes: ["web"] });
      case 2:
        return of("Identity", "identity", { roleAttributes: ["clients"] });
      default: {
        const policy = { type: "Dial", semantic: "AnyOf", serviceRefs: ref("service"), identityRefs: ref("identity") };
        return of("ServicePolicy", "policy", policy);
      }
    }
  });
  return made.join("\n---\n");
}

async function main(): Promise<void> {
  const count = Number(options.count ?? 1_000);
  const folder = makeScratch("bench-apply");
  const cli = await Cli.packed(folder);
  const network = await startNetwork(join(folder, "network"));
  try {
    const passwordFile = join(folder, "password");
    writeFileSync(passwordFile, network.adminPassword, { mode: 0o600 });
    const { output } = await network.runToEnd("controller", "pki", "status", network.controllerFile);
    const [, fingerprint = ""] = /SHA-256 ([0-9A-F:]+)/.exec(output) ?? [];
    const login = ["login", `https://localhost:${network.port}`, "-u", "admin", "--password-file", passwordFile];
    await cli.done(...login, "--fingerprint", fingerprint);
    const [file, changed] = [join(folder, "network.yml"), join(folder, "changed.yml")];
    writeFileSync(file, declared(count, 80));
    writeFileSync(changed, declared(count, 81));
    const seconds = async (status: number, ...args: string[]): Promise<number> => {
      const begin = performance.now();
      const { code, errors } = await cli.run(...args);
      if (code !== status) throw new Error(`sallyport ${args.join(" ")} ended with ${code}: ${errors.slice(0, 500)}`);
      return (performance.now() - begin) / 1_000;
    };
    const often = async (...args: string[]): Promise<number> => {
      const values: number[] = [];
      for (let run = 0; run < RUNS; run++) values.push(await seconds(0, ...args));
      return median(values);
    };
    const of = `${count} resources`;
    const row = (figure: string, value: number, target?: number): void =>
      emit({ figure, of, unit: "s", value, ...(target !== undefined && { target: { atMost: target } }) });
    row("apply, the first time", await seconds(0, "apply", "-f", file), (10 * count) / 1_000);
    row("apply, unchanged", await often("apply", "-f", file), Math.max(2 * (count / 1_000), 1));
    row("diff, unchanged", await often("diff", "-f", file));
    row("apply, a quarter changed", await seconds(0, "apply", "-f", changed));
    row("export", await often("export"));
  } finally {
    await network.stop();
    removeScratch(folder);
  }
  if (options.check === true && missed().length > 0) process.exitCode = 1;
}

await main();
