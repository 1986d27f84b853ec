/** The parts of a release, each as files by their paths in it, with what they hold. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { tarball } from "@sallyport/program/archive/tarball";
import { ImageBuilder } from "../../images/build.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import { chartEntries } from "./charts.ts";
import { manifestFile, renderKustomization } from "./kustomization.ts";
import { libraryTarballs, programTarballs } from "./npm-tarballs.ts";
import type { Artifact } from "./sbom/cyclonedx.ts";
import { imageParts, type Origins, ownPackage } from "./sbom/image-parts.ts";
import { lockedPackage, lockedTree } from "./sbom/npm-parts.ts";
import { withImagesOf } from "./versions.ts";

/** Folder of the work, in which each program is packed. */
export const PACKED = "packed";

export interface Plan {
  /** Of the repository. */
  readonly root: string;
  /** What the repository calls itself. */
  readonly own: string;
  readonly version: string;
  /** Date of everything in it, in seconds since 1970. */
  readonly madeAt: number;
  /** Folder for what is needed on the way. */
  readonly work: string;
  /** Folder of image layers that were compressed before. */
  readonly layers: string;
}

export interface Part {
  readonly files: ReadonlyMap<string, Buffer>;
  readonly artifacts: readonly Artifact[];
}

/** Libraries and programs for npm, in `npm/`; the programs as they were packed for the images. */
export async function npmPackages(plan: Plan, { lock }: Origins): Promise<Part> {
  const packed = join(plan.work, PACKED);
  const tarballs = [
    ...libraryTarballs({ ...plan, folder: join(plan.work, "compiled") }),
    ...(await programTarballs(plan, packed)),
  ];
  return {
    files: new Map(tarballs.map(({ file, bytes }) => [`npm/${file}`, bytes])),
    artifacts: tarballs.map(({ name, bytes, dependencies, bundled }) => ({
      component: ownPackage(name, plan.version, createHash("sha256").update(bytes).digest("hex")),
      parts: [
        ...bundled.map(([other, version]) => lockedPackage(lock, other, version)),
        ...lockedTree(lock, dependencies),
      ],
    })),
  };
}

/** Images of all programs as `docker load` takes them, in `images/`. */
export async function images(plan: Plan, origins: Origins): Promise<Part> {
  const { version, madeAt, layers: cache, work } = plan;
  const builder = new ImageBuilder({ madeAt, cache, packing: { version, folder: join(work, PACKED) } });
  const files = new Map<string, Buffer>();
  const artifacts: Artifact[] = [];
  for (const image of Object.values(PROGRAM_IMAGES)) {
    const { image: built, name, paths } = await builder.build(image, "sallyport", version);
    if (built.bytes > image.limit)
      throw new Error(`the image ${name} has ${built.bytes} bytes, and at most ${image.limit} are allowed`);
    files.set(`images/sallyport-${image.program}-${version}-linux-${origins.architecture}.tar`, built.archive);
    const purl = `pkg:oci/${image.program}@${encodeURIComponent(built.digest)}?repository_url=sallyport/${image.program}&tag=${version}`;
    const hashes = [{ alg: "SHA-256", content: built.digest.replace("sha256:", "") }] as const;
    const component = { type: "container", purl, group: "sallyport", name: image.program, version, hashes } as const;
    artifacts.push({ component, parts: imageParts(paths, origins) });
  }
  return { files, artifacts };
}

/** The charts, in `charts/`. */
export function charts({ root, own, version, madeAt }: Plan): Part {
  const names = readdirSync(join(root, "helm")).filter((name) => existsSync(join(root, "helm", name, "Chart.yaml")));
  const files = names.map((name): [string, Buffer] => [
    `charts/${name}-${version}.tgz`,
    tarball(chartEntries(join(root, "helm", name), own, version), madeAt),
  ]);
  return { files: new Map(files), artifacts: [] };
}

/** What `kubectl apply --server-side -f` takes: the CRDs, and the operator for a cluster with them. */
export function manifests({ root, own, version }: Plan): Part {
  const file = (folder: string, title: string) =>
    Buffer.from(withImagesOf(manifestFile(renderKustomization(join(root, folder)), title), own, version));
  return {
    files: new Map([
      ["crds.yaml", file("crds", `The kinds of Sallyport ${version}: kubectl apply --server-side -f crds.yaml`)],
      [
        "operator.yaml",
        file(
          "operator/deploy/cluster",
          `The operator of Sallyport ${version} with its kinds: kubectl apply --server-side -f operator.yaml`,
        ),
      ],
    ]),
    artifacts: [],
  };
}
