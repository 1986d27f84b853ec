/** A new user with three machines: the suite of `new-user/`, which needs network namespaces of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../scenarios/root.ts";
import { hasRelease } from "./offered.ts";

const CONFIG = "e2e/release/new-user/vitest.config.ts";

test.skipIf(!hasRelease)("a release leads from nothing to a service that is reached from another machine", async () => {
  // It says itself why it is skipped, how long it took, and what failed.
  const suite = spawn(process.execPath, [join(ROOT, "e2e/namespaces/run.ts"), CONFIG], { cwd: ROOT, stdio: "inherit" });
  expect(await once(suite, "exit")).toEqual([0, null]);
});
