import { isOfOperator } from "@sallyport/resources";
import { LineCounter, parseDocument } from "yaml";
import { LookUpProblem } from "../../entity/reconcile.ts";
import type { SecretObject } from "../../kube/kinds.ts";

type Data = Readonly<Record<string, unknown>>;

/** The config in one value of a Secret: JSON or YAML. What is said about a bad one never shows what is in it. */
export function configOf(
  secret: SecretObject | undefined,
  { name, key }: { readonly name: string; readonly key: string },
): Data | LookUpProblem {
  if (secret === undefined)
    return new LookUpProblem("SecretNotFound", `there is no Secret ${name}: create it with the key ${key}`, {
      isStalled: false,
    });
  if (isOfOperator(secret.metadata)) {
    // A user who may declare configs and identities would read keys and passwords that the operator made for others.
    const message = `the Secret ${name} is one that the operator itself has made: credentials are no configs; name another one`;
    return new LookUpProblem("SecretNotAllowed", message, { isStalled: true });
  }
  const value = secret.data?.[key];
  if (value === undefined) {
    const keys = Object.keys(secret.data ?? {}).join(", ") || "none";
    return new LookUpProblem("SecretKeyNotFound", `the Secret ${name} has no key ${key}; it has: ${keys}`, {
      isStalled: false,
    });
  }
  const lines = new LineCounter();
  const document = parseDocument(Buffer.from(value, "base64").toString("utf8"), {
    lineCounter: lines,
    logLevel: "silent",
  });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    return new LookUpProblem(
      "SecretInvalid",
      `the key ${key} of the Secret ${name} is neither JSON nor YAML: ${error.code} in line ${line}, column ${col}`,
      { isStalled: true },
    );
  }
  const data: unknown = toPlain(document);
  if (typeof data === "object" && data !== null && !Array.isArray(data)) return data as Data;
  return new LookUpProblem(
    "SecretInvalid",
    `the key ${key} of the Secret ${name} has to hold an object with the fields of the config`,
    { isStalled: true },
  );
}

/** Aliases that grow without bound count as no value. */
function toPlain(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return undefined;
  }
}

/** Takes the values of a secret config out of a text, such as a controller's refusal of it. */
export function withoutValues(text: string, data: unknown): string {
  return [...valuesOf(data)]
    .filter((value) => value.length >= 3)
    .sort((left, right) => right.length - left.length)
    .reduce((kept, value) => kept.replaceAll(value, "[redacted]"), text);
}

function* valuesOf(data: unknown): Generator<string> {
  if (typeof data === "object" && data !== null) for (const value of Object.values(data)) yield* valuesOf(value);
  else if (typeof data === "string" || typeof data === "number") yield String(data);
}
