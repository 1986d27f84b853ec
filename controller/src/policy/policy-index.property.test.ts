import fc from "fast-check";
import { expect, test } from "vitest";
import { PolicyIndex } from "./policy-index.ts";
import { matches } from "./selector.ts";

const ATTRS = ["a", "b", "c", "d"];
const ids = Array.from({ length: 40 }, (_, n) => `service-${(n * 7) % 40}`);
const attrs = fc.subarray(ATTRS);
const selector = fc.record({
  all: fc.constant(false),
  attrs,
  ids: fc.subarray(ids, { maxLength: 3 }),
});
const policy = fc.record({
  type: fc.constantFrom("Dial" as const, "Bind" as const),
  semantic: fc.constantFrom("AnyOf" as const, "AllOf" as const),
  identities: fc.oneof(selector, fc.constant({ all: true, attrs: [], ids: [] })),
  services: fc.oneof(selector, fc.constant({ all: true, attrs: [], ids: [] })),
});
const change = fc.oneof(
  fc.record({ kind: fc.constant("service" as const), id: fc.constantFrom(...ids), attrs }),
  fc.record({ kind: fc.constant("no service" as const), id: fc.constantFrom(...ids) }),
  fc.record({ kind: fc.constant("policy" as const), slot: fc.nat(5), policy }),
  fc.record({ kind: fc.constant("no policy" as const), slot: fc.nat(5) }),
);

test("pages, counts and permissions of granted services are those of looking at every service and every policy", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 80 }), attrs, (changes, own) => {
      const index = new PolicyIndex();
      const services = new Map<string, { id: string; attrs: string[] }>();
      const policies = new Map<string, typeof policy extends fc.Arbitrary<infer P> ? P : never>();
      for (const each of changes) {
        if (each.kind === "service") {
          const service = { id: each.id, attrs: each.attrs };
          services.set(each.id, service);
          index.putService(service);
        } else if (each.kind === "no service") {
          services.delete(each.id);
          index.removeService(each.id);
        } else if (each.kind === "policy") {
          const id = `policy-${each.slot}`;
          policies.set(id, each.policy);
          index.putServicePolicy({ id, ...each.policy, postureChecks: { all: false, attrs: [], ids: [] } });
        } else {
          policies.delete(`policy-${each.slot}`);
          index.removeServicePolicy(`policy-${each.slot}`);
        }
      }
      const identity = { id: "me", attrs: own };
      const mine = [...policies.values()].filter((each) => matches(each.identities, each.semantic, identity));
      const permissionsOn = (service: { id: string; attrs: string[] }) =>
        (["Bind", "Dial"] as const).filter((type) =>
          mine.some((each) => each.type === type && matches(each.services, each.semantic, service)),
        );
      const granted = index.grantedTo(identity);
      for (const permission of [undefined, "Dial", "Bind"] as const) {
        const expected = [...services.values()]
          .filter((service) => {
            const permissions = permissionsOn(service);
            return permission === undefined ? permissions.length > 0 : permissions.includes(permission);
          })
          .map(({ id }) => id)
          .sort();
        expect(granted.count(permission)).toBe(expected.length);
        expect(granted.ids(permission)).toEqual(expected);
        expect(granted.ids(permission, 3, 4)).toEqual(expected.slice(3, 7));
      }
      for (const service of services.values()) {
        expect(granted.permissionsOn(service.id)).toEqual(permissionsOn(service));
      }
      expect(granted.permissionsOn("unknown")).toEqual([]);
    }),
    { numRuns: 200 },
  );
});
