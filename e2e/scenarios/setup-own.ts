import { findTools, NoClusterError } from "../cluster/tools.ts";
import { wayOf } from "../cluster/ways/open.ts";
import { allowOwn } from "./run-cluster.ts";
import { skip } from "./skipped.ts";

/** For files that open clusters of their own: looks whether that can be. */
export function setup(): void {
  try {
    const way = wayOf(process.env);
    if (way === "existing")
      throw new NoClusterError("what is installed and removed there would belong to another user");
    if (way === "local") findTools();
    allowOwn();
  } catch (error) {
    skip(error);
  }
}
