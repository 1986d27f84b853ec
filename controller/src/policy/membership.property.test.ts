import fc from "fast-check";
import { expect, test } from "vitest";
import { Membership, type MembershipChange, type PolicySide } from "./membership.ts";
import { matches } from "./selector.ts";

/** Pauses after each step. */
const UNSLICED = { isDue: true, isOver: true, pause: async () => undefined };

const ids = Array.from({ length: 70 }, (_, n) => `e${n}`);
const id = fc.constantFrom(...ids);
const attrs = fc.subarray(["a", "b", "c", "d"]);
const selecting = fc.record({
  policyId: fc.constantFrom("p1", "p2", "p3"),
  semantic: fc.constantFrom("AnyOf" as const, "AllOf" as const),
  selector: fc.record({ all: fc.boolean(), attrs, ids: fc.subarray([...ids, "absent"], { maxLength: 3 }) }),
});
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("put" as const), id, attrs }) },
  fc.record({ kind: fc.constant("remove" as const), id }),
  fc.record({ kind: fc.constant("policy" as const), by: selecting }),
  fc.record({ kind: fc.constant("no policy" as const), policyId: fc.constantFrom("p1", "p2", "p3") }),
);

test("who is selected is what looking at every entity says, and every difference is reported once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.boolean(), async (steps, isSmall) => {
      const membership = new Membership({ isSmall });
      const entities = new Map<string, { id: string; attrs: string[] }>();
      const policies = new Map<string, PolicySide>();
      /** What a listener knows after every change. */
      const told = new Set<string>();
      const note = (changes: readonly MembershipChange[]) => {
        for (const { policyId, entityId, isMember } of changes) {
          expect(told.has(`${policyId} ${entityId}`)).toBe(!isMember);
          if (isMember) told.add(`${policyId} ${entityId}`);
          else told.delete(`${policyId} ${entityId}`);
        }
      };
      for (const each of steps) {
        if (each.kind === "put") {
          entities.set(each.id, { id: each.id, attrs: each.attrs });
          note(membership.put({ id: each.id, attrs: each.attrs }));
        } else if (each.kind === "remove") {
          entities.delete(each.id);
          note(membership.remove(each.id));
        } else if (each.kind === "policy") {
          policies.set(each.by.policyId, each.by);
          note(await membership.putPolicy(each.by, UNSLICED));
        } else {
          policies.delete(each.policyId);
          note(await membership.removePolicy(each.policyId, UNSLICED));
        }
      }
      const expected: string[] = [];
      for (const { policyId, selector, semantic } of policies.values()) {
        const members = [...entities.values()].filter((entity) => matches(selector, semantic, entity));
        expect([...membership.membersOf(policyId)].sort()).toEqual(members.map((entity) => entity.id).sort());
        expected.push(...members.map((entity) => `${policyId} ${entity.id}`));
      }
      expect([...told].sort()).toEqual(expected.sort());
      const rebuilt = new Membership({ isSmall: !isSmall });
      for (const entity of entities.values()) rebuilt.put(entity);
      await rebuilt.addPolicies([...policies.values()], UNSLICED);
      for (const policyId of policies.keys()) {
        expect([...rebuilt.membersOf(policyId)].sort()).toEqual([...membership.membersOf(policyId)].sort());
      }
      for (const side of policies.values()) rebuilt.setPolicy(side);
      for (const policyId of policies.keys()) {
        for (const entityId of ids) {
          expect(rebuilt.has(policyId, entityId)).toBe(told.has(`${policyId} ${entityId}`));
        }
      }
    }),
    { numRuns: 200 },
  );
});
