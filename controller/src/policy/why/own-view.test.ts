import { expect, it, test } from "vitest";
import type { Check } from "./check.ts";
import { explain } from "./explain.ts";
import { ownView } from "./own-view.ts";
import { CASES } from "./testing/cases.ts";
import { AT, facts, WORKING } from "./testing/facts.ts";

/** Names, ids and values of the facts that are not the identity's own business. */
const FOREIGN = [
  ...["dial-web", "sales-web", "by-id", "host-web", "all-routers", "sp1", "sp2", "sp3", "p1"],
  ...[
    "backend",
    '"i2"',
    '"t1"',
    '"t2"',
    "printer-1",
    "router-2",
    "linux-only",
    "expected",
    "#sales",
    "#apps",
    "Default",
  ],
];

const everyCheck = (checks: readonly Check[]): Check[] =>
  checks.flatMap((each) => [each, ...everyCheck(each.checks ?? [])]);

it.each(CASES)("the identity learns of $what: $code, and of no others", ({ given }) => {
  const all = explain(given);
  const shown = ownView(all);
  const text = JSON.stringify(shown);
  expect(FOREIGN.filter((foreign) => text.includes(foreign))).toEqual([]);
  expect(text).not.toContain('"command"');
  expect([shown.allowed, shown.type, shown.at]).toEqual([all.allowed, all.type, all.at]);
  // What keeps it from the service stays in sight.
  if (!all.allowed) expect(shown.firstProblem).toMatchObject({ status: "failed", remedies: [expect.anything()] });
  const failed = (each: typeof all) =>
    each.checks.filter(({ status }) => status === "failed").map(({ check }) => check);
  expect(failed(shown)).toEqual(failed(all));
});

it("says the same of a service without host, whoever could host it", () => {
  const unhosted = CASES.filter(({ code }) => ["NO_BIND_POLICY", "NO_IDENTITY_MAY_HOST", "NOT_HOSTED"].includes(code));
  expect(unhosted).toHaveLength(3);
  expect(new Set(unhosted.map(({ given }) => JSON.stringify(ownView(explain(given))))).size).toBe(1);
});

it("says the same of every way in which no policy grants the service", () => {
  const refused = CASES.filter(({ given }) => given.policies.granting.length === 0);
  expect(refused.length).toBeGreaterThan(5);
  expect(new Set(refused.map(({ given }) => JSON.stringify(ownView(explain(given))))).size).toBe(1);
});

test("posture shows what the device reported, and not what would pass", () => {
  const check = {
    id: "c1",
    name: "linux-only",
    typeId: "OS" as const,
    actual: { type: "windows" },
    expected: ["linux"],
    reportedAt: AT,
  };
  const given = facts({
    posture: { asking: 1, failures: [{ policy: { id: "sp1", name: "dial-web" }, checks: [check] }] },
  });
  const part = everyCheck(ownView(explain(given)).checks).find((each) => each.check === "posture-check");
  expect(part?.entities).toEqual([{ entity: "posture-checks", id: "c1", name: "c1" }]);
  expect(part?.details).toEqual({ typeId: "OS", actual: { type: "windows" }, reportedAt: new Date(AT).toISOString() });
});

test("an answer without problems has none, and names only the routers that the Client API lists", () => {
  const shown = ownView(explain(WORKING));
  expect(shown.firstProblem).toBeUndefined();
  expect(everyCheck(shown.checks).flatMap(({ entities = [] }) => entities)).toEqual([
    { entity: "edge-routers", id: "r1", name: "router-1" },
  ]);
});
