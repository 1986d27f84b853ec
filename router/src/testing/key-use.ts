import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");

/**
 * Finds the configuration keys that the router's code uses. Each key gets a type that fits nowhere, and the compiler's errors name the keys whose values
 * are used. An object that is passed on as a whole shows one key at a time, so the compiler runs again until no new key appears.
 *
 * It cannot see a boolean that is only a condition, arithmetic, or a key whose name is made at run time.
 *
 * @param wanted keys as `link.dialers[].split`, `listeners[edge].options.mtu`
 */
export async function usedKeys(wanted: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const folder = await mkdtemp(join(tmpdir(), "sallyport-key-use-"));
  const used = new Set<string>();
  try {
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(project(folder)));
    for (;;) {
      await writeFile(join(folder, "config.ts"), tracedConfig(used));
      const before = used.size;
      for (const key of keysIn(await complaints(folder))) used.add(key);
      if (used.size === before || wanted.isSubsetOf(used)) return used;
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

function project(folder: string) {
  return {
    extends: join(ROOT, "tsconfig.json"),
    compilerOptions: {
      noErrorTruncation: true,
      typeRoots: [join(ROOT, "node_modules/@types")],
      paths: { "@sallyport/router-config": [join(folder, "config.ts")] },
    },
    include: [join(ROOT, "router/src"), join(ROOT, "packages/sdk/src/**/*.d.ts")],
    exclude: [join(ROOT, "router/src/**/*.test.ts"), join(ROOT, "router/src/testing")],
  };
}

function complaints(folder: string): Promise<string> {
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  return new Promise((resolve) => {
    execFile(tsc, ["-p", folder], { maxBuffer: 64 * 1024 * 1024 }, (_status, stdout) => resolve(stdout));
  });
}

/** Keys whose own type is complained about; not those in the text of an object's type, nor those that something is assigned to. */
function keysIn(text: string): string[] {
  const sources = text.matchAll(
    /(?<!assignable to )(?:[Tt]ype|types|and) 'Key<"([^"]+)">(?:\[\])?(?: \| undefined)?'/g,
  );
  return [...sources].map(([, key = ""]) => key);
}

/** The package of the configuration with its types replaced. */
function tracedConfig(used: ReadonlySet<string>): string {
  const real = JSON.stringify(join(ROOT, "packages/router-config/src/index.ts"));
  const known = used.size === 0 ? "never" : [...used].map((key) => JSON.stringify(key)).join(" | ");
  return `import type * as real from ${real};
export * from ${real};

declare const key: unique symbol;
export interface Key<P extends string> { readonly [key]: P }

type Known = ${known};
type Leaf = string | number | boolean | { host: string; port: number } | { service: string; port: number };
/** The binding of a listener stays: by it the compiler tells them apart. */
type Traced<T, P extends string> = P extends Known ? T
  : T extends undefined ? T
  : unknown extends T ? Key<P>
  : T extends Leaf ? Key<P>
  : T extends readonly (infer E)[] ? (E extends Leaf ? Key<P> : Entry<E, P>[])
  : { [K in keyof T & string]: [P, K] extends [\`listeners[\${string}\`, "binding"] ? T[K] : Traced<T[K], P extends "" ? K : \`\${P}.\${K}\`> };
type Entry<E, P extends string> = E extends { binding: infer B extends string }
  ? Traced<E, P extends "listeners" ? \`listeners[\${B}]\` : \`\${P}[]\`>
  : E extends unknown ? Traced<E, \`\${P}[]\`> : never;

export type RouterConfig = Traced<real.RouterConfig, "">;
export type EdgeListenerConfig = Extract<RouterConfig["listeners"][number], { binding: "edge" }>;
export type LinkConfig = NonNullable<RouterConfig["link"]>;
export type LinkListenerConfig = LinkConfig["listeners"][number];
export type LinkDialerConfig = LinkConfig["dialers"][number];
export type ForwarderConfig = RouterConfig["forwarder"];
export type FlowConfig = RouterConfig["dialers"][number]["options"];
export type CsrConfig = NonNullable<RouterConfig["csr"]>;
export type LoadedRouterConfig = Omit<real.LoadedRouterConfig, "config"> & { readonly config: RouterConfig };
export declare function loadRouterConfig(...o: Parameters<typeof real.loadRouterConfig>): Promise<LoadedRouterConfig>;
export declare function parseRouterConfig(...o: Parameters<typeof real.parseRouterConfig>): LoadedRouterConfig;
`;
}
