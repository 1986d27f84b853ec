import { emit, median } from "../figure.ts";
import { roundTrips } from "../load.ts";
import { labels, type PathName, type Paths } from "../paths.ts";
import type { Effort } from "../row.ts";

/** One byte there and back on an open connection, one after the other. */
export async function roundTrip(paths: Paths, effort: Effort): Promise<void> {
  const measured = await paths.get("sdk", "tunnel", "mixed", "peer");
  const times = new Map<PathName, { p50Ms: number; p99Ms: number }[]>(measured.map(({ name }) => [name, []]));
  for (let round = 0; round < effort.rounds + 1; round++) {
    for (const path of measured) times.get(path.name)?.push(await roundTrips(path.port, effort.roundTrips));
  }
  for (const what of ["p50Ms", "p99Ms"] as const) {
    const of = (name: PathName): number => median((times.get(name) ?? []).map((time) => time[what]));
    for (const { name } of measured) {
      if (name === "peer") continue;
      emit({
        figure: `round trip of one byte, ${what.slice(0, 3)}`,
        of: labels[name],
        value: of(name),
        unit: "ms",
        ...(times.has("peer") && {
          beside: of("peer"),
          ratio: of(name) / of("peer"),
          target: { atMost: 1 },
          aim: { atMost: 0.5 },
        }),
      });
    }
  }
}
