import type { Kysely } from "kysely";

interface Step {
  /** Four digits and a name, for example `0002_entities`; applied in this order. The digits are its level. */
  readonly id: string;
  up(db: Kysely<unknown>): Promise<void>;
}

/** Programs of the last release work on, and write to, the schema that it leaves. */
interface Expansion extends Step {
  readonly kind: "expands";
}

/** It takes away what older programs need. Programs of its own release work with and without it. */
interface Contraction extends Step {
  readonly kind: "contracts";
  /** Level of the oldest program that works on the schema that it leaves. */
  readonly worksFrom: number;
}

/** One step of the schema. Source: docs/protocol/replicas.md, "Upgrades"; docs/contribute/migrations.md. */
export type Migration = Expansion | Contraction;

/** The schema level of a program that knows these migrations. */
export function levelOf(migrations: readonly Pick<Migration, "id">[]): number {
  return Math.max(0, ...migrations.map(({ id }) => Number(id.slice(0, 4))));
}
