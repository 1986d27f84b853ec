import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { announceSkip } from "../../scripts/run/skipped.ts";
import { programArchives } from "./program-archives.ts";
import { obstacle } from "./unpacked-image.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Folder with `<program>.tar`; undefined when containers cannot be started here. */
    images: string | undefined;
  }
}

/** Makes the images once for all suites; where containers cannot be started it says so, and the suites are skipped. */
export async function setup(project: TestProject): Promise<() => void> {
  const reason = obstacle();
  if (reason !== undefined) {
    announceSkip("THE SUITES OF THE IMAGES", reason);
    project.provide("images", undefined);
    return () => undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "sallyport-images-"));
  await programArchives(folder);
  project.provide("images", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}
