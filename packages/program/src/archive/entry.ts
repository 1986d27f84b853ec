/** One path of an archive: of an image's file system, or of a package. Everything belongs to root and nothing has a date, except where the entry says so. */
export type Entry =
  | { readonly kind: "file"; readonly path: string; readonly content: Buffer; readonly isExecutable: boolean }
  | { readonly kind: "link"; readonly path: string; readonly target: string }
  | {
      readonly kind: "folder";
      readonly path: string;
      readonly mode: number;
      readonly uid: number;
      readonly gid: number;
    };

/** Two entries want the same path, or a path is not one of an archive. */
export class EntryError extends Error {
  override name = "EntryError";
}

export function file(path: string, content: Buffer | string, isExecutable = false): Entry {
  return { kind: "file", path, content: Buffer.from(content), isExecutable };
}

export function link(path: string, target: string): Entry {
  return { kind: "link", path, target };
}

export function folder(path: string, mode = 0o755, owner: { uid: number; gid: number } = { uid: 0, gid: 0 }): Entry {
  return { kind: "folder", path, mode, ...owner };
}

/**
 * The entries in the order of their paths, with the folders above them.
 *
 * @throws EntryError for a path that is not absolute and plain, and for a path that two entries give differently
 */
export function completed(entries: readonly Entry[]): Entry[] {
  const byPath = new Map<string, Entry>();
  for (const entry of entries) {
    if (!/^(\/[^/\0]+)+$/.test(entry.path) || entry.path.split("/").some((part) => part === "." || part === ".."))
      throw new EntryError(`${entry.path} is no path of an archive: expected an absolute one without "." and ".."`);
    const other = byPath.get(entry.path);
    if (other !== undefined && !isSame(other, entry))
      throw new EntryError(`${entry.path} is to be two different things in one archive`);
    byPath.set(entry.path, entry);
  }
  for (const { path } of entries) {
    const parts = path.split("/").slice(1, -1);
    parts.forEach((_, index) => {
      const above = `/${parts.slice(0, index + 1).join("/")}`;
      const found = byPath.get(above);
      if (found === undefined) byPath.set(above, folder(above));
      else if (found.kind !== "folder") throw new EntryError(`${above} is no folder, and ${path} lies in it`);
    });
  }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function isSame(a: Entry, b: Entry): boolean {
  if (a.kind === "file" && b.kind === "file") return a.content.equals(b.content) && a.isExecutable === b.isExecutable;
  if (a.kind === "link" && b.kind === "link") return a.target === b.target;
  if (a.kind === "folder" && b.kind === "folder") return a.mode === b.mode && a.uid === b.uid && a.gid === b.gid;
  return false;
}
