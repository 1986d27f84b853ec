import { join } from "node:path";
import { Program } from "../../../e2e/network/program.ts";
import { emit } from "../figure.ts";
import type { Paths } from "../paths.ts";
import type { Effort } from "../row.ts";

const BOUNDS: Readonly<Record<number, { target: { atMost: number }; aim: { atMost: number } }>> = {
  16296: { target: { atMost: 1.15 }, aim: { atMost: 0.95 } },
  1024: { target: { atMost: 1.6 }, aim: { atMost: 1.2 } },
};

interface Line {
  readonly bodyLength: number;
  readonly ratio: number;
  readonly pipeCpuSecondsPerGB: number;
  readonly channelCpuSecondsPerGB: number;
}

/** The framing alone, beside a bare pipe: `bench:wire`, with its targets. */
export async function relay(_paths: Paths, effort: Effort): Promise<void> {
  const program = new Program({
    name: "wire-relay",
    command: process.execPath,
    args: [
      join(import.meta.dirname, "..", "..", "wire-relay.ts"),
      String(effort.bytes / 2e6),
      String(effort.rounds + 2),
    ],
  });
  if ((await program.exited) !== 0) throw new Error(`the relay of frames failed:\n${program.tail.join("\n")}`);
  for (const text of program.tail.filter((line) => line.startsWith("{"))) {
    const line = JSON.parse(text) as Line;
    emit({
      figure: "relay of frames beside a pipe",
      of: `payloads of ${line.bodyLength} bytes`,
      value: line.channelCpuSecondsPerGB,
      unit: "CPU s/GB",
      beside: line.pipeCpuSecondsPerGB,
      ratio: line.ratio,
      ...BOUNDS[line.bodyLength],
    });
  }
}
