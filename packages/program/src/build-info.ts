import { readFileSync } from "node:fs";

/**
 * The version of the product, such as `1.2.3`, from the package.json above the folder of a program's file.
 * @param programFile its URL: `import.meta.url` of `src/main.ts`
 */
export function productVersion(programFile: string): string {
  const text = readFileSync(new URL("../package.json", programFile), "utf8");
  return String((JSON.parse(text) as { version: string }).version);
}

/** The metric that every program with metrics has (docs/monitoring.md). Its value is 1; its labels tell builds apart. */
export const BUILD_INFO = { name: "sallyport_build_info", help: "1; the labels are the versions of program and Node" };

/** The labels of {@link BUILD_INFO}: program (`controller`, `router`, `operator`), its version, and Node's, such as `26.1.0`. */
export function buildInfoLabels(program: string, version: string): Readonly<Record<string, string>> {
  return { program, version, node: process.versions.node };
}
