/** The images that every cluster has. There is no registry: a pod needs `imagePullPolicy: IfNotPresent` or `Never`. */
import { existsSync, mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { writeImage } from "./archive.ts";
import type { Tools } from "./box/box-plan.ts";

export const PAUSE_IMAGE = "registry.test/pause:1";
export const COREDNS_IMAGE = "registry.test/coredns:1";
/** `serve`, `fetch`, `write`: see programs/pod/main.go. */
export const POD_IMAGE = "registry.test/pod:1";

/** Their archives, beside the programs that they are made of; written the first time. */
export function ownImages(tools: Tools): string[] {
  return [
    archiveOf("pause", tools.pod, PAUSE_IMAGE, ["/pod", "pause"]),
    archiveOf("pod", tools.pod, POD_IMAGE, ["/pod"]),
    archiveOf("coredns", tools.coredns, COREDNS_IMAGE, ["/coredns"]),
  ];
}

function archiveOf(name: string, program: string, image: string, entrypoint: readonly [string, ...string[]]): string {
  const folder = join(dirname(program), "images");
  // The program's name tells what it was built from.
  const file = join(folder, `${name}-of-${basename(program)}.tar`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    writeImage(file, { name: image, entrypoint, files: { [entrypoint[0]]: program } });
  }
  return file;
}
