/** A version that is none, or that differs from place to place. */
export class VersionError extends Error {
  override name = "VersionError";
}

/** As npm, Helm and tags of images can all have it: a tag has no "+". */
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/;
/** Our images in a manifest, with their tags. */
const IMAGE = /\b(sallyport\/(?:controller|router|operator|tunnel)):([\w.-]+)/g;

/** @throws VersionError */
export function checkedVersion(text: string): string {
  if (VERSION.test(text)) return text;
  throw new VersionError(
    `VERSION must be a semantic version without "v" and "+", for example 1.2.3 or 1.2.3-rc.1, found ${JSON.stringify(text)}`,
  );
}

/**
 * A manifest whose images are those of the release.
 *
 * @param own version that the manifest has in the repository
 * @throws VersionError for one of Sallyport's images with another tag
 */
export function withImagesOf(manifest: string, own: string, version: string): string {
  return manifest.replace(IMAGE, (_, repository: string, tag: string) => {
    if (tag !== own)
      throw new VersionError(`expected ${repository}:${own} in the repository, found ${repository}:${tag}`);
    return `${repository}:${version}`;
  });
}
