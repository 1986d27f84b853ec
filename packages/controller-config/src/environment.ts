import { type Document, isScalar, Scalar, visit } from "yaml";

const VARIABLE = /\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g;
const NUMBER = /^[-+]?\d+(\.\d+)?$/;

/** A variable that a file names and the environment does not have. */
export interface UnsetVariable {
  readonly name: string;
  /** Offset of the value in the text. */
  readonly offset: number;
}

/**
 * Replaces `$VAR` and `${VAR}` in every string value. An unset variable becomes empty text and is reported. A plain (not quoted) value that becomes
 * a number or a boolean is one.
 */
export function substituteEnvironment(document: Document, env: NodeJS.ProcessEnv): UnsetVariable[] {
  const unset: UnsetVariable[] = [];
  visit(document, {
    Scalar(key, node) {
      if (key === "key" || !isScalar(node) || typeof node.value !== "string") return;
      const text = node.value.replace(VARIABLE, (_all, braced: string | undefined, bare: string | undefined) => {
        const name = braced ?? bare ?? "";
        const value = env[name];
        if (value === undefined) unset.push({ name, offset: node.range?.[0] ?? 0 });
        return value ?? "";
      });
      if (text === node.value) return;
      node.value = node.type === Scalar.PLAIN ? typed(text) : text;
    },
  });
  return unset;
}

function typed(text: string): string | number | boolean {
  if (NUMBER.test(text)) return Number(text);
  if (text === "true" || text === "false") return text === "true";
  return text;
}
