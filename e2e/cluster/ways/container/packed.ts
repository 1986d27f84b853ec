import { join } from "node:path";
import { build } from "rolldown";

/** The programs of a container that are this repository's: name of the file -> source. */
const SOURCES = {
  "main.js": join(import.meta.dirname, "first-program.ts"),
  "box.js": join(import.meta.dirname, "..", "..", "box", "main.ts"),
};

/** Each as one file, with all that it needs of the repository and of npm. */
export async function packedPrograms(): Promise<Readonly<Record<string, string>>> {
  const packed = Object.entries(SOURCES).map(async ([name, source]) => {
    const { output } = await build({
      input: source,
      platform: "node",
      logLevel: "warn",
      write: false,
      output: { format: "esm", codeSplitting: false },
    });
    return [name, output[0].code] as const;
  });
  return Object.fromEntries(await Promise.all(packed));
}
