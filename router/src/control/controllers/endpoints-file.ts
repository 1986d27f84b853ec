import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type Address, formatAddress, type Logger, parseAddress } from "@sallyport/wire";
import { parse, stringify } from "yaml";

/**
 * The controllers' addresses as the network last announced them; what is in the file has precedence over `ctrl.endpoint`
 * and `ctrl.endpoints`. A missing, unreadable or empty file gives an empty list; what cannot be read is logged.
 */
export async function readEndpointsFile(file: string, log: Logger): Promise<Address[]> {
  let content: unknown;
  try {
    content = parse(await readFile(file, "utf8"));
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (!isMissing) log.warn({ file, err: error }, "the endpoints file cannot be read; the configuration counts");
    return [];
  }
  if (typeof content !== "object" || content === null) return [];
  const key = Object.keys(content).find((name) => name.toLowerCase() === "endpoints");
  const list: unknown = key === undefined ? undefined : (content as Record<string, unknown>)[key];
  if (!Array.isArray(list)) return [];
  return list.flatMap((item) => {
    try {
      return [parseAddress(String(item))];
    } catch (error) {
      log.warn({ file, address: String(item), err: error }, "the endpoints file names an address that cannot be used");
      return [];
    }
  });
}

/** Writes the file (mode 0600, its directory 0700) so that a reader sees the old or the new content, never a part. */
export async function writeEndpointsFile(file: string, endpoints: readonly Address[]): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${process.pid}.new`;
  await writeFile(temporary, stringify({ endpoints: endpoints.map(formatAddress) }), { mode: 0o600 });
  await rename(temporary, file);
}
