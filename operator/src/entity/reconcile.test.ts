import type { SyncResult } from "@sallyport/resources/sync";
import { describe, expect, test } from "vitest";
import type { Failure } from "../controller-client/errors.ts";
import { healthOf, nextConditions } from "../kube/conditions.ts";
import { conditionsOfFailure, wasObserved } from "../loop/status.ts";
import { conditionsOfSync } from "./reconcile.ts";

const found = { notes: [], id: "s1", found: undefined, differences: [], missing: [] } as const;
const missing = [{ kind: "Identity", name: "bot", problem: "NotFound" }] as const;
const text = { notes: [], message: "why" } as const;

const SYNCED: SyncResult<unknown> = { state: "synced", ...found };

describe("what tools make of a resource whose entity", () => {
  test.each<[string, SyncResult<unknown>, string, string]>([
    ["is as in the spec", SYNCED, "Current", "Synced"],
    ["lacks a reference", { state: "synced", ...found, missing }, "InProgress", "ReferenceNotFound"],
    [
      "waits for what is on its way into the network",
      { state: "synced", ...found, missing: [{ ...missing[0], problem: "NotReady" }] },
      "InProgress",
      "ReferenceNotReady",
    ],
    ["is observed", { state: "observed", ...found }, "Current", "Observed"],
    ["is observed and differs", { state: "observed", ...found, differences: ["name"] }, "Current", "Observed"],
    ["is another's", { state: "conflict", ...text, reason: "NameConflict" }, "Failed", "NameConflict"],
    ["waits", { state: "waiting", ...text, reason: "ReferenceNotFound", missing }, "InProgress", "ReferenceNotFound"],
  ])("%s", (_what, result, status, reason) => {
    const conditions = nextConditions([], conditionsOfSync(result), 3);
    const object = { metadata: { generation: 3 }, status: { observedGeneration: 3, conditions } };
    expect(healthOf(object).health).toBe(status);
    expect(conditions.find(({ type }) => type === "Ready")?.reason).toBe(reason);
    expect(wasObserved(conditions)).toBe(result.state === "observed");
  });
});

describe("a failure", () => {
  const inOrder = nextConditions([], conditionsOfSync(SYNCED), 3);
  const down: Failure = { reason: "ControllerUnavailable", message: "m", isStalled: false, retry: "backoff" };
  const invalid: Failure = { reason: "InvalidSpec", message: "m", isStalled: true, retry: "resync" };

  test("that passes changes nothing of what was in order", () => {
    expect(nextConditions(inOrder, conditionsOfFailure(down, inOrder, 3), 3)).toEqual(inOrder);
  });

  test("shows when the spec was not acted on yet", () => {
    expect(conditionsOfFailure(down, inOrder, 4)).toMatchObject([
      { type: "Synced", status: "False" },
      { type: "Ready", status: "False", reason: "ControllerUnavailable" },
      { type: "Reconciling", status: "True" },
    ]);
    expect(conditionsOfFailure(down, [], 3).map(({ type }) => type)).toEqual(["Synced", "Ready", "Reconciling"]);
  });

  test("does not make an entity ours that was only observed", () => {
    const observed = nextConditions([], conditionsOfSync({ state: "observed", ...found }), 3);
    expect(wasObserved(nextConditions(observed, conditionsOfFailure(down, observed, 4), 4))).toBe(true);
  });

  test("that needs a person is Stalled", () => {
    expect(conditionsOfFailure(invalid, inOrder, 3)).toMatchObject([
      {},
      {},
      { type: "Stalled", reason: "InvalidSpec" },
    ]);
  });
});
