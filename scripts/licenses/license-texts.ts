import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

/** Something that is distributed comes without the text of its licence. */
export class LicenseError extends Error {
  override name = "LicenseError";
}

/** A file that says under which licence a package is passed on. */
export interface LicenseText {
  /** `<package>@<version>/<file>`, where the file is named as in the package. */
  readonly path: string;
  readonly content: Buffer;
}

/**
 * What packages do not bring themselves: `<package>/<file>`, or `<package>@<version>/<file>` where the text is that of one version. The parts of a
 * package for one platform share a folder without the name of the platform.
 */
const GIVEN = join(import.meta.dirname, "given");

const TEXT = /^((un)?licen[cs]e|copying|copyright|notice|third[-_]?party)/i;
const CODE = /\.([cm]?[jt]s|json|map|h|node)$/i;
const PLATFORM = /[-/](android|darwin|freebsd|linux|linuxmusl|win32|windows)[-_].*$/;

/**
 * Licences and notices of installed packages: those in each package (for the part for one platform also those of the whole), and those that are given
 * here for it.
 *
 * @param homes folders of the packages
 * @param given folder of the texts that packages do not bring
 * @throws LicenseError for a package that has none
 */
export function licenseTexts(homes: Iterable<string>, given = GIVEN): LicenseText[] {
  return [...homes].flatMap((home) => {
    const { name, version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as Record<string, string>;
    const id = `${name}@${version}`;
    const found = new Map<string, LicenseText>();
    const whole = wholeOf(home, `${name}`);
    const own = whole === undefined ? [home] : [home, whole];
    for (const folder of [...own, ...givenFor(given, `${name}`, id)]) {
      for (const path of textsBelow(folder, own.includes(folder))) {
        // What a package has begun to bring itself goes before what was given for it.
        if (!found.has(path)) found.set(path, { path: join(id, path), content: readFileSync(join(folder, path)) });
      }
    }
    if (found.size > 0) return [...found.values()];
    throw new LicenseError(
      `${id} is passed on, and brings no text of its licence: put that into ${join(given, `${name}`)}, or ${join(given, id)} if it is for this version only`,
    );
  });
}

/** Folder of the package of which this one is the part for one platform, where that is installed beside it. */
function wholeOf(home: string, name: string): string | undefined {
  const whole = name.replace(PLATFORM, "");
  const folder = `${home.slice(0, -name.length)}${whole}`;
  return whole !== name && existsSync(join(folder, "package.json")) ? folder : undefined;
}

function givenFor(given: string, name: string, id: string): string[] {
  const folders = [id, name, name.replace(PLATFORM, "")].map((each) => join(given, each));
  return [...new Set(folders)].filter(existsSync);
}

/** @param isPackage whether other files lie there, too; packages inside a package are packages of their own */
function textsBelow(folder: string, isPackage: boolean, prefix = ""): string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(prefix, entry.name);
      if (entry.isDirectory()) return entry.name === "node_modules" ? [] : textsBelow(folder, isPackage, path);
      const isText = !isPackage || (TEXT.test(basename(path)) && !CODE.test(path));
      return entry.isFile() && isText ? [path] : [];
    });
}
