import { createPrivateKey, type KeyObject } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createKeyPair, type Logger } from "@sallyport/wire";
import { RouterEnrollError } from "./enroll-error.ts";

/** Kinds of keys that enrollment makes: EC P-256, RSA 4096. */
export type KeyAlgorithm = "EC" | "RSA";

const RSA_BITS = 4096;

/**
 * The key in the file, or a new one written there. A key that exists is used whatever it is, unless `algorithm` asks for
 * one kind: then another is an error. It is never overwritten.
 *
 * @throws RouterEnrollError
 */
export async function routerKey(file: string, algorithm: KeyAlgorithm | undefined, log: Logger): Promise<string> {
  let existing: string;
  try {
    existing = await readFile(file, "utf8");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) {
      throw new RouterEnrollError("KEY_UNREADABLE", `the key file ${file} cannot be read`, { cause: error });
    }
    const keyPem = await newKey(algorithm ?? "EC");
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    // "wx": should another process have made the key meanwhile, it is not lost.
    await writeFile(file, keyPem, { mode: 0o600, flag: "wx" });
    log.info({ file, algorithm: algorithm ?? "EC" }, "made a new key");
    return keyPem;
  }
  let key: KeyObject;
  try {
    key = createPrivateKey(existing);
  } catch (cause) {
    throw new RouterEnrollError(
      "KEY_UNREADABLE",
      `${file} exists and holds no private key that can be read; it is not overwritten, remove it to get a new one`,
      { cause },
    );
  }
  const found = kindOf(key);
  if (algorithm !== undefined && found !== STANDARD[algorithm]) {
    throw new RouterEnrollError(
      "KEY_MISMATCH",
      `${file} exists and holds a key of the kind ${found}, not ${STANDARD[algorithm]}; it is not overwritten: remove it, or leave out --key-alg`,
    );
  }
  log.info({ file, kind: found }, "using the key that exists");
  return existing;
}

const STANDARD: Readonly<Record<KeyAlgorithm, string>> = { EC: "EC prime256v1", RSA: `RSA ${RSA_BITS}` };

function kindOf(key: KeyObject): string {
  const details = key.asymmetricKeyDetails;
  switch (key.asymmetricKeyType) {
    case "ec":
      return `EC ${details?.namedCurve ?? ""}`;
    case "rsa":
      return `RSA ${details?.modulusLength ?? 0}`;
    default:
      return key.asymmetricKeyType ?? "unknown";
  }
}

async function newKey(algorithm: KeyAlgorithm): Promise<string> {
  return (await createKeyPair(algorithm === "EC" ? "P-256" : `RSA-${RSA_BITS}`)).keyPem;
}
