import { checkOfWire } from "@sallyport/posture";
import { edgeClientPb } from "@sallyport/wire";
import { expect, it } from "vitest";
import type { IdentityView, PolicyView, ServiceView } from "../../access/ports.ts";
import { changesBetween, postureState, snapshotOf, statesLapseAt } from "./service-changes.ts";

const { Op, PolicyType } = edgeClientPb;

const service = (id: string, policyIds: string[], more: Partial<ServiceView> = {}): ServiceView => ({
  ...{ id, name: `name of ${id}`, isEncrypted: true, configIds: [], policyIds, configs: [] },
  ...more,
});
const policy = (id: string, checkIds: string[] = []): PolicyView => ({ id, type: "Dial", checkIds });
const check = (id: string, subtype: object) => checkOfWire({ id, name: id, typeId: "", subtype } as never);
const domain = (id: string, name: string) => check(id, { case: "domains", value: { domains: [name] } });

function view(
  index: bigint,
  services: ServiceView[],
  policies: PolicyView[],
  checks = [domain("c1", "a")],
): IdentityView {
  const byId = <T extends { readonly id: string }>(all: readonly T[]) => new Map(all.map((each) => [each.id, each]));
  return {
    ...{ index, services: byId(services), policies: byId(policies), checks: byId(checks) },
    checkStates: new Map(checks.map(({ id }) => [id, { isPassing: true }])),
    policyStates: new Map(policies.map(({ id }) => [id, true])),
  };
}

const before = view(5n, [service("s1", ["p1"]), service("s2", ["p2"])], [policy("p1", ["c1"]), policy("p2")]);

it("tells all of it at first", () => {
  const configs = [{ typeId: "t", typeName: "host.v1", dataJson: "{}" }];
  const bind: PolicyView = { id: "p2", type: "Bind", checkIds: [] };
  const all = view(7n, [service("s1", ["p1", "p2"], { configIds: ["k"], configs })], [policy("p1", ["c1"]), bind]);
  expect(snapshotOf(all)).toEqual({
    index: 7n,
    previousIndex: -1n,
    services: [
      {
        ...{ op: Op.Added, id: "s1", name: "name of s1", encryptionRequired: true, configs: ["k"] },
        ...{ policyIds: ["p1", "p2"], configData: configs },
      },
    ],
    policies: [
      { op: Op.Added, id: "p1", type: PolicyType.Dial, postureCheckIds: ["c1"] },
      { op: Op.Added, id: "p2", type: PolicyType.Bind, postureCheckIds: [] },
    ],
    postureChecks: [{ op: Op.Added, id: "c1", type: "DOMAIN" }],
  });
});

it("says nothing where nothing differs, whatever the index", () => {
  expect(changesBetween(before, { ...before, index: 9n })).toBeUndefined();
});

it("names what is gone by its id alone", () => {
  const after = view(6n, [service("s1", ["p1"])], [policy("p1", ["c1"])]);
  expect(changesBetween(before, after)).toEqual({
    ...{ index: 6n, previousIndex: 5n, postureChecks: [] },
    services: [{ op: Op.Removed, id: "s2" }],
    policies: [{ op: Op.Removed, id: "p2" }],
  });
});

it("repeats the policies and checks of a service that is new or changed", () => {
  const after = view(
    6n,
    [service("s1", ["p1"], { name: "renamed" }), service("s2", ["p2"]), service("s3", ["p2"])],
    [policy("p1", ["c1"]), policy("p2")],
  );
  const changes = changesBetween(before, after);
  expect(changes?.services).toMatchObject([
    { op: Op.Updated, id: "s1", name: "renamed" },
    { op: Op.Added, id: "s3" },
  ]);
  expect(changes?.policies).toMatchObject([
    { op: Op.Updated, id: "p1" },
    { op: Op.Updated, id: "p2" },
  ]);
  expect(changes?.postureChecks).toMatchObject([{ op: Op.Updated, id: "c1" }]);
});

it("tells the services of a policy again whose checks have changed", () => {
  const checks = [domain("c1", "a"), domain("c2", "b")];
  const after = view(6n, [...before.services.values()], [policy("p1", ["c1", "c2"]), policy("p2")], checks);
  expect(changesBetween(before, after)).toMatchObject({
    services: [{ op: Op.Updated, id: "s1" }],
    policies: [{ op: Op.Updated, id: "p1", postureCheckIds: ["c1", "c2"] }],
    postureChecks: [
      { op: Op.Added, id: "c2" },
      { op: Op.Updated, id: "c1" },
    ],
  });
});

it("tells a check alone whose definition has changed", () => {
  const after = view(6n, [...before.services.values()], [...before.policies.values()], [domain("c1", "other")]);
  expect(changesBetween(before, after)).toMatchObject({
    ...{ services: [], policies: [] },
    postureChecks: [{ op: Op.Updated, id: "c1", type: "DOMAIN" }],
  });
});

it("has one form for programs, and the prompts of TOTP", () => {
  const process = { osType: "Linux", path: "/bin/a", hashes: [], fingerprints: [] };
  const all = view(
    1n,
    [],
    [],
    [
      check("one", { case: "process", value: process }),
      check("many", { case: "processMulti", value: { semantic: "AnyOf", processes: [process, process] } }),
      check("mfa", { case: "mfa", value: { timeoutSeconds: -1n, promptOnWake: true, promptOnUnlock: false } }),
    ],
  );
  const known = { osType: "Linux", path: "/bin/a" };
  expect(snapshotOf(all).postureChecks).toMatchObject([
    { id: "one", type: "PROCESS_MULTI", semantic: "AllOf", processes: [known] },
    { id: "many", type: "PROCESS_MULTI", semantic: "AnyOf", processes: [known, known] },
    { id: "mfa", type: "MFA", promptOnWake: true, timeoutSeconds: -1n, promptGracePeriodSeconds: expect.any(Number) },
  ]);
});

it("tells every state, and until when it holds", () => {
  const now = 1_700_000_000_000;
  const states: IdentityView = {
    ...before,
    checkStates: new Map([
      ["mfa", { isPassing: true, timeoutAt: now + 60_500 }],
      ["c1", { isPassing: false }],
    ]),
    policyStates: new Map([["p1", false]]),
  };
  expect(postureState(states, 3n, now)).toMatchObject({
    ...{ seq: 3n, structuralIndex: 5n, generatedAt: { seconds: 1_700_000_000n, nanos: 0 } },
    checkStates: [
      { checkId: "mfa", isPassing: true, timeoutAt: { seconds: 1_700_000_060n }, timeoutRemainingSeconds: 60 },
      { checkId: "c1", isPassing: false },
    ],
    policyStates: [{ policyId: "p1", isPassing: false }],
  });
  expect(statesLapseAt(states)).toBe(now + 60_500);
  expect(statesLapseAt(before)).toBeUndefined();
});
