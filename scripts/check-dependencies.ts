/**
 * The dependency rules of this repository, as data, and the check that holds the sources against them.
 * Run by `make check`; prints every broken rule and every second copy of `packages/async` with file and line, and every declared npm package that no source imports, and exits with 1.
 */
import { type Dirent, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { secondCopies } from "./second-copies.ts";

/** Files under `from` may import a place of the repository only if it starts with an entry of `may` (or is in `from` itself). */
export interface DependencyRule {
  readonly from: string;
  /** Repository paths (prefixes). */
  readonly may: readonly string[];
  /** Further paths that only `import type` may name. */
  readonly mayTypes?: readonly string[];
  /** Bare specifiers (npm packages, `node:` modules) that are allowed; every one when absent. */
  readonly packages?: readonly string[];
  /** Of further packages only these names. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  readonly why: string;
}

const ASYNC = "packages/async/";

const PURE = ["node:crypto", "node:buffer", "@sallyport/async", "@sallyport/wire"];

/** What the fabric and the model that feeds it agree on. */
const FABRIC_PORTS = ["controller/src/fabric/ports.ts", "controller/src/fabric/data-model/data-model-source.ts"];

/** What the pure parts of the operator may load: of Node and npm nothing that does I/O. */
const OPERATOR_PURE = [
  "node:crypto",
  "node:net",
  "yaml",
  "@sallyport/api",
  "@sallyport/async",
  "@sallyport/config-file",
  "@sallyport/wire",
  "@sallyport/router-config",
  "@sallyport/controller-config",
];

/** Parts of the operator's layers that are functions from values to values, and that plans may call. */
const ENTITY_PLANS = ["plan", "ownership", "references", "roles"].map((name) => `operator/src/entity/${name}.ts`);
const CHILD_PLANS = ["intent", "json-value", "owner-marks", "workload"].map(
  (name) => `operator/src/children/${name}.ts`,
);
const KUBE_VALUES = ["operator/src/kube/kinds.ts", "operator/src/kube/formats.ts"];

/** All that kinds of the operator may ask of one another. */
const KIND_INTERFACES = ["operator/src/kinds/network/interface.ts"];

/**
 * The layers of the operator from the bottom to the top (docs/operator/loop.md): `kube`, `resources`, `controller-client`, `children`, `loop`, `entity`, and on them
 * the kinds, which don't know each other.
 *
 * @param entries of the folder `operator/src/kinds`
 */
function operatorRules(entries: readonly Dirent[]): DependencyRule[] {
  const kinds = entries.filter((entry) => entry.isDirectory() && entry.name !== "testing").map(({ name }) => name);
  const layer = (name: string, below: readonly string[], why: string): DependencyRule => ({
    from: `operator/src/${name}/`,
    may: ["packages/", ...below.map((each) => `operator/src/${each}`)],
    why,
  });
  return [
    ...kinds.flatMap((kind): DependencyRule[] => {
      const own = `operator/src/kinds/${kind}/`;
      const render = `${own}render/`;
      return [
        {
          from: render,
          may: ["operator/src/resources/group.ts", ...CHILD_PLANS, ...KUBE_VALUES],
          mayTypes: [`${own}schema.ts`, ...KIND_INTERFACES],
          packages: OPERATOR_PURE,
          why: "renderers are pure: no I/O",
        },
        {
          from: `${own}plan`,
          may: [render, "operator/src/resources/group.ts", ...ENTITY_PLANS, ...CHILD_PLANS, ...KUBE_VALUES],
          mayTypes: [`${own}schema.ts`, "operator/src/children/", "operator/src/kube/", ...KIND_INTERFACES],
          packages: OPERATOR_PURE,
          why: "plans are pure: no I/O",
        },
        {
          from: own,
          may: [
            "packages/",
            ...["kube", "resources", "controller-client", "children", "loop", "entity"].map(
              (each) => `operator/src/${each}/`,
            ),
            ...KIND_INTERFACES,
          ],
          why: "a kind stands on the layers below; of other kinds it may use the stated interfaces only",
        },
      ];
    }),
    ...ENTITY_PLANS.map((from) => ({
      from,
      may: ENTITY_PLANS,
      packages: OPERATOR_PURE,
      why: "plans are pure: no I/O",
    })),
    layer("kube", [], "the Kubernetes machinery knows none of the kinds that it serves"),
    layer("resources", ["kube/kinds.ts"], "the vocabulary of our resources knows no kind and no machinery"),
    layer("controller-client", [], "a client of controllers knows nothing of resources"),
    layer("children", ["kube/", "resources/"], "what is done with children is the same for every kind"),
    layer(
      "loop",
      ["kube/", "resources/", "controller-client/", "children/"],
      "the loop is given the kinds; it imports none",
    ),
    layer(
      "entity",
      ["kube/", "resources/", "controller-client/", "loop/"],
      "what is done with one entity is the same for every kind",
    ),
  ];
}

/** The first rule whose `from` is a prefix of the file decides: special places stand before general ones. */
export const RULES: readonly DependencyRule[] = [
  { from: ASYNC, may: [], packages: [], why: "every package and program uses it, so it imports nothing" },
  {
    from: "packages/api/src/client/",
    may: [ASYNC, "packages/api/src/client/", "packages/api/src/errors.ts"],
    mayTypes: ["packages/api/"],
    packages: ["zod", "node:buffer", "node:http", "node:https", "node:tls"],
    why: "the client needs Node's own HTTPS and nothing else, and no schema: a program that only calls has no memory for them",
  },
  { from: "packages/api/", may: [], packages: ["zod"], why: "the contract imports only zod" },
  { from: "packages/wire/", may: [ASYNC], why: "packages import no program, and the wire knows no policy" },
  { from: "packages/sdk/", may: [ASYNC, "packages/api/", "packages/wire/"], why: "packages import no program" },
  {
    from: "packages/tunnel/",
    may: [
      ASYNC,
      "packages/api/",
      "packages/config-file/",
      "packages/router-config/",
      "packages/wire/",
      "packages/sdk/",
    ],
    why: "the tunneler reaches the network by the SDK or by an overlay that it is given",
  },
  {
    from: "packages/config-file/",
    may: [ASYNC],
    packages: ["node:fs/promises", "yaml", "zod"],
    why: "what all configuration files share knows none of them",
  },
  { from: "packages/", may: [ASYNC], why: "packages import no program" },
  {
    from: "controller/src/policy/",
    may: [],
    mayTypes: ["packages/api/"],
    packages: [...PURE, "semver"],
    names: { "@bufbuild/protobuf": ["MessageInitShape"] },
    why: "policy is pure: no I/O",
  },
  { from: "controller/src/pki/", may: [], packages: PURE, names: { "node:net": ["isIP"] }, why: "pki is pure: no I/O" },
  {
    from: "controller/src/http/",
    may: ["packages/"],
    mayTypes: ["controller/src/api/"],
    why: "http mounts the contract; it reaches handlers only by the table it is given",
  },
  {
    from: "controller/src/api/",
    may: [
      "packages/",
      "controller/src/model/",
      "controller/src/auth/",
      "controller/src/policy/",
      "controller/src/store/filter/filter-sql.ts",
    ],
    mayTypes: [
      "controller/src/http/",
      "controller/src/pki/",
      "controller/src/fabric/",
      "controller/src/store/schema.ts",
    ],
    why: "calls go one way: http -> api -> model -> store; of the store only a list's fields are declared here",
  },
  {
    from: "controller/src/model/",
    may: [
      "packages/",
      "controller/src/store/",
      "controller/src/policy/",
      "controller/src/pki/",
      "controller/src/auth/",
      ...FABRIC_PORTS,
    ],
    mayTypes: ["controller/src/events/types/event.ts"],
    why: "calls go one way: http -> api -> model -> store; the fabric is met by its ports only",
  },
  {
    from: "controller/src/auth/",
    may: ["packages/", "controller/src/store/", "controller/src/pki/", "controller/src/model/"],
    mayTypes: ["controller/src/events/types/event.ts"],
    why: "authentication sits beside the model",
  },
  { from: "controller/src/store/", may: ["packages/"], why: "the store is the bottom" },
  {
    from: "controller/src/fabric/",
    may: ["packages/"],
    why: "the fabric meets the model through events and its own ports",
  },
  {
    from: "controller/src/events/",
    may: ["packages/", "controller/src/store/", "controller/src/fabric/"],
    why: "events follow the change log and the fabric; nothing else is asked",
  },
  { from: "controller/", may: ["packages/", "controller/"], why: "a program never imports another program" },
  {
    from: "router/src/forwarder/",
    may: [ASYNC, "packages/wire/", "router/src/xgress/"],
    why: "the hot path knows neither configuration nor control nor metrics",
  },
  {
    from: "router/src/xgress/",
    may: [ASYNC, "packages/wire/", "router/src/forwarder/"],
    why: "the hot path knows neither configuration nor control nor metrics",
  },
  {
    from: "router/src/edge/",
    may: [
      ASYNC,
      "packages/wire/",
      "router/src/forwarder/",
      "router/src/xgress/",
      "router/src/control/control-plane.ts",
      "router/src/control/errors.ts",
    ],
    why: "the hot path knows control only as an interface and its errors",
  },
  {
    from: "router/src/tunnel/",
    may: ["packages/", "router/src/forwarder/", "router/src/xgress/", "router/src/control/"],
    why: "the tunneler is one more user of the fabric: configuration reaches it as values",
  },
  ...operatorRules(readdirSync(join(import.meta.dirname, "../operator/src/kinds"), { withFileTypes: true })),
  { from: "operator/", may: ["packages/", "operator/"], why: "a program never imports another program" },
  { from: "router/", may: ["packages/", "router/"], why: "a program never imports another program" },
];

/** Programs that only call the APIs take nothing but types of the contract: its schemas cost each some megabytes of memory. */
const CALLERS: DependencyRule = {
  from: "@sallyport/api",
  may: [],
  why: "who only calls the APIs takes values from @sallyport/api/client, which loads no schema",
};
const isCaller = (file: string): boolean => /^(packages\/(sdk|tunnel)|router|operator)\//.test(file);

/** What a program must not have loaded when it runs, however many files lie between: no file under `under` that imports `package`. */
export interface UnreachedRule {
  /** The program's first file. */
  readonly entry: string;
  readonly under: string;
  readonly package: string;
  readonly why: string;
}

export const UNREACHED: readonly UnreachedRule[] = [
  ...["operator/src/resources/", "operator/src/kinds/"].map((under) => ({
    entry: "operator/src/main.ts",
    under,
    package: "zod",
    why: "schemas of resources are for generators and tests: values come from resources/own-kinds.ts and group.ts, the rest is `import type`",
  })),
];

export interface BrokenRule {
  readonly file: string;
  readonly line: number;
  readonly specifier: string;
  readonly rule: DependencyRule;
}

/** An import or export of a module: group 2 or 3 is its specifier, group 1 is there for types only. */
export const IMPORT =
  /^[ \t]*(?:import|export)\s+(type\s+)?(?:[^"';]*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/gm;

/** Holds one source file against the rules; `file` is its path from the repository's root. */
export function brokenRules(file: string, source: string, rules: readonly DependencyRule[] = RULES): BrokenRule[] {
  const rule = rules.find((r) => file.startsWith(r.from));
  if (rule === undefined) return [];
  // Tests may reach for anything that they set up, but still never for another program.
  const isTest = file.endsWith(".test.ts") || file.includes("/testing");
  const program = `${file.split("/")[0]}/`;
  const broken: BrokenRule[] = [];
  for (const match of source.matchAll(IMPORT)) {
    const specifier = match[2] ?? match[3] ?? "";
    const isType = match[1] !== undefined;
    const target = repositoryPath(file, specifier);
    const line = source.slice(0, match.index).split("\n").length;
    if (specifier === CALLERS.from && isCaller(file) && !isType && !isTest) {
      broken.push({ file, line, specifier, rule: CALLERS });
    }
    const allowed = (): boolean => {
      if (target === undefined) {
        const name = specifier.startsWith("@")
          ? specifier.split("/").slice(0, 2).join("/")
          : (specifier.split("/")[0] ?? "");
        if (isTest || rule.packages === undefined || rule.packages.includes(specifier) || rule.packages.includes(name))
          return true;
        const names = rule.names?.[specifier];
        return names !== undefined && namesIn(match[0]).every((each) => names.includes(each));
      }
      if (target.startsWith(rule.from) || (isTest && (target.startsWith(program) || target.startsWith("packages/"))))
        return true;
      if (rule.may.some((prefix) => target.startsWith(prefix))) return true;
      if (rule.packages?.includes(specifier)) return true;
      return isType && (rule.mayTypes ?? []).some((prefix) => target.startsWith(prefix));
    };
    // A package of many (packages/x) must not reach into its neighbour by a relative path.
    const reachesOver =
      specifier.startsWith(".") && file.startsWith("packages/") && target?.split("/")[1] !== file.split("/")[1];
    if (!allowed() || reachesOver) {
      broken.push({ file, line, specifier, rule });
    }
  }
  return broken;
}

/**
 * Each way, file by file, on which a program loads what it must not. `import { type X }` counts: Node takes the name away and loads the file.
 * @param read the source of a file
 */
export function forbiddenWays(rule: UnreachedRule, read: (file: string) => string): string[][] {
  const found: string[][] = [];
  const seen = new Set([rule.entry]);
  const ways = [[rule.entry]];
  for (const way of ways) {
    const file = way.at(-1) ?? "";
    const imports = [...read(file).matchAll(IMPORT)].filter((match) => match[1] === undefined);
    const specifiers = imports.map((match) => match[2] ?? match[3] ?? "");
    if (file.startsWith(rule.under) && specifiers.includes(rule.package)) found.push(way);
    // Packages are not followed: none of them imports a program.
    for (const specifier of specifiers.filter((each) => each.startsWith("."))) {
      const target = normalize(join(dirname(file), specifier));
      if (!seen.has(target)) ways.push([...way, target]);
      seen.add(target);
    }
  }
  return found;
}

/** Import circles that remain, each by its first file. Do not add one: move what both sides need into a file of its own. */
const KNOWN_CIRCLES = ["packages/router-config/src/scalars.ts", "router/src/edge/data-circuit.ts"];

const MAX_LINES = 400;
const MAX_FILES_IN_FOLDER = 25;

/**
 * Groups of files that import each other in a circle, `import type` included. Each group is sorted; groups are sorted by their first file.
 * @param files every product file
 * @param read the source of a file
 */
export function importCircles(files: readonly string[], read: (file: string) => string): string[][] {
  const known = new Set(files);
  const targets = new Map(
    files.map((file) => {
      const specifiers = [...read(file).matchAll(IMPORT)].map((match) => match[2] ?? match[3] ?? "");
      const own = specifiers.filter((each) => each.startsWith(".")).map((each) => normalize(join(dirname(file), each)));
      return [file, own.filter((target) => known.has(target))] as const;
    }),
  );
  // Tarjan's strongly connected components.
  const order = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): number => {
    order.set(file, order.size);
    let low = order.size - 1;
    open.push(file);
    for (const target of targets.get(file) ?? []) {
      if (!order.has(target)) low = Math.min(low, visit(target));
      else if (open.includes(target)) low = Math.min(low, order.get(target) ?? low);
    }
    if (low === order.get(file)) {
      const group = open.splice(open.indexOf(file));
      if (group.length > 1 || (targets.get(file) ?? []).includes(file)) circles.push(group.sort());
    }
    return low;
  };
  for (const file of files) if (!order.has(file)) visit(file);
  return circles.sort(([a = ""], [b = ""]) => a.localeCompare(b));
}

/** What is too large: files of more than {@link MAX_LINES} lines, folders with more than {@link MAX_FILES_IN_FOLDER} files. */
export function tooLarge(files: readonly string[], read: (file: string) => string): string[] {
  const lines = files.map((file) => ({ file, count: read(file).split("\n").length - 1 }));
  const folders = Map.groupBy(files, dirname);
  return [
    ...lines
      .filter(({ count }) => count > MAX_LINES)
      .map(({ file, count }) => `${file}: ${count} lines, at most ${MAX_LINES}`),
    ...[...folders]
      .filter(([, inside]) => inside.length > MAX_FILES_IN_FOLDER)
      .map(
        ([folder, { length }]) =>
          `${folder}: ${length} files, at most ${MAX_FILES_IN_FOLDER}: make a folder for those that belong together`,
      ),
  ];
}

/** What an import statement names between its braces; `*` for one without. */
function namesIn(statement: string): string[] {
  const inBraces = /^[ \t]*import\s+(?:type\s+)?\{([^}]*)\}\s+from/.exec(statement)?.[1];
  if (inBraces === undefined) return ["*"];
  const names = inBraces.split(",").map(
    (name) =>
      name
        .trim()
        .replace(/^type\s+/, "")
        .split(/\s+as\s+/)[0] ?? "",
  );
  return names.filter((name) => name !== "");
}

/** Those of `declared` (npm packages) that none of the sources imports. */
export function unusedPackages(declared: readonly string[], sources: readonly string[]): string[] {
  const imported = new Set(
    sources.flatMap((source) => [...source.matchAll(IMPORT)].map((match) => match[2] ?? match[3])),
  );
  const isUsed = (name: string) => [...imported].some((each) => each === name || each?.startsWith(`${name}/`));
  return declared.filter((name) => !isUsed(name));
}

function repositoryPath(file: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return normalize(join(dirname(file), specifier));
  const own = /^@sallyport\/([^/]+)/.exec(specifier)?.[1];
  if (own === undefined) return undefined;
  return ["controller", "router", "operator", "e2e", "bench"].includes(own) ? `${own}/` : `packages/${own}/`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, "..");
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const files = globSync("{packages/*,controller,router,operator}/src/**/*.ts", { cwd: root }).filter(
    (f) => !f.includes("/generated/"),
  );
  const broken = files.flatMap((file) => brokenRules(relative(".", file), read(file)));
  for (const b of broken) {
    console.error(`${b.file}:${b.line}: must not import "${b.specifier}" (${b.rule.from}: ${b.rule.why})`);
  }
  const places = "{packages/*/src,controller/src,router/src,operator/src,e2e,bench,images,scripts,examples}/**/*.ts";
  const copies = globSync(places, { cwd: root, exclude: ["**/node_modules/**"] }).flatMap((file) =>
    secondCopies(file, read(file)),
  );
  for (const { file, line, use } of copies) {
    console.error(
      `${file}:${line}: a second copy of ${use}: import it from @sallyport/async (scripts/second-copies.ts)`,
    );
  }
  const ways = UNREACHED.flatMap((rule) => forbiddenWays(rule, read).map((way) => ({ rule, way })));
  for (const { rule, way } of ways) {
    console.error(`${way.join(" -> ")}: must not be loaded, for it imports "${rule.package}" (${rule.why})`);
  }
  const products = files.filter(
    (file) => !file.endsWith(".test.ts") && !file.includes("/testing") && !file.endsWith(".d.ts"),
  );
  const circles = importCircles(products, read).filter(([first = ""]) => !KNOWN_CIRCLES.includes(first));
  for (const circle of circles) console.error(`these files import each other in a circle: ${circle.join(", ")}`);
  const large = tooLarge(products, read);
  for (const each of large) console.error(each);
  const unused = globSync("{packages/*,controller,router,operator,e2e,bench}/package.json", { cwd: root }).flatMap(
    (file) => {
      const { dependencies = {} } = JSON.parse(readFileSync(join(root, file), "utf8")) as {
        dependencies?: Record<string, string>;
      };
      const sources = globSync(`${dirname(file)}/**/*.ts`, { cwd: root, exclude: ["**/node_modules/**"] });
      const texts = sources.map((source) => readFileSync(join(root, source), "utf8"));
      return unusedPackages(Object.keys(dependencies), texts).map((name) => ({ file, name }));
    },
  );
  for (const { file, name } of unused) console.error(`${file}: nothing imports "${name}": npm uninstall it`);
  console.log(
    `dependency rules: ${files.length} files, ${broken.length + ways.length} broken, ${circles.length} circles, ${large.length} too large, ${copies.length} second copies, ${unused.length} unused packages`,
  );
  process.exitCode =
    broken.length + ways.length + circles.length + large.length + copies.length + unused.length === 0 ? 0 : 1;
}
