import { TimeSlice } from "@sallyport/async";
import type { NetworkModel } from "./network-model.ts";
import type { ModelPolicy } from "./policy-members.ts";

/** In the words of the wire (20504). */
interface ModelComparison {
  /** Entities by kind: of the model that was sent, and of the one here. */
  readonly origEntityCounts: Record<string, number>;
  readonly copyEntityCounts: Record<string, number>;
  readonly diffs: { entityType: string; entityId: string; diffType: string; detail: string }[];
}

interface Kind {
  readonly size: number;
  has(id: string): boolean;
  ids(): Iterable<string>;
  /** Everything kept of the entity, as comparable text. */
  text(id: string): string;
}

const MAX_DETAIL_LENGTH = 1_000;

/** What is different here from what a controller says it should be. */
export async function compareModels(expected: NetworkModel, actual: NetworkModel): Promise<ModelComparison> {
  const comparison: ModelComparison = { origEntityCounts: {}, copyEntityCounts: {}, diffs: [] };
  const slice = new TimeSlice();
  const here = kindsOf(actual);
  for (const [entityType, wanted] of Object.entries(kindsOf(expected))) {
    const found = here[entityType as keyof typeof here];
    comparison.origEntityCounts[entityType] = wanted.size;
    comparison.copyEntityCounts[entityType] = found.size;
    const differs = (entityId: string, diffType: string, detail: string): void => {
      comparison.diffs.push({ entityType, entityId, diffType, detail: detail.slice(0, MAX_DETAIL_LENGTH) });
    };
    for (const id of wanted.ids()) {
      if (!found.has(id)) {
        differs(id, "missing", "the router does not have it");
      } else {
        const [text, own] = [wanted.text(id), found.text(id)];
        if (own !== text) differs(id, "different", `expected ${text}, the router has ${own}`);
      }
      if (slice.isOver) await slice.pause();
    }
    for (const id of found.ids()) {
      if (wanted.has(id) || (entityType === "revocation" && hasExpired(actual, id))) continue;
      differs(id, "extra", "only the router has it");
    }
  }
  return comparison;
}

/** A controller removes such a revocation at once, a router somewhat later. */
function hasExpired({ revocations }: NetworkModel, id: string): boolean {
  return (revocations.get(id)?.expiresAt ?? 0) <= Date.now();
}

/** How many entities of each kind there are. */
export function countEntities(model: NetworkModel): Record<string, number> {
  return Object.fromEntries(Object.entries(kindsOf(model)).map(([kind, { size }]) => [kind, size]));
}

function kindsOf(model: NetworkModel) {
  const membersOf = ({ identities, services, checkIds }: ModelPolicy) => [
    [...identities].map((slot) => model.identitySlots.idOf(slot)).sort(),
    [...services].map((slot) => model.serviceSlots.idOf(slot)).sort(),
    [...checkIds].sort(),
  ];
  const policies = new Map([...model.policies.all()].map((policy) => [policy.id, policy]));
  return {
    "config-type": kind(model.configTypes, (name) => name),
    config: kind(model.configs, ({ typeId, dataJson }) => [typeId, dataJson]),
    identity: kind(model.identities, (_known, id) => model.identity(id)),
    service: kind(model.services, (s) => [s.name, s.isEncrypted, [...s.configIds].sort()]),
    "posture-check": kind(model.checks, (check) => check),
    "service-policy": kind(policies, (policy) => [policy.type, ...membersOf(policy)]),
    "public-key": kind(model.publicKeys, ({ data, format, usages }) => [data, format, [...usages].sort()]),
    revocation: kind(model.revocations, (revocation) => revocation),
  };
}

function kind<V>(table: ReadonlyMap<string, V>, fieldsOf: (value: V, id: string) => unknown): Kind {
  return {
    size: table.size,
    has: (id) => table.has(id),
    ids: () => table.keys(),
    text(id) {
      const value = table.get(id);
      return value === undefined ? "" : comparableText(fieldsOf(value, id));
    },
  };
}

function comparableText(fields: unknown): string {
  return JSON.stringify(fields, (_key, value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
