import { join } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";
import { type LicenseText, licenseTexts } from "../../scripts/licenses/license-texts.ts";

const FOLDER = "/usr/share/licenses";

/** Licences where images keep those of npm packages: `/usr/share/licenses/<package>@<version>/`. */
export function licenseEntries(texts: readonly LicenseText[]): Entry[] {
  return texts.map(({ path, content }) => file(join(FOLDER, path), content));
}

/**
 * The same of packages as they are installed.
 *
 * @param homes folders of the packages
 * @throws LicenseError for a package that has none
 */
export function packageLicenses(homes: Iterable<string>): Entry[] {
  return licenseEntries(licenseTexts(homes));
}
