import { describe, expect, test } from "vitest";
import { asKnownFrom, repairActions } from "../plan.ts";
import { container, OWNER, object, pair, pod, set, settled, withSpec, words } from "../testing/routers.ts";
import type { ObservedRouter, RouterPlanInput } from "./router-plan.ts";

const known = (routers: readonly ObservedRouter[]) =>
  routers.flatMap(({ entity: _, before, secret: __, ...rest }) => asKnownFrom(before, rest) ?? []);
const repaired = (given: RouterPlanInput) => words(repairActions({ ...given, routers: known(given.routers) }));
const two = (spec: object = {}) => settled(pair(), { spec: { replicas: 2, ...spec } });
/** The first router as `change` says. */
const first = (given: RouterPlanInput, change: (each: ObservedRouter) => Partial<ObservedRouter>) => ({
  ...given,
  routers: given.routers.map((each) => (each.ordinal === 0 ? { ...each, ...change(each) } : each)),
});
const unready = ({ statefulSet }: ObservedRouter) => ({
  statefulSet: { ...statefulSet, status: set(false).status } as ObservedRouter["statefulSet"],
});
const crashing = (each: ObservedRouter) => ({
  ...unready(each),
  pod: pod({ containerStatuses: [container("router", { waiting: { reason: "CrashLoopBackOff" } })] }),
});

describe("while the network can't be asked", () => {
  // biome-ignore format: a table
  test.each<[string, RouterPlanInput, string[]]>([
    ["nothing is written when all is there", two(), []],
    ["a workload that is gone is made again", first(two(), () => ({ statefulSet: undefined })), ["apply StatefulSet eu-0"]],
    ["so is a file, without a restart", first(two(), () => ({ configMap: undefined })), ["apply ConfigMap eu-0-config"]],
    ["so is a Service", first(two(), () => ({ service: undefined })), ["apply Service eu-0-edge"]],
    ["so is what all share", { ...two(), shared: new Map() }, ["apply ServiceAccount eu", "apply Service eu", "apply PodDisruptionBudget eu"]],
    ["nothing is, of a spec with a mistake in it", first(two({ config: { overrides: { nonsense: 1 } } }), () => ({ statefulSet: undefined })), []],
    [
      "one that was stopped by a user runs again",
      first(two(), (each) => ({
        statefulSet: {
          ...each.statefulSet,
          spec: { ...each.statefulSet?.spec, replicas: 0 },
          status: { observedGeneration: 1, readyReplicas: 0, updatedReplicas: 0 },
        } as ObservedRouter["statefulSet"],
        pod: pod({}, { deletionTimestamp: "2026-11-02T12:00:00Z" }),
      })),
      ["apply StatefulSet eu-0"],
    ],
    ["another spec restarts none that serves", withSpec(two(), { replicas: 2, drainSeconds: 7 }), []],
    ["nor one that is not ready although it runs, as all may be without a controller",
      withSpec(first(two(), unready), { replicas: 2, drainSeconds: 7 }), []],
    ["and repairs one that does not run", withSpec(first(two(), crashing), { replicas: 2, drainSeconds: 7 }),
      ["apply ConfigMap eu-0-config", "apply StatefulSet eu-0"]],
    ["a Service that is needed no more stays", withSpec(two(), { replicas: 2, exposure: { type: "None" } }), []],
    ["no router is enrolled again, whatever the pod says", first(two(), () => ({ pod: pod({ initContainerStatuses: [] }) })), []],
    ["a token stays", first(two(), () => ({ secret: object("Secret", "eu-0-enrollment") })), []],
    [
      "what is another owner's stays",
      first(two(), () => ({
        statefulSet: object("StatefulSet", "eu-0", {
          metadata: { ownerReferences: [{ ...OWNER, name: "x", uid: "u" }] },
        }),
      })),
      [],
    ],
    ["one that the network never had is not begun", first(two(), () => ({ before: undefined, statefulSet: undefined })), []],
  ])("%s", (_name, given, wanted) => expect(repaired(given)).toEqual(wanted));

  test("the workload that is made again is the same", () => {
    const given = two();
    const [wanted] = given.routers;
    const [action] = repairActions({
      ...given,
      routers: known(first(given, () => ({ statefulSet: undefined })).routers),
    });
    expect(action).toMatchObject({ object: { spec: JSON.parse(JSON.stringify(wanted?.statefulSet?.spec)) } });
  });
});

// biome-ignore format: a table
test.each<[string, object, string[]]>([
  ["does not run", { waiting: { reason: "CrashLoopBackOff" } }, ["apply ConfigMap eu-0-config", "apply StatefulSet eu-0"]],
  ["runs", { running: {} }, []],
])("a container that others put beside the router's counts for nothing: that %s", (_what, state, expected) => {
  const meshed = pod({ containerStatuses: [container("proxy", { running: {} }), container("router", state)] });
  const given = first(two(), (each) => ({ ...unready(each), pod: meshed }));
  expect(repaired(withSpec(given, { replicas: 2, drainSeconds: 7 }))).toEqual(expected);
});
