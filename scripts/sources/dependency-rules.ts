/** The dependency rules of this repository, as data: what the files of a folder may import, and what a program must not load. */
import { type Dirent, readdirSync } from "node:fs";
import { join } from "node:path";

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
const FABRIC_PORTS = [
  "ports.ts",
  "change-port.ts",
  "replicas.ts",
  "token-names.ts",
  "data-model/data-model-source.ts",
].map((name) => `controller/src/fabric/${name}`);

/** What the pure parts of the operator may load: of Node and npm nothing that does I/O. */
const OPERATOR_PURE = [
  "node:crypto",
  "node:net",
  "yaml",
  "@sallyport/api",
  "@sallyport/async",
  "@sallyport/config-file",
  "@sallyport/resources",
  "@sallyport/wire",
  "@sallyport/router-config",
  "@sallyport/controller-config",
];

/** Parts of the operator's layers that are functions from values to values, and that plans may call. */
const CHILD_PLANS = ["intent", "json-value", "owner-marks", "spread", "workload"].map(
  (name) => `operator/src/children/${name}.ts`,
);
const KUBE_VALUES = ["operator/src/kube/kinds.ts", "operator/src/kube/formats.ts"];

/** All that kinds of the operator may ask of one another. */
const KIND_INTERFACES = ["operator/src/kinds/network/interface.ts"];

/**
 * The layers of the operator from the bottom to the top (docs/operator/loop.md): `kube`, `controller-client`, `children`, `loop`, `entity`, and on them
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
          may: [...CHILD_PLANS, ...KUBE_VALUES],
          mayTypes: KIND_INTERFACES,
          packages: OPERATOR_PURE,
          why: "renderers are pure: no I/O",
        },
        {
          from: `${own}plan`,
          may: [render, ...CHILD_PLANS, ...KUBE_VALUES],
          mayTypes: ["operator/src/children/", "operator/src/kube/", ...KIND_INTERFACES],
          packages: OPERATOR_PURE,
          why: "plans are pure: no I/O",
        },
        {
          from: own,
          may: [
            "packages/",
            ...["kube", "controller-client", "children", "loop", "entity"].map((each) => `operator/src/${each}/`),
            ...KIND_INTERFACES,
          ],
          why: "a kind stands on the layers below; of other kinds it may use the stated interfaces only",
        },
      ];
    }),
    layer("kube", [], "the Kubernetes machinery knows none of the kinds that it serves"),
    layer("controller-client", [], "a client of controllers knows nothing of resources"),
    layer("children", ["kube/"], "what is done with children is the same for every kind"),
    layer("loop", ["kube/", "controller-client/", "children/"], "the loop is given the kinds; it imports none"),
    layer(
      "entity",
      ["kube/", "controller-client/", "loop/"],
      "what is done with one entity is the same for every kind",
    ),
  ];
}

/**
 * The resources by which networks are declared: names and plans, on them the kinds, and on these schemas, definitions and their rules. Programs take from `index.ts` what loads
 * no schema and makes no call.
 */
function resourceRules(): DependencyRule[] {
  const src = "packages/resources/src/";
  const plans = ["plan", "ownership", "references"].map((name) => `${src}entity/${name}.ts`);
  const values = ["amount", "group", "json-object"].map((name) => `${src}${name}.ts`);
  return [
    ...plans.map((from) => ({
      from,
      may: [...plans, ...values],
      packages: ["node:crypto"],
      why: "plans are pure: no I/O",
    })),
    ...values.map((from) => ({ from, may: [], packages: [], why: "names and amounts are values" })),
    {
      from: `${src}entity/`,
      may: [ASYNC, "packages/api/"],
      why: "what is done with one entity is the same for every kind",
    },
    { from: `${src}fields/`, may: [`${src}kind-definition.ts`], why: "parts of schemas know no kind" },
    { from: `${src}kind-definition.ts`, may: [`${src}fields/`, ...values], why: "a definition knows no kind" },
    {
      from: src,
      may: [ASYNC, "packages/api/", "packages/router-config/"],
      packages: ["@bufbuild/cel", "yaml", "zod"],
      why: "a resource means the same to every program, so it knows none of them, and no Kubernetes",
    },
  ];
}

/** The layers of the command line from the bottom to the top: `terminal` and `kinds`, `network`, `entities`, `output`, and on them the commands. */
function cliRules(): DependencyRule[] {
  const layer = (name: string, below: readonly string[], why: string): DependencyRule => ({
    from: `cli/src/${name}/`,
    may: ["packages/", ...["errors.ts", "context.ts", ...below].map((each) => `cli/src/${each}`)],
    why,
  });
  return [
    layer("terminal", [], "what a terminal shows and asks knows no network"),
    { ...layer("kinds", [], "the tables of kinds do no I/O"), packages: ["@sallyport/config-file"] },
    layer("network", ["terminal/"], "logins and calls know no kind of entity"),
    layer("entities", ["kinds/", "network/"], "entities are found and changed without being shown"),
    layer("fields", ["kinds/", "terminal/"], "options are read before a network is known"),
    layer("declared", ["kinds/", "terminal/", "network/"], "files of resources are carried out without a command"),
    layer("editing", ["kinds/", "entities/"], "texts and editors know no command"),
    layer(
      "ping",
      ["kinds/", "terminal/", "network/", "entities/", "output/", "status/"],
      "what is measured knows no command",
    ),
    layer(
      "bugreport",
      ["kinds/", "terminal/", "network/", "output/", "status/"],
      "what a report holds knows no command",
    ),
    layer(
      "status",
      ["kinds/", "terminal/", "entities/", "network/", "output/"],
      "the state of a network knows no command",
    ),
    layer("output", ["kinds/", "terminal/", "entities/"], "what is shown comes as values"),
    layer(
      "quickstart",
      ["daemons.ts", "kinds/", "terminal/", "network/", "entities/", "output/"],
      "a quick start reaches programs as child processes and the network by its API",
    ),
    layer(
      "service",
      ["daemons.ts", "terminal/", "quickstart/home.ts", "quickstart/programs/folder-lock.ts"],
      "units of systemd know no network",
    ),
    { from: "cli/", may: ["packages/", "cli/"], why: "a program never imports another program" },
  ];
}

/** The first rule whose `from` is a prefix of the file decides: special places stand before general ones. */
export const RULES: readonly DependencyRule[] = [
  { from: ASYNC, may: [], packages: [], why: "every package and program uses it, so it imports nothing" },
  {
    from: "packages/api/src/client/",
    may: [ASYNC, "packages/api/src/client/", "packages/api/src/errors.ts"],
    mayTypes: ["packages/api/"],
    packages: ["zod", "node:buffer", "node:crypto", "node:http", "node:https", "node:tls"],
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
      "packages/program/",
      "packages/router-config/",
      "packages/wire/",
      "packages/sdk/",
    ],
    why: "the tunneler reaches the network by the SDK or by an overlay that it is given",
  },
  {
    from: "packages/program/",
    may: [],
    packages: ["node:fs", "node:fs/promises", "node:path", "node:zlib", "pino"],
    why: "what every program does around its work knows nothing of that work",
  },
  {
    from: "packages/config-file/",
    may: [ASYNC],
    packages: ["node:fs/promises", "yaml", "zod"],
    why: "what all configuration files share knows none of them",
  },
  {
    from: "packages/posture/",
    may: [ASYNC, "packages/wire/"],
    mayTypes: ["packages/api/"],
    packages: [...PURE, "semver"],
    names: { "@bufbuild/protobuf": ["MessageInitShape"] },
    why: "posture is pure, and a router loads no schema of the APIs for it",
  },
  ...resourceRules(),
  { from: "packages/", may: [ASYNC], why: "packages import no program" },
  {
    from: "controller/src/policy/",
    may: [],
    mayTypes: ["packages/api/", "packages/posture/"],
    packages: [...PURE, "@sallyport/program/shell-word"],
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
    from: "controller/src/oidc/",
    may: ["packages/", "controller/src/auth/", "controller/src/model/"],
    mayTypes: ["controller/src/http/", "controller/src/events/event.ts"],
    packages: [
      "@sallyport/api",
      "@sallyport/async",
      "@sallyport/wire",
      "jose",
      "node:buffer",
      "node:crypto",
      "qrcode",
      "zod",
    ],
    why: "the provider speaks the protocol: it knows no table, and no more of HTTP than requests and answers",
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
    mayTypes: ["controller/src/events/event.ts"],
    why: "calls go one way: http -> api -> model -> store; the fabric is met by its ports only",
  },
  {
    from: "controller/src/auth/",
    may: ["packages/", "controller/src/store/", "controller/src/pki/", "controller/src/model/"],
    mayTypes: ["controller/src/events/event.ts"],
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
      "packages/posture/",
      "packages/wire/",
      "router/src/forwarder/",
      "router/src/xgress/",
      "router/src/control/control-plane.ts",
      "router/src/control/errors.ts",
      "router/src/access/ports.ts",
    ],
    why: "the hot path knows control and access only as interfaces and their errors",
  },
  {
    from: "router/src/access/",
    may: [ASYNC, "packages/posture/", "packages/wire/", "router/src/control/data-model/"],
    why: "what a token and the data model say is decided without configuration, channels and controllers",
  },
  {
    from: "router/src/tunnel/",
    may: ["packages/", "router/src/forwarder/", "router/src/xgress/", "router/src/control/"],
    why: "the tunneler is one more user of the fabric: configuration reaches it as values",
  },
  ...operatorRules(readdirSync(join(import.meta.dirname, "../../operator/src/kinds"), { withFileTypes: true })),
  ...cliRules(),
  { from: "operator/", may: ["packages/", "operator/"], why: "a program never imports another program" },
  { from: "router/", may: ["packages/", "router/"], why: "a program never imports another program" },
];

/** Programs that only call the APIs take nothing but types of the contract: its schemas cost each some megabytes of memory. */
export const CALLERS: DependencyRule = {
  from: "@sallyport/api",
  may: [],
  why: "who only calls the APIs takes values from @sallyport/api/client, which loads no schema",
};

/** What a program must not have loaded when it runs, however many files lie between: no file under `under` that imports `package`. */
export interface UnreachedRule {
  /** The program's first file. */
  readonly entry: string;
  readonly under: string;
  readonly package: string;
  readonly why: string;
}

const NO_SCHEMAS =
  "schemas of resources take megabytes: values come from @sallyport/resources, and who reads files of users takes @sallyport/resources/schemas, which are data";

export const UNREACHED: readonly UnreachedRule[] = [
  ...["index.ts", "sync.ts", "admission/admit.ts", "generated/schemas.ts"].map((file) => ({
    entry: `packages/resources/src/${file}`,
    under: "packages/resources/src/",
    package: "zod",
    why: NO_SCHEMAS,
  })),
  ...["operator/src/", "cli/src/"].flatMap((under) =>
    ["definitions", "crd"].map((name) => ({
      entry: `${under}main.ts`,
      under,
      package: `@sallyport/resources/${name}`,
      why: NO_SCHEMAS,
    })),
  ),
];
