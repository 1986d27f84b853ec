import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LicenseError } from "../../scripts/licenses/license-texts.ts";
import { librariesOf } from "../elf/libraries.ts";
import { systemLicenses } from "./system-licenses.ts";

const isDebian = spawnSync("dpkg-query", ["--version"]).status === 0;

describe.skipIf(!isDebian)("the licences of what the system brings", () => {
  let unpacked: string;
  beforeEach(() => {
    unpacked = mkdtempSync(join(tmpdir(), "sallyport-unpacked-"));
  });
  afterEach(() => rmSync(unpacked, { recursive: true, force: true }));

  const unpack = (name: string, copyright: string) => {
    mkdirSync(join(unpacked, "usr/share/doc", name), { recursive: true });
    writeFileSync(join(unpacked, "usr/share/doc", name, "copyright"), copyright);
  };
  const paths = (...given: Parameters<typeof systemLicenses>) => systemLicenses(...given).map(({ path }) => path);

  it("are those of the packages of the files, with the texts that these name", () => {
    const libraries = librariesOf([realpathSync("/bin/sh")]).map(({ source }) => source);
    const found = paths(libraries);
    expect(found).toContain("/usr/share/doc/libc6/copyright");
    expect(found).toContain("/usr/share/common-licenses/LGPL-2.1");
  });

  it("are those of all packages that were unpacked where a file lies, in the place of installed ones", () => {
    unpack("tool", "see /usr/share/common-licenses/GPL-2.\n");
    unpack("libtool", "see `/usr/share/common-licenses/GPL-2' and /usr/share/common-licenses/GPL-3,\n");
    const found = paths([join(unpacked, "usr/sbin/tool")], [unpacked]).sort();
    expect(found).toEqual([
      "/usr/share/common-licenses/GPL-2",
      "/usr/share/common-licenses/GPL-3",
      "/usr/share/doc/libtool/copyright",
      "/usr/share/doc/tool/copyright",
    ]);
  });

  it("have to be there", () => {
    unpack("tool", "see /usr/share/common-licenses/NO-SUCH-1.0\n");
    const missing = () => paths([join(unpacked, "usr/sbin/tool")], [unpacked]);
    expect(missing).toThrow(LicenseError);
    expect(missing).toThrow(/NO-SUCH-1\.0 is not there, and the package tool/);
    rmSync(join(unpacked, "usr/share/doc/tool/copyright"));
    expect(missing).toThrow(/the package tool/);
    const nobodys = join(unpacked, "nobodys");
    expect(() => paths([nobodys])).toThrow(`${nobodys} is part of an image, and belongs to no package of this system`);
  });

  it("are none of nothing", () => {
    expect(paths([])).toEqual([]);
  });
});
