import { suite } from "../../scripts/vitest-defaults.ts";

/** Meshes of real routers whose links, processes and controllers go away and come back: `make test-mesh`. */
export default suite(import.meta.dirname, {
  // Every file is a network of processes under full load.
  maxWorkers: 1,
  testTimeout: 240_000,
  hookTimeout: 180_000,
});
