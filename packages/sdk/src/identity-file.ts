import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { errorText } from "@sallyport/async";
import { type Identity, type IdentityConfig, identityFromPem, loadIdentity } from "@sallyport/wire";
import { IdentityFileError } from "./errors.ts";

/** An SDK identity file, as every implementation writes it (docs/protocol/identity.md "Identity file"). */
export interface IdentityFile {
  /** Base URL of the client API, `https://host:port/edge/client/v1`. */
  readonly ztAPI: string;
  /** Several of them; counts more than `ztAPI` when it is not empty. */
  readonly ztAPIs?: readonly string[] | null | undefined;
  readonly configTypes?: readonly string[] | null | undefined;
  readonly id: IdentityConfig;
  readonly enableHa?: boolean | null | undefined;
}

/** An identity file with everything in it read. */
export interface LoadedIdentity {
  /** `https://host:port` of the controllers, one at least. */
  readonly controllerUrls: readonly string[];
  readonly configTypes: readonly string[];
  readonly identity: Identity;
}

/**
 * Reads an identity file, or takes its content.
 *
 * @param source path of the file, or the object in it (relative paths in it start from the working folder)
 * @throws IdentityFileError `IDENTITY_FILE_INVALID`
 */
export async function loadIdentityFile(source: string | IdentityFile): Promise<LoadedIdentity> {
  const where = typeof source === "string" ? source : "the identity";
  const fail = (what: string, cause?: unknown) =>
    new IdentityFileError("IDENTITY_FILE_INVALID", `${where}: ${what}; enroll again to get a working identity file`, {
      cause,
    });
  try {
    const content: unknown = typeof source === "string" ? JSON.parse(await readFile(source, "utf8")) : source;
    if (!isIdentityFile(content)) {
      throw fail("expected a JSON object with ztAPI (text) and id (an object with cert and key)");
    }
    const addresses = content.ztAPIs?.length ? content.ztAPIs : [content.ztAPI];
    const baseDir = typeof source === "string" ? dirname(resolve(source)) : process.cwd();
    return {
      controllerUrls: [...new Set(addresses.map((address) => controllerOf(address, fail)))],
      configTypes: content.configTypes ?? [],
      identity: await loadIdentity(content.id, baseDir),
    };
  } catch (error) {
    throw error instanceof IdentityFileError ? error : fail(errorText(error), error);
  }
}

function controllerOf(address: string, fail: (what: string) => IdentityFileError): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol !== "https:") throw fail(`expected ztAPI to be https://host:port, got ${JSON.stringify(address)}`);
  return url.origin;
}

function isIdentityFile(value: unknown): value is IdentityFile {
  if (typeof value !== "object" || value === null) return false;
  const { ztAPI, ztAPIs, id } = value as Record<string, unknown>;
  if (typeof ztAPI !== "string" && !(Array.isArray(ztAPIs) && typeof ztAPIs[0] === "string")) return false;
  if (typeof id !== "object" || id === null) return false;
  const { cert, key } = id as Record<string, unknown>;
  return typeof cert === "string" && typeof key === "string";
}

/** The same identity that trusts others. */
export function withTrust(identity: Identity, caPem: string): Identity {
  const { certPem, keyPem } = identity;
  return caPem === identity.caPem ? identity : identityFromPem({ certPem, keyPem, caPem });
}
