import { TimeSlice } from "@sallyport/async";
import { edgeCtrlPb, encodeControl } from "@sallyport/wire";
import type { NetworkModel } from "./network-model.ts";

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
const MAX_MEMBERS_NAMED = 20;
const DIFFS_PER_PART = 1_000;

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
        else if (entityType === "service-policy") {
          const detail = await memberDifference(id, expected, actual, slice);
          if (detail !== undefined) differs(id, "different", detail);
        }
      }
      if (slice.isOver) await slice.pause();
    }
    for (const id of found.ids()) {
      const isKept = wanted.has(id) || (entityType === "revocation" && hasExpired(actual, id));
      if (!isKept) differs(id, "extra", "only the router has it");
      if (slice.isDue) await slice.pause();
    }
  }
  return comparison;
}

/** A controller removes such a revocation at once, a router somewhat later. */
function hasExpired({ revocations }: NetworkModel, id: string): boolean {
  return (revocations.get(id)?.expiresAt ?? 0) <= Date.now();
}

/** In which identities and services a policy differs that selects other ones; there may be very many. */
async function memberDifference(
  policyId: string,
  expected: NetworkModel,
  actual: NetworkModel,
  slice: TimeSlice,
): Promise<string | undefined> {
  const missing = await membersWithout(policyId, expected, actual, slice);
  const extra = await membersWithout(policyId, actual, expected, slice);
  if (missing.length === 0 && extra.length === 0) return undefined;
  return `without the members ${JSON.stringify(missing)}, and with ${JSON.stringify(extra)} that were not expected`;
}

/** Members of a policy in one model that it does not have in the other, at most {@link MAX_MEMBERS_NAMED}. */
async function membersWithout(policyId: string, model: NetworkModel, other: NetworkModel, slice: TimeSlice) {
  const ids: string[] = [];
  const [policy, others] = [model.policies.get(policyId), other.policies.get(policyId)];
  for (const kind of ["identities", "services"] as const) {
    const slots = kind === "identities" ? model.identitySlots : model.serviceSlots;
    for (const slot of policy?.[kind] ?? []) {
      const id = slots.idOf(slot) ?? "";
      const otherSlot = other[kind].get(id)?.slot;
      if (otherSlot === undefined || others?.[kind].has(otherSlot) !== true) ids.push(id);
      if (ids.length === MAX_MEMBERS_NAMED) return ids;
      if (slice.isDue) await slice.pause();
    }
  }
  return ids;
}

/** The answer as it is sent. It has a difference for every entity when the router has nothing, so it is made in slices, too. */
export async function encodeComparison({ diffs, ...counts }: ModelComparison): Promise<Buffer> {
  const slice = new TimeSlice();
  const schema = edgeCtrlPb.RouterDataModelValidateResponseSchema;
  // Lists of parts follow each other, which is how they merge.
  const parts = [encodeControl(schema, counts)];
  for (let at = 0; at < diffs.length; at += DIFFS_PER_PART) {
    parts.push(encodeControl(schema, { diffs: diffs.slice(at, at + DIFFS_PER_PART) }));
    if (slice.isOver) await slice.pause();
  }
  return Buffer.concat(parts);
}

/** How many entities of each kind there are. */
export function countEntities(model: NetworkModel): Record<string, number> {
  return Object.fromEntries(Object.entries(kindsOf(model)).map(([kind, { size }]) => [kind, size]));
}

function kindsOf(model: NetworkModel) {
  const policies = new Map([...model.policies.all()].map((policy) => [policy.id, policy]));
  return {
    "config-type": kind(model.configTypes, (name) => name),
    config: kind(model.configs, ({ typeId, dataJson }) => [typeId, dataJson]),
    identity: kind(model.identities, (_known, id) => model.identity(id)),
    service: kind(model.services, (s) => [s.name, s.isEncrypted, [...s.configIds].sort()]),
    "posture-check": kind(model.checks, (check) => check),
    "service-policy": kind(policies, (policy) => [policy.type, [...policy.checkIds].sort()]),
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
