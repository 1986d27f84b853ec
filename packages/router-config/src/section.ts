import { z } from "zod";

/** Set on issues about unknown keys; they become warnings, because every other reader of these files ignores them. */
export const UNKNOWN_KEY = "unrecognized_keys";

/**
 * A mapping with exactly these keys. An unknown key is reported with the nearest known name.
 */
export function section<const Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== UNKNOWN_KEY) return issue.code === "invalid_type" ? "a mapping" : undefined;
      return JSON.stringify(issue.keys.map((key) => nearest(key, known) ?? ""));
    },
  });
}

/** A key that other programs write or read and that means nothing here; `without-effect.ts` says why. */
export const ignored = () => z.unknown().optional();

/** The known name closest to `key`, when it is close enough to be a slip of the pen. */
export function nearest(key: string, known: readonly string[]): string | undefined {
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(key.toLowerCase(), name.toLowerCase());
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  return best !== undefined && best.distance <= Math.max(2, Math.floor(key.length / 3)) ? best.name : undefined;
}

function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8 || a.length > 64) return 99;
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 99;
}
