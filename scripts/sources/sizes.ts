import { dirname } from "node:path";

const MAX_LINES = 400;
const MAX_FILES_IN_FOLDER = 25;

/** What is too large: files of more than {@link MAX_LINES} lines, folders with more than {@link MAX_FILES_IN_FOLDER} files. */
export function tooLarge(files: readonly string[], read: (file: string) => string): string[] {
  const lines = files.map((file) => ({ file, count: read(file).split("\n").length - 1 }));
  const folders = Map.groupBy(files, dirname);
  return [
    ...lines
      .filter(({ count }) => count > MAX_LINES)
      .map(({ file, count }) => `${file}: ${count} lines, at most ${MAX_LINES}`),
    ...[...folders]
      .filter(([, inside]) => inside.length > MAX_FILES_IN_FOLDER)
      .map(
        ([folder, { length }]) =>
          `${folder}: ${length} files, at most ${MAX_FILES_IN_FOLDER}: make a folder for those that belong together`,
      ),
  ];
}
