import type { NetworkModel } from "./network-model.ts";

/** An entity that two models have differently, in the words of the wire (20504). */
export interface ModelDifference {
  readonly entityType: string;
  readonly entityId: string;
  readonly diffType: string;
  readonly detail: string;
}

export interface ModelComparison {
  /** Entities by kind: of the model that was sent, and of the one here. */
  readonly origEntityCounts: Record<string, number>;
  readonly copyEntityCounts: Record<string, number>;
  readonly diffs: ModelDifference[];
}

/** What is different here from what a controller says it should be; of kinds and entities that routers of ours keep. */
export function compareModels(expected: NetworkModel, actual: NetworkModel): ModelComparison {
  const comparison: ModelComparison = { origEntityCounts: {}, copyEntityCounts: {}, diffs: [] };
  const here = actual.describe();
  for (const [entityType, wanted] of expected.describe()) {
    const found = here.get(entityType) ?? new Map<string, string>();
    comparison.origEntityCounts[entityType] = wanted.size;
    comparison.copyEntityCounts[entityType] = found.size;
    const differs = (entityId: string, diffType: string, detail: string): void => {
      comparison.diffs.push({ entityType, entityId, diffType, detail });
    };
    for (const [id, text] of wanted) {
      const own = found.get(id);
      if (own === undefined) differs(id, "missing", "the router does not have it");
      else if (own !== text) differs(id, "different", `expected ${text}, the router has ${own}`);
    }
    for (const id of found.keys()) if (!wanted.has(id)) differs(id, "extra", "only the router has it");
  }
  return comparison;
}
