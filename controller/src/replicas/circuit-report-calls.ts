import { z } from "zod";
import type { CircuitReport, FabricReplicas } from "../fabric/replicas.ts";
import type { Call } from "./calls.ts";
import type { ReplicaCalls } from "./replica-calls.ts";

/** Reports that go in one question. */
const MAX_REPORTS = 1_000;
const MAX_TEXT = 256;

const about = { circuitId: z.string().max(MAX_TEXT), routerId: z.string().max(MAX_TEXT) };
const report = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ended"), ...about }),
  z.object({ kind: z.literal("unforwardable"), ...about }),
  z.object({
    kind: z.literal("idle"),
    ...about,
    idleNs: z
      .string()
      .regex(/^-?\d{1,20}$/)
      .optional(),
  }),
]);
type Told = z.infer<typeof report>;

/** What routers have said to the asker about circuits of the asked replica, which it acts on. */
const CIRCUIT_REPORTS: Call<{ reports: Told[] }, boolean> = {
  name: "circuit reports",
  question: z.object({ reports: z.array(report).max(MAX_REPORTS) }),
  answer: z.boolean(),
};

/** Passes reports of routers on between replicas. Each names the router that sent it: the replica that it is connected to says so. */
export class CircuitReportCalls implements Pick<FabricReplicas, "pass" | "onReports"> {
  readonly #calls: ReplicaCalls;
  #hear: (reports: readonly CircuitReport[]) => Promise<void> = async () => undefined;

  constructor(calls: ReplicaCalls) {
    this.#calls = calls;
    calls.serve(CIRCUIT_REPORTS, async ({ reports }) => {
      await this.#hear(reports.map(heard));
      return { value: true, items: [] };
    });
  }

  async pass(controllerId: string, reports: readonly CircuitReport[]): Promise<void> {
    for (let at = 0; at < reports.length; at += MAX_REPORTS) {
      const part = reports.slice(at, at + MAX_REPORTS).map(told);
      await this.#calls.ask(controllerId, CIRCUIT_REPORTS, { reports: part });
    }
  }

  onReports(hear: (reports: readonly CircuitReport[]) => Promise<void>): () => void {
    this.#hear = hear;
    return () => {
      this.#hear = async () => undefined;
    };
  }
}

function told(of: CircuitReport): Told {
  if (of.kind !== "idle") return of;
  const { idleNs, ...rest } = of;
  return idleNs === undefined ? rest : { ...rest, idleNs: String(idleNs) };
}

function heard(of: Told): CircuitReport {
  return of.kind === "idle" ? { ...of, idleNs: of.idleNs === undefined ? undefined : BigInt(of.idleNs) } : of;
}
