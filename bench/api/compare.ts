/** Runs the same work on both sides in turn and tells the medians, their ratio, and what is to be reached. */
import { median } from "./http-client.ts";
import type { Side } from "./sides.ts";

export type Emit = (figure: Readonly<Record<string, unknown>>) => void;

/** What one round on one side came to. */
export interface Round {
  /** The figure itself: operations per second, or milliseconds of one. */
  readonly value: number;
  /** How many operations the CPU time of the round is divided by. */
  readonly operations: number;
}

export interface Comparison {
  readonly figure: string;
  /** `per second`: more is better; `ms`: less is. */
  readonly unit: "per second" | "ms";
  /** How many times better than OpenZiti we want to be; absent for figures that are only told. */
  readonly target?: number;
  readonly rounds: number;
  readonly round: (side: Side, round: number) => Promise<Round>;
}

/** Interleaved rounds on the sides given, and one line for their medians. With one side there is no ratio. */
export async function compare(sides: readonly Side[], o: Comparison, emit: Emit): Promise<void> {
  const values = new Map<Side, number[]>(sides.map((side) => [side, []]));
  const cpu = new Map<Side, number[]>(sides.map((side) => [side, []]));
  for (let round = 0; round < o.rounds; round++) {
    // Who goes first changes from round to round.
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const before = side.cpuSeconds();
      const { value, operations } = await o.round(side, round);
      values.get(side)?.push(value);
      cpu.get(side)?.push(((side.cpuSeconds() - before) / operations) * 1_000);
    }
  }
  const figures: Record<string, unknown> = {};
  for (const side of sides) figures[side.label] = rounded(median(values.get(side) ?? []));
  for (const side of sides) figures[`${side.label}CpuMs`] = rounded(median(cpu.get(side) ?? []));
  const [ours, peer] = ["ours", "peer"].map((label) => figures[label] as number | undefined);
  const ratio = ours === undefined || peer === undefined ? undefined : o.unit === "ms" ? peer / ours : ours / peer;
  emit({
    figure: o.figure,
    unit: o.unit,
    ...figures,
    ...(ratio === undefined ? {} : { ratio: rounded(ratio) }),
    ...(o.target === undefined ? {} : { target: o.target }),
    ...(ratio === undefined || o.target === undefined ? {} : { isMet: ratio >= o.target }),
  });
}

export function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 100) / 100;
}
