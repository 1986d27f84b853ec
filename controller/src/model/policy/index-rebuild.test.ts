import { TimeSlice } from "@sallyport/async";
import { expect, test } from "vitest";
import { PolicyIndex, type PolicyRows } from "../../policy/policy-index.ts";
import type { RoleSelector } from "../../policy/selector.ts";

const SERVICES = 10_000;
const POLICIES = 1_000;
/** Wide: without pauses the build is one piece, and on a busy machine everything takes its time. */
const MAX_WAIT_MS = 1_000;

const select = (...attrs: string[]): RoleSelector => ({ all: false, attrs, ids: [] });

const ROWS: PolicyRows = {
  services: Array.from({ length: SERVICES }, (_, n) => ({
    id: `service-${String(n).padStart(5, "0")}`,
    attrs: [`s${n % 300}`, `t${n % 7}`],
  })),
  routers: [],
  postureChecks: [],
  servicePolicies: Array.from({ length: POLICIES }, (_, n) => ({
    id: `policy-${n}`,
    type: "Dial",
    semantic: n % 2 === 0 ? "AnyOf" : "AllOf",
    identities: select(`i${n % 500}`),
    services: select(`s${n % 300}`, `t${n % 7}`),
    postureChecks: select(),
  })),
  edgeRouterPolicies: [],
  serviceEdgeRouterPolicies: [],
};

test("while the index of 10,000 services and 1,000 policies is rebuilt, the event loop turns; what comes out is the same", async () => {
  let turns = 0;
  let longestMs = 0;
  // Processor time of this thread, so that what else the machine does counts little.
  const worked = (): number => process.threadCpuUsage().user / 1_000;
  let last = worked();
  let isBuilding = true;
  const watch = (): void => {
    const now = worked();
    longestMs = Math.max(longestMs, now - last);
    last = now;
    turns += 1;
    if (isBuilding) setImmediate(watch);
  };
  setImmediate(watch);
  const rebuilt = await PolicyIndex.buildInTurns(ROWS, new TimeSlice());
  isBuilding = false;
  expect(turns).toBeGreaterThan(2);
  expect(longestMs).toBeLessThan(MAX_WAIT_MS);
  const built = PolicyIndex.build(ROWS);
  for (const attrs of [["i1"], ["i2", "i100"], ["i499", "i0", "i7"]]) {
    const identity = { id: "an-identity", attrs };
    expect(rebuilt.servicesOf(identity)).toEqual(built.servicesOf(identity));
    expect(rebuilt.servicesOf(identity).length).toBeGreaterThan(0);
  }
});
