/** One line of the table: what was measured, beside what it should be. */
export interface Figure {
  readonly figure: string;
  /** What tells figures of one name apart: streams, whose ends, which router. */
  readonly of?: string;
  readonly value: number;
  readonly unit: string;
  /** The same of OpenZiti, or of the yardstick, in the same minutes. */
  readonly beside?: number;
  /** Compared with the target: `value` itself, or how it stands to `beside`. */
  readonly ratio?: number;
  /** What to reach, and what to aim at: `ratio` if there is one, else `value`. */
  readonly target?: Bound;
  readonly aim?: Bound;
  readonly isMet?: boolean;
  readonly details?: Readonly<Record<string, unknown>>;
}

export type Bound = { readonly atLeast: number } | { readonly atMost: number };

/** Everything that was emitted, in order. */
export const emitted: Figure[] = [];

/** Prints a figure as one line of JSON, rounded, and judged by its target. */
export function emit(figure: Omit<Figure, "isMet">): void {
  const judged = figure.ratio ?? figure.value;
  const whole: Figure = {
    ...figure,
    value: round(figure.value),
    ...(figure.beside !== undefined && { beside: round(figure.beside) }),
    ...(figure.ratio !== undefined && { ratio: round(figure.ratio) }),
    ...(figure.target !== undefined && { isMet: isWithin(judged, figure.target) }),
  };
  emitted.push(whole);
  console.log(JSON.stringify(whole));
}

/** Figures that miss their target, and those that could not be measured. */
export function missed(): Figure[] {
  return emitted.filter(({ isMet }) => isMet === false);
}

function isWithin(value: number, bound: Bound): boolean {
  if ("atLeast" in bound) return value >= bound.atLeast;
  return value <= bound.atMost;
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] ?? Number.NaN)) / 2;
}
