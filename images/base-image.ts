/** An image that may change under its name, so it is unknown what was built on it. */
export class UnpinnedImageError extends Error {
  override readonly name = "UnpinnedImageError";
  readonly code = "IMAGE_NOT_PINNED";
}

/** Named by what it is (a digest), nothing at all (`scratch`), or of this machine alone, where no registry can exchange it. */
export function isPinned(image: string): boolean {
  return image === "scratch" || /@sha256:[0-9a-f]{64}$/.test(image) || image.startsWith("localhost/");
}

/**
 * The value of a build argument that names an image.
 * @throws UnpinnedImageError
 */
export function pinned(argument: string, image: string): string {
  if (isPinned(image)) return image;
  throw new UnpinnedImageError(
    `${argument}: expected an image by its digest, <image>@sha256:<64 hexadecimal digits>, or localhost/<image>, found ${image}; ask for the digest with: skopeo inspect --format '{{.Digest}}' docker://${image}`,
  );
}

/** The images that a Containerfile stands on when no arguments are given; stages and arguments are resolved. */
export function basesOf(containerfile: string): string[] {
  const standards = new Map<string, string>();
  const stages = new Set<string>();
  const bases: string[] = [];
  for (const line of containerfile.split("\n")) {
    const [, name = "", standard = ""] = /^ARG (\w+)=?(\S*)/.exec(line) ?? [];
    if (name !== "" && bases.length === 0) standards.set(name, standard);
    const [, from, stage] = /^FROM (\S+)(?: AS (\S+))?/i.exec(line) ?? [];
    if (from === undefined) continue;
    const base = from.replace(/\$\{(\w+)\}/g, (_all, argument: string) => standards.get(argument) ?? "");
    if (!stages.has(base)) bases.push(base);
    if (stage !== undefined) stages.add(stage);
  }
  return bases;
}
