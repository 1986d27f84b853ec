import { existsSync, readFileSync } from "node:fs";

/** Version of the package that contains this file, such as `1.2.3`: of the SDK, or of a program of this project. `unknown` in an application's bundle. */
export const SDK_VERSION: string = versionAbove(new URL(".", import.meta.url));

function versionAbove(folder: URL): string {
  const file = new URL("package.json", folder);
  if (existsSync(file)) {
    const { name, version } = JSON.parse(readFileSync(file, "utf8")) as { name?: string; version?: string };
    if (name?.startsWith("@sallyport/") && version !== undefined) return version;
  }
  const above = new URL("..", folder);
  return above.href === folder.href ? "unknown" : versionAbove(above);
}
