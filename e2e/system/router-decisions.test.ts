/** A router decides as the controller does: random networks, whose answers both give. */

import { create } from "@bufbuild/protobuf";
import { evaluate, NOTHING_REPORTED, type PostureCheck, reportsOfWire } from "@sallyport/posture";
import { edgeClientPb, silentLogger } from "@sallyport/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeState } from "../../controller/src/model/data-model/encoding.ts";
import {
  identityEvent,
  policyChangeEvents,
  policyEvent,
  postureCheckEvent,
  serviceEvent,
} from "../../controller/src/model/data-model/events.ts";
import { PolicyIndex } from "../../controller/src/policy/policy-index.ts";
import { matches } from "../../controller/src/policy/selector.ts";
import { RouterAccess } from "../../router/src/access/access.ts";
import { modelOf } from "../../router/src/control/data-model/network-model.ts";

const attrs = fc.subarray(["a", "b", "c"]);
const named = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);
const [SERVICES, IDENTITIES, CHECKS] = [named("s", 6), named("i", 6), named("c", 3)];
const attributed = (ids: string[]) => fc.tuple(...ids.map((id) => attrs.map((list) => ({ id, attrs: list }))));
const selector = (ids: string[]) => fc.record({ all: fc.boolean(), attrs, ids: fc.subarray(ids, { maxLength: 2 }) });
const policy = fc.record({
  type: fc.constantFrom("Dial" as const, "Bind" as const),
  semantic: fc.constantFrom("AnyOf" as const, "AllOf" as const),
  identities: selector(IDENTITIES),
  services: selector(SERVICES),
  postureChecks: fc.oneof(selector(CHECKS), fc.constant({ all: false, attrs: [], ids: [] })),
});
const network = fc.record({
  services: attributed(SERVICES),
  identities: attributed(IDENTITIES),
  checks: attributed(CHECKS),
  policies: fc.array(policy, { maxLength: 8 }),
  disabled: fc.subarray(IDENTITIES, { maxLength: 1 }),
  domain: fc.constantFrom(...CHECKS, "none"),
});

test("what an identity may dial and bind, with the posture that its device reported", async () => {
  await fc.assert(
    fc.asyncProperty(network, async ({ services, identities, checks, policies: made, disabled, domain }) => {
      const policies = made.map((each, n) => ({ id: `p${n}`, ...each }));
      const common = { name: "check", createdAt: new Date(0), updatedAt: new Date(0) };
      const postureChecks = checks.map((each) => {
        const check: PostureCheck = { ...common, id: each.id, typeId: "DOMAIN", domains: [each.id] };
        return { ...each, check };
      });
      const index = PolicyIndex.build({
        ...{ services, postureChecks, servicePolicies: policies },
        ...{ routers: [], edgeRouterPolicies: [], serviceEdgeRouterPolicies: [] },
      });
      const selected =
        (list: readonly { id: string; attrs: string[] }[], by: "identities" | "services" | "postureChecks") =>
        (each: (typeof policies)[number]) =>
          list.filter((one) => matches(each[by], each.semantic, one)).map(({ id }) => id);
      const noHosting = {
        defaultHostingPrecedence: "default",
        defaultHostingCost: 0,
        serviceHostingPrecedences: {},
      } as const;
      const events = [
        ...identities.map(({ id }) =>
          identityEvent({
            ...{ id, name: id, ...noHosting, serviceHostingCosts: {}, appData: {}, serviceConfigs: [] },
            isDisabled: disabled.includes(id),
          }),
        ),
        ...services.map(({ id }) => serviceEvent({ id, name: id, encryptionRequired: false, configs: [] })),
        ...checks.map(({ id }) => postureCheckEvent({ id, name: id, typeId: "DOMAIN", data: { domains: [id] } })),
        ...policies.map(({ id, type }) => policyEvent({ id, name: id, type })),
        ...policies.flatMap((each) => [
          ...policyChangeEvents({
            policyId: each.id,
            kind: "identity",
            ids: selected(identities, "identities")(each),
            isMember: true,
          }),
          ...policyChangeEvents({
            policyId: each.id,
            kind: "service",
            ids: selected(services, "services")(each),
            isMember: true,
          }),
          ...policyChangeEvents({
            policyId: each.id,
            kind: "posture_check",
            ids: selected(checks, "postureChecks")(each),
            isMember: true,
          }),
        ]),
      ];
      const { body } = await encodeState(events, 1n, "t");
      const model = await modelOf(body);
      const source = { model, hasModel: true, publicKey: () => undefined, onChange: () => () => {} };
      const access = new RouterAccess({ source, log: silentLogger });
      const claims = {
        token: "",
        tokenId: "",
        identityId: "",
        apiSessionId: "a",
        issuedAt: 0,
        endsAt: 0,
        fingerprints: [],
        allowsExpiredCertificates: false,
      };
      const responses = create(edgeClientPb.PostureResponsesSchema, {
        responses: [{ type: { case: "domain", value: { name: domain } } }],
      });
      access.joined(claims);
      access.reported(claims, responses);
      const known = reportsOfWire(responses, NOTHING_REPORTED, 0)?.state ?? NOTHING_REPORTED;
      for (const identity of identities) {
        for (const service of services) {
          for (const type of ["Dial", "Bind"] as const) {
            const granting = index.granting(identity, service.id, type);
            const results = granting.map((each) => evaluate(index.checksOf(each), known, 0));
            const isAllowed = !disabled.includes(identity.id) && results.some(({ isPassing }) => isPassing);
            const verdict = access.may({ identityId: identity.id, apiSessionId: "a", serviceId: service.id, type });
            expect(verdict.isAllowed).toBe(isAllowed);
            if (verdict.isAllowed || disabled.includes(identity.id)) continue;
            expect(verdict.reason).toBe(granting.length === 0 ? "no policy" : "posture");
            expect(verdict.failingCheckIds).toEqual([...new Set(results.flatMap(({ failing }) => failing))].sort());
          }
        }
      }
      access.close();
    }),
    { numRuns: 100 },
  );
});
