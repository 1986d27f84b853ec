/** The small machinery of `packages/async`, written a second time: what each part looks like by hand, and where that is meant. */
import { lineAt } from "../repository.ts";

export interface Machinery {
  /** What to use in its place. */
  readonly use: string;
  readonly pattern: RegExp;
}

export const MACHINERY: readonly Machinery[] = [
  { use: "errorText", pattern: /\b(\w+) instanceof Error \? \1\.message : (?:String\(\1\)|\1\b)/g },
  { use: "pause", pattern: /new Promise(?:<\w+>)?\(\(?\w*\)? => (?:\{\s*)?setTimeout\(/g },
  { use: "Backoff", pattern: /((?:this\.)?#?[\w.]+) = Math\.min\((?:Math\.max\()?(?:\1 \* 2|2 \* \1)\b/g },
  { use: "backoffDelay", pattern: /Math\.min\([^;]*?\* 2 \*\* /g },
  { use: "SerialQueue", pattern: /((?:this\.)?#\w+) = \1\s*\.(?:then|catch|finally)\(/g },
  {
    use: "BoundedMap",
    pattern: /\.size >=? [\w.#]+ (?:\? [\w.#]+\.keys\(\)\.next\(\)|&& \w+ !== undefined\) [\w.#]+\.delete\()/g,
  },
  { use: "Listeners", pattern: /new Set<\([^>]*\) => void>\(\)/g },
];

export interface MeantCopy {
  readonly under: string;
  readonly use: string;
  readonly why: string;
}

export const MEANT_COPIES: readonly MeantCopy[] = [
  { under: "packages/wire/src/xgress/send/", use: "Backoff", why: "the data path: one number, no object per circuit" },
  { under: "packages/wire/src/xgress/send/", use: "backoffDelay", why: "the data path: whole rounds, no jitter" },
  {
    under: "controller/src/store/changes/change-log.ts",
    use: "SerialQueue",
    why: "its order of hand-outs is tested as it stands",
  },
  { under: "e2e/namespaces/interceptor-program.ts", use: "errorText", why: "other values stay what they are" },
  { under: "e2e/scenarios/traffic.ts", use: "pause", why: "the text of a program in a pod without packages" },
  { under: "router/src/tunnel/router-overlay.ts", use: "Listeners", why: "functions that clean up, each called once" },
];

export interface SecondCopy {
  readonly file: string;
  readonly line: number;
  readonly use: string;
}

/** Holds one source file against the patterns; `file` is its path from the repository's root. Tests and `packages/async` may write what they like. */
export function secondCopies(file: string, source: string, meant: readonly MeantCopy[] = MEANT_COPIES): SecondCopy[] {
  if (file.startsWith("packages/async/") || file.endsWith(".test.ts")) return [];
  return MACHINERY.flatMap(({ use, pattern }) =>
    meant.some((copy) => copy.use === use && file.startsWith(copy.under))
      ? []
      : [...source.matchAll(pattern)].map(({ index }) => ({
          file,
          line: lineAt(source, index),
          use,
        })),
  );
}
