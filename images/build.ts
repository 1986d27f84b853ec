import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Entry } from "@sallyport/program/archive/entry";
import { type Image, type ImageConfig, type Layer, makeImage, makeLayer } from "./archive/image.ts";
import { CONFIG_FOLDER, DATA_FOLDER, NODE, PROGRAM_FOLDER, type ProgramImage, USER } from "./programs.ts";
import { baseEntries } from "./root/base.ts";
import { type Packing, type ProgramRoot, programRoot } from "./root/program.ts";

const PATH = "/usr/local/bin:/usr/sbin:/usr/bin";

/** The node that the repository pins. */
const PINNED_NODE = join(dirname(createRequire(import.meta.url).resolve("node/package.json")), "bin", "node");

export interface BuiltImage {
  readonly name: string;
  readonly image: Image;
  readonly layers: readonly Layer[];
  readonly config: ImageConfig;
  /** Of every file that a layer brings. */
  readonly paths: readonly string[];
}

/** Makes images one after the other, on one base. */
export class ImageBuilder {
  readonly #base: readonly Entry[];
  readonly #basePaths: ReadonlySet<string>;
  readonly #madeAt: number;
  readonly #cache: string | undefined;
  readonly #packing: Packing | undefined;
  #baseLayer: Promise<Layer> | undefined;

  /**
   * @param options.madeAt what the images say about when they were made, in seconds since 1970
   * @param options.cache folder of layers that were made before
   */
  constructor(options: { readonly madeAt?: number; readonly cache?: string; readonly packing?: Packing } = {}) {
    this.#madeAt = options.madeAt ?? 0;
    this.#cache = options.cache;
    this.#packing = options.packing;
    this.#base = baseEntries(PINNED_NODE);
    this.#basePaths = new Set(this.#base.map((entry) => entry.path));
  }

  /** The files of the layers by the names of these: what a Containerfile copies. */
  async entriesOf(
    image: ProgramImage,
  ): Promise<{ readonly base: readonly Entry[]; readonly program: readonly Entry[] }> {
    const root = await programRoot(image, this.#basePaths, this.#packing);
    return { base: this.#base, program: [...root.parts, ...root.program] };
  }

  /** @param repository in which the image is named `<repository>/<program>`; empty for none */
  async build(image: ProgramImage, repository: string, tag: string | undefined): Promise<BuiltImage> {
    const root = await programRoot(image, this.#basePaths, this.#packing);
    this.#baseLayer ??= makeLayer("Node and what it needs", this.#base, this.#cache);
    const layers = [await this.#baseLayer];
    if (root.parts.length > 0) layers.push(await makeLayer("Native modules and tools", root.parts, this.#cache));
    layers.push(await makeLayer(`sallyport-${image.program} ${root.version}`, root.program, this.#cache));
    const config = configOf(image, root);
    const name = `${repository}${repository === "" ? "" : "/"}${image.program}:${tag ?? root.version}`;
    const paths = [...this.#base, ...root.parts, ...root.program].map((entry) => entry.path);
    return { name, image: makeImage(name, layers, config, this.#madeAt), layers, config, paths };
  }
}

/** The same for the images of Containerfiles, which a test compares. */
export function configOf(
  image: ProgramImage,
  { version, license }: Pick<ProgramRoot, "version" | "license">,
): ImageConfig {
  return {
    user: `${USER.uid}:${USER.gid}`,
    entrypoint: [
      NODE,
      `--import=${join(PROGRAM_FOLDER, "lib/first-process.js")}`,
      ...image.nodeFlags,
      join(PROGRAM_FOLDER, "lib/main.js"),
    ],
    command: ["--help"],
    env: { PATH, HOME: "/tmp", NODE_ENV: "production", ...image.env },
    workingDir: DATA_FOLDER,
    stopSignal: "SIGTERM",
    volumes: [DATA_FOLDER, "/tmp"],
    ports: image.ports,
    labels: {
      "org.opencontainers.image.title": image.title,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": license,
      "dev.sallyport.program": image.program,
      "dev.sallyport.configuration": CONFIG_FOLDER,
    },
  };
}
