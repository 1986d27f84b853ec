/** `--ca-cert` and `--ca-key`: an authority of the operator's own. */
import { readFile } from "node:fs/promises";
import type { KeyedCertificate } from "../pki/issue.ts";
import { UsageError } from "./command.ts";

export interface CaFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Both files of an authority, or none. @throws UsageError */
export function caFiles(certFile: string | undefined, keyFile: string | undefined): CaFiles | undefined {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (!certFile || !keyFile) throw new UsageError("--ca-cert and --ca-key belong together");
  return { certFile, keyFile };
}

export async function readCa({ certFile, keyFile }: CaFiles): Promise<KeyedCertificate> {
  return { certPem: await readFile(certFile, "utf8"), keyPem: await readFile(keyFile, "utf8") };
}
