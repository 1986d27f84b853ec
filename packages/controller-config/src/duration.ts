const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|[smhd])/g;

/** Reads `30m`, `1h30m`, `500ms`, `365d` as milliseconds; undefined when it is not a duration. */
export function parseDuration(text: string): number | undefined {
  const compact = text.replaceAll(" ", "");
  if (!WHOLE.test(compact)) return undefined;
  let total = 0;
  for (const [, amount, unit] of compact.matchAll(PART)) total += Number(amount) * (UNITS[unit ?? ""] ?? 0);
  return Math.round(total);
}

/** Writes milliseconds in the largest unit that divides them: 1800000 is `30m`. */
export function formatDuration(milliseconds: number): string {
  for (const unit of ["d", "h", "m", "s"]) {
    const size = UNITS[unit] ?? 1;
    if (milliseconds >= size && milliseconds % size === 0) return `${milliseconds / size}${unit}`;
  }
  return `${milliseconds}ms`;
}
