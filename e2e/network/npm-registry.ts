import { existsSync, globSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { gzipSync } from "node:zlib";
import { completed, file } from "@sallyport/program/archive/entry";
import { tarOf } from "@sallyport/program/archive/tar";

const ROOT = join(import.meta.dirname, "..", "..");

/** A registry for npm on this machine, with the packages that the repository has installed. */
export interface NpmRegistry {
  readonly url: string;
  /** Names of the packages that it was asked for, whether it has them or not. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

/** Starts one on a free port. */
export async function startNpmRegistry(): Promise<NpmRegistry> {
  const asked: string[] = [];
  const packages = installedPackages();
  const server = createServer((request, response) => {
    const [, name = "", version] =
      /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+)\.tgz)?$/.exec(decodeURIComponent(request.url ?? "")) ?? [];
    const installed = name.startsWith("@sallyport/") ? [] : (packages.get(name) ?? []);
    const chosen = installed.find((each) => each.manifest.version === version);
    asked.push(name);
    if (chosen !== undefined) answer(response, 200, tarballOf(chosen.home));
    else if (installed.length > 0) answer(response, 200, JSON.stringify(packument(name, installed, url)));
    else answer(response, 404, "{}");
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve, reject) => server.once("listening", resolve).once("error", reject));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    asked,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * The environment in which a user runs npm: without what this repository's own npm has put there.
 *
 * @param registry in place of the one that the machine's settings name
 */
export function npmEnvironment(
  env: NodeJS.ProcessEnv,
  registry?: { readonly url: string; readonly folder: string },
): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !name.toLowerCase().startsWith("npm_"));
  const path = env.PATH?.split(delimiter).filter((folder) => !folder.includes("node_modules"));
  return {
    ...Object.fromEntries(kept),
    PATH: path?.join(delimiter),
    ...(registry && {
      npm_config_registry: registry.url,
      npm_config_userconfig: join(registry.folder, "npmrc"),
      npm_config_cache: join(registry.folder, "npm-cache"),
    }),
  };
}

interface Installed {
  /** Its folder. */
  readonly home: string;
  readonly manifest: { readonly name: string; readonly version: string };
}

/** Every version of every package, as npm has noted them. */
function installedPackages(): Map<string, Installed[]> {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "node_modules/.package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, { readonly link?: boolean }>>;
  };
  const homes = Object.keys(packages).filter((path) => path.includes("node_modules/") && packages[path]?.link !== true);
  const installed = homes.flatMap((path): Installed[] => {
    const home = join(ROOT, path);
    const file = join(home, "package.json");
    return existsSync(file) ? [{ home, manifest: JSON.parse(readFileSync(file, "utf8")) }] : [];
  });
  return Map.groupBy(installed, ({ manifest }) => manifest.name);
}

function packument(name: string, installed: readonly Installed[], url: string): object {
  const versions = installed.map(({ manifest }) => {
    const dist = { tarball: `${url}/${name}/-/${manifest.version}.tgz` };
    return [manifest.version, { ...manifest, dist }] as const;
  });
  return { name, "dist-tags": { latest: versions[0]?.[0] }, versions: Object.fromEntries(versions) };
}

/** Barely compressed: it does not travel far. */
function tarballOf(home: string): Buffer {
  const paths = globSync("**", { cwd: home, withFileTypes: true, exclude: (entry) => entry.name === "node_modules" })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(home.length));
  const entries = paths.map((path) => file(join("/package", path), readFileSync(join(home, path))));
  const files = completed(entries).filter(({ kind }) => kind !== "folder");
  return gzipSync(tarOf(files, 0), { level: 1 });
}

function answer(response: ServerResponse, status: number, body: string | Buffer): void {
  response.writeHead(status, {
    "content-type": typeof body === "string" ? "application/json" : "application/octet-stream",
  });
  response.end(body);
}
