const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const part = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;
const whole = /^(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;

/** Milliseconds of a duration such as `5s`, `1m30s` or `100ms` (docs/protocol/configs.md); undefined when it is none. */
export function durationMs(text: string): number | undefined {
  if (text === "0") return 0;
  if (!whole.test(text)) return undefined;
  let total = 0;
  for (const [, digits = "", unit = ""] of text.matchAll(part)) total += Number(digits) * (unitMs[unit] ?? 0);
  return total;
}
