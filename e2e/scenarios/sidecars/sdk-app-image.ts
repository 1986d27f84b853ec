/** The image of examples/sdk-app, as its Containerfile makes it: the application, and the SDK as it is released, in `node_modules`. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { file } from "@sallyport/program/archive/entry";
import { makeImage, makeLayer } from "../../../images/archive/image.ts";
import { librariesOf } from "../../../images/elf/libraries.ts";
import { NODE, USER } from "../../../images/programs.ts";
import { baseEntries, placedEntries } from "../../../images/root/base.ts";
import { nodeModules } from "../../../images/root/node-modules.ts";
import { compile } from "../../../scripts/release/compile.ts";
import { LIBRARIES, libraryEntries, PARTS } from "../../../scripts/release/library-package.ts";
import { ROOT, VERSION } from "../root.ts";

const EXAMPLE = join(ROOT, "examples", "sdk-app");
const APP = "/app";
const PINNED_NODE = join(dirname(createRequire(import.meta.url).resolve("node/package.json")), "bin", "node");

/** As kustomization.yaml of the example calls it. */
export const SDK_APP_IMAGE = "example/greetings:1.0.0";

/** Writes the image into a folder; resolves with the path of the archive. */
export async function sdkAppArchive(folder: string): Promise<string> {
  const cache = join(folder, "layers");
  const base = baseEntries(PINNED_NODE);
  const basePaths = new Set(base.map(({ path }) => path));
  const sdk = releasedSdk();
  const modules = nodeModules(ROOT, sdk.manifest, APP);
  const libraries = librariesOf(modules.binaries).filter(({ path }) => !basePaths.has(path));
  const own = ["package.json", "server.js", "client.js"].map((name) =>
    file(join(APP, name), readFileSync(join(EXAMPLE, name))),
  );
  const layers = [
    await makeLayer("Node and what it needs", base, cache),
    await makeLayer("greetings", [...own, ...sdk.entries, ...modules.entries, ...placedEntries(libraries)], cache),
  ];
  const { archive } = makeImage(SDK_APP_IMAGE, layers, {
    user: `${USER.uid}:${USER.gid}`,
    entrypoint: [NODE],
    command: ["server.js"],
    env: { PATH: "/usr/local/bin:/usr/bin" },
    workingDir: APP,
    stopSignal: "SIGTERM",
    volumes: [],
    ports: [],
    labels: {},
  });
  const path = join(folder, "greetings.tar");
  writeFileSync(path, archive);
  return path;
}

/** What `npm install` of the SDK's package would put below the application, and what it would install besides. */
function releasedSdk() {
  const library = LIBRARIES.find(({ name }) => name === "sdk");
  if (library === undefined) throw new Error("the release has no SDK");
  const work = mkdtempSync(join(tmpdir(), "sallyport-sdk-app-"));
  try {
    compile(ROOT, PARTS, work, { isChecked: true });
    const entries = libraryEntries(ROOT, library, work, VERSION).map((entry) => ({
      ...entry,
      path: entry.path.replace("/package/", `${APP}/node_modules/@sallyport/sdk/`),
    }));
    const manifest = entries.find(({ path }) => path.endsWith("/sdk/package.json"));
    if (manifest?.kind !== "file") throw new Error("the SDK's package has no package.json");
    return { entries, manifest: JSON.parse(manifest.content.toString()) as Parameters<typeof nodeModules>[1] };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
