const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
] as const;

/** A duration as the network's other programs write it: `52.1µs`, `1.5s`, `1m2.5s`; at most three digits behind the point. */
export function durationText(ns: number): string {
  if (ns <= 0) return "0s";
  const minutes = Math.floor(ns / 60e9);
  if (minutes > 0) {
    const rest = `${minutes % 60}m${shortNumber((ns % 60e9) / 1e9)}s`;
    return minutes >= 60 ? `${Math.floor(minutes / 60)}h${rest}` : rest;
  }
  for (const [unit, length] of UNITS) if (ns >= length) return `${shortNumber(ns / length)}${unit}`;
  return `${Math.max(1, Math.round(ns))}ns`;
}

function shortNumber(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}
