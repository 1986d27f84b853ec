/** Entities that files declared once and declare no more. */

import type { EdgeRouterResource, FoundEntity } from "@sallyport/resources";
import { DECLARED_KINDS } from "./declared-kinds.ts";
import type { Declared } from "./manifests.ts";
import { fileUid, type Labels, type Mark, markOf } from "./marks.ts";
import type { KindState, NetworkState } from "./network-state.ts";
import { matches } from "./selector.ts";

export interface Deletion {
  readonly kind: KindState;
  readonly entity: FoundEntity;
  readonly mark: Mark;
  readonly title: string;
}

/** What files declare: all of it, and what of it is applied. */
interface Files {
  readonly all: readonly Declared[];
  readonly declared: readonly Declared[];
}

/**
 * In the order in which they may go: what refers to others goes first.
 *
 * @param selector of labels by which resources are pruned; undefined: none is
 */
export function deletionsOf({ all, declared }: Files, state: NetworkState, selector: Labels | undefined): Deletion[] {
  const kept = new Set(all.map(({ resource }) => keyOf(resource)));
  const replicas = new Map(declared.map(({ resource }) => [keyOf(resource), replicasOf(resource)]));
  const found: Deletion[] = [];
  for (const kind of state.loaded) {
    for (const entity of kind.entities) {
      const mark = markOf(entity.tags);
      if (mark === undefined || mark.kind !== kind.kind.kind) continue;
      const uid = fileUid(mark);
      const wanted = replicas.get(uid);
      const isSurplus = wanted !== undefined && mark.ordinal !== undefined && mark.ordinal >= wanted;
      const isPruned = !kept.has(uid) && selector !== undefined && matches(mark.labels, selector);
      if (isSurplus || isPruned) found.push({ kind, entity, mark, title: titleOf(mark) });
    }
  }
  const stages = new Map(DECLARED_KINDS.map(({ kind, stage }) => [kind, stage]));
  const stageOf = ({ kind }: Deletion): number => stages.get(kind.kind.kind) ?? 0;
  return found.sort((left, right) => stageOf(right) - stageOf(left) || left.title.localeCompare(right.title));
}

const keyOf = ({ kind, metadata: { namespace, name } }: Declared["resource"]): string =>
  fileUid({ kind, namespace, name });

/** Every other resource has one entity, which is no surplus. */
function replicasOf({ kind, spec }: Declared["resource"]): number {
  const isCounted = kind === "EdgeRouter" && spec.managementPolicy !== "Observe";
  return isCounted ? (spec as EdgeRouterResource["spec"]).replicas : Number.POSITIVE_INFINITY;
}

function titleOf({ kind, namespace, name, ordinal }: Mark): string {
  const place = namespace === "default" ? name : `${namespace}/${name}`;
  return `${kind}/${place}${ordinal === undefined ? "" : `-${ordinal}`}`;
}
