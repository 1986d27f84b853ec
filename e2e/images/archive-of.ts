import { join } from "node:path";
import { inject } from "vitest";

/** Whether containers can be started here. */
export const canRun = inject("images") !== undefined;

/** The image that was made for this run. */
export function archiveOf(program: string): string {
  return join(inject("images") ?? "", `${program}.tar`);
}
