const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)/g;
const WHOLE = /^([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d))+|0)$/;

/**
 * Milliseconds of a duration text as Go writes it: an optional sign, then one or more numbers each with a unit (`1h30m`,
 * `1.5s`, `250ms`); `0` alone needs no unit. `undefined` when the text is not a duration.
 *
 * @param o.days whether the unit `d` (24 hours) counts, which Go does not have
 */
export function parseDuration(text: string, o: { readonly days?: boolean } = {}): number | undefined {
  const [, sign, body = ""] = WHOLE.exec(text) ?? [];
  if (sign === undefined || (o.days !== true && body.includes("d"))) return undefined;
  let total = 0;
  for (const [, amount, unit = ""] of body.matchAll(PART)) total += Number(amount) * (UNITS[unit] ?? 0);
  if (!Number.isFinite(total)) return undefined;
  return sign === "-" ? -total : total;
}

/** The shortest text of a duration in milliseconds: 90000 is `1m30s`, 1500 is `1.5s`, 250 is `250ms`. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms === 0) return "0s";
  if (ms < 1) return `${Math.round(ms * 1e6)}ns`;
  if (ms < 1000) return `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor((ms % 3_600_000) / 60_000);
  const seconds = (ms % 60_000) / 1000;
  return `${hours > 0 ? `${hours}h` : ""}${minutes > 0 ? `${minutes}m` : ""}${seconds > 0 ? `${seconds}s` : ""}`;
}
