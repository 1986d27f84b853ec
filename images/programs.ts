import { join } from "node:path";

/** What an image of one of the programs holds besides Node and the packed program, and how it is started. */
export interface ProgramImage {
  readonly program: string;
  readonly title: string;
  /** Flags of Node; those of the first line of the program's main file. */
  readonly nodeFlags: readonly string[];
  /** Programs of the system that it calls, below the layer of the program. */
  readonly tools: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  /** More files that run on their own, by their name in `lib/` without `.js`. */
  readonly helpers: Readonly<Record<string, string>>;
  /** Links in the image to files of the program: path in the image, and below `PROGRAM_FOLDER`. */
  readonly links: Readonly<Record<string, string>>;
  /** Largest size when pulled, in bytes. */
  readonly limit: number;
}

/** Who runs the programs. */
export const USER = { name: "sallyport", uid: 65_532, gid: 65_532 } as const;
export const NODE = "/usr/local/bin/node";
export const PROGRAM_FOLDER = "/opt/sallyport";
/** What a program keeps: the only place but /tmp that it writes to. */
export const DATA_FOLDER = "/var/lib/sallyport";
export const CONFIG_FOLDER = "/etc/sallyport";

const RUNTIME = join(import.meta.dirname, "runtime");
const MEGABYTE = 1_000_000;
const TPROXY = ["nft", "ip"];

/** Every process with the number 1 is given this first (runtime/first-process.ts). */
const FIRST_PROCESS = { "first-process": join(RUNTIME, "first-process.ts") };
const BASE = {
  nodeFlags: [],
  tools: [],
  env: {},
  ports: [],
  helpers: FIRST_PROCESS,
  links: {},
  limit: 90 * MEGABYTE,
} as const;

export const PROGRAM_IMAGES: Readonly<Record<string, ProgramImage>> = {
  controller: {
    ...BASE,
    program: "controller",
    title: "Sallyport controller with its embedded PostgreSQL",
    nodeFlags: ["--max-semi-space-size=16", "--heap-growing-percent=50"],
    // No shell that could stop PostgreSQL: the end of the container does (docs/images.md, "The controller's PostgreSQL").
    env: { SALLYPORT_CONTAINER: "1" },
    ports: ["1280/tcp"],
    helpers: { ...FIRST_PROCESS, "initdb-shell": join(RUNTIME, "initdb-shell.ts") },
    links: { "/bin/sh": "lib/initdb-shell.js" },
    limit: 120 * MEGABYTE,
  },
  router: {
    ...BASE,
    program: "router",
    title: "Sallyport edge router",
    // Its tunneler may intercept, too.
    tools: TPROXY,
    ports: ["3022/tcp"],
  },
  operator: {
    ...BASE,
    program: "operator",
    nodeFlags: ["--max-opt=1", "--max-semi-space-size=4", "--heap-growing-percent=30"],
    title: "Sallyport operator for Kubernetes",
    // One arena: memory that a thread has freed is free for every other one.
    env: { MALLOC_ARENA_MAX: "1" },
    ports: ["8080/tcp"],
  },
  tunnel: { ...BASE, program: "tunnel", title: "Sallyport tunneler", tools: TPROXY },
};
