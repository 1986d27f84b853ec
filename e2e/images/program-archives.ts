import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ImageBuilder } from "../../images/build.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";

const CACHE = join(import.meta.dirname, "..", "..", "dist", "images", "layers");

/**
 * Makes images of the repository as it is, as `sallyport/<program>` with the version as tag, into `<folder>/<program>.tar`; a few seconds when little has
 * changed since the last time.
 *
 * @param programs all when absent
 * @param version instead of the repository's
 * @returns the archives, in the order of the programs
 */
export async function programArchives(
  folder: string,
  programs = Object.keys(PROGRAM_IMAGES),
  version?: string,
): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const builder = new ImageBuilder({
    cache: CACHE,
    ...(version !== undefined && { packing: { version, folder: join(folder, "packed") } }),
  });
  const archives: string[] = [];
  for (const program of programs) {
    const image = PROGRAM_IMAGES[program];
    if (image === undefined) throw new Error(`there is no image of a program ${program}`);
    const { image: built } = await builder.build(image, "sallyport", undefined);
    archives.push(join(folder, `${program}.tar`));
    writeFileSync(join(folder, `${program}.tar`), built.archive);
  }
  return archives;
}
