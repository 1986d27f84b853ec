/** The decisions of the loop, one table each. */
import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { describe, expect, test } from "vitest";
import { NetworkNotReadyError } from "../controller-client/errors.ts";
import { errorOfAnswer, KubeError } from "../kube/client/errors.ts";
import type { Condition } from "../kube/conditions.ts";
import { LeadershipLostError } from "../kube/election/elector.ts";
import { concernsItself, concernsReferrers } from "./changes.ts";
import { neverInNetwork, orphanReasonOf } from "./deletion.ts";
import { reconcileFailureOf } from "./failure.ts";
import type { AnyResource } from "./kind-reconciler.ts";
import { conditionsOfBlocked, conditionsOfPause, eventTypeOf, nextStatus, sameStatus } from "./status.ts";

type Changes = { kind?: string; metadata?: object; spec?: object; status?: object };

const at = "2026-11-22T10:00:00Z";
const condition = (type: string, status: Condition["status"], reason: string): Condition => ({
  type,
  status,
  reason,
  message: reason,
  lastTransitionTime: at,
  observedGeneration: 1,
});
const READY = condition("Ready", "True", "Synced");
const SYNCED = condition("Synced", "True", "Synced");

function resource({ kind = "OverlayService", metadata, spec, status }: Changes = {}): AnyResource {
  return {
    apiVersion: "sallyport.dev/v1alpha1",
    kind,
    metadata: {
      name: "web",
      namespace: "edge",
      uid: "u1",
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: at,
      ...metadata,
    },
    spec: { networkRef: { name: "main" }, ...spec },
    status: { observedGeneration: 1, conditions: [SYNCED, READY], id: "s1", ...status } as AnyResource["status"],
  };
}

describe("a change concerns the resource itself:", () => {
  // biome-ignore format: a table
  test.each<[string, Changes, boolean, boolean]>([
    ["nothing but its version", { metadata: { resourceVersion: "2" } }, false, false],
    ["its spec", { metadata: { generation: 2 } }, false, true],
    ["its deletion", { metadata: { deletionTimestamp: at } }, false, true],
    ["an annotation", { metadata: { annotations: { a: "b" } } }, false, true],
    ["a label", { metadata: { labels: { a: "b" } } }, false, false],
    ["its status by another client", { status: { id: "s2" } }, false, true],
    ["its status by us", { status: { id: "s2" } }, true, false],
    ["its finalizers by another client", { metadata: { finalizers: ["x/y"] } }, false, true],
    ["its finalizers by us", { metadata: { finalizers: ["x/y"] } }, true, false],
    ["its deletion, while we write", { metadata: { deletionTimestamp: at } }, true, true],
  ])("%s", (_what, changes, isOwn, expected) => {
    expect(concernsItself(resource(), resource(changes), isOwn)).toBe(expected);
  });

  test("that it is there", () => expect(concernsItself(undefined, resource(), false)).toBe(true));
});

describe("a change concerns those that refer to the resource:", () => {
  const other = (status: object): Changes => ({ kind: "Network", status });
  // biome-ignore format: a table
  test.each<[string, Changes, Changes, boolean]>([
    ["its spec", {}, { metadata: { generation: 2 } }, false],
    ["its conditions", {}, { status: { conditions: [] } }, false],
    ["its id", {}, { status: { id: "s2" } }, true],
    ["its deletion", {}, { metadata: { deletionTimestamp: at } }, true],
    ["the id of one of its routers", { status: { routers: [{ ordinal: 0, id: "a" }] } }, { status: { routers: [{ ordinal: 0, id: "b" }] } }, true],
    ["something else of its routers", { status: { routers: [{ ordinal: 0, id: "a" }] } }, { status: { routers: [{ ordinal: 0, id: "a", online: true }] } }, false],
    ["a Network that is not ready any more", other({ conditions: [READY] }), other({ conditions: [condition("Ready", "False", "ControllerUnavailable")] }), true],
    ["a Network that is not ready for another reason", other({ conditions: [condition("Ready", "False", "A")] }), other({ conditions: [condition("Ready", "False", "B")] }), true],
    ["a Network whose version is known", other({}), other({ serverVersion: "v1" }), false],
    ["the spec of a Network", other({}), { kind: "Network", metadata: { generation: 2 } }, true],
  ])("%s", (_what, before, after, expected) => {
    expect(concernsReferrers(resource(before), resource(after))).toBe(expected);
  });
});

describe("what an error means:", () => {
  const kube = (status: number, reason: string, message: string, causes: KubeError["causes"] = []) =>
    new KubeError({ status, reason, message, causes });
  // biome-ignore format: a table
  test.each<[string, unknown, string, "later" | "change" | object, boolean, string | undefined]>([
    ["a taken name", new ApiError(400, "COULD_NOT_VALIDATE", "x", { field: "name", reason: "duplicate" }), "NameConflict", "change", true, "Stalled"],
    ["a server that fails", new ApiError(503, "UNHANDLED", "x"), "ControllerUnavailable", "later", false, "Reconciling"],
    ["no answer", new ApiTransportError("connect ECONNREFUSED"), "ControllerUnavailable", "later", false, "Reconciling"],
    ["a network that says when", new NetworkNotReadyError("RateLimited", "x", { retryAfterMs: 7_000 }), "RateLimited", { afterMs: 7_000 }, false, "Reconciling"],
    ["a network that is not ready", new NetworkNotReadyError("NetworkNotReady", "x"), "NetworkNotReady", "change", false, "Reconciling"],
    ["a right that lacks", kube(403, "Forbidden", "PATCH /apis/x: 403"), "MissingPermission", "later", true, "Stalled"],
    ["a quota that is used up", errorOfAnswer("PATCH /x", 403, { kind: "Status", reason: "Forbidden", message: 'statefulsets "a" is forbidden: exceeded quota: small' }), "ObjectRefused", "later", true, "Stalled"],
    ["a right that the server names", errorOfAnswer("PATCH /x", 403, { kind: "Status", reason: "Forbidden", message: 'services "a" is forbidden: User "o" cannot patch resource "services"' }), "MissingPermission", "later", true, "Stalled"],
    ["a webhook that says no", kube(403, "Forbidden", 'PATCH /x: 403 Forbidden: admission webhook "v.example" denied the request: no'), "ObjectRefused", "later", true, "Stalled"],
    ["a namespace that ends", kube(403, "Forbidden", "x", [{ reason: "NamespaceTerminating" }]), "Forbidden", "later", false, undefined],
    ["an object that is refused", kube(422, "Invalid", "PATCH /api/v1/…/services/a: spec.ports"), "ObjectRefused", "later", true, "Stalled"],
    ["another client that wrote first", kube(409, "Conflict", "x"), "Conflict", "later", false, undefined],
    ["an API server that is away", kube(0, "Unreachable", "x"), "Unreachable", "later", false, undefined],
    ["a lease that is over", new LeadershipLostError("x"), "LeadershipLostError", "later", false, undefined],
    ["a fault of the program", new TypeError("undefined is not a function"), "InternalError", "later", false, "Reconciling"],
  ])("%s", (_what, error, reason, next, isStalled, more) => {
    const failure = reconcileFailureOf(error, { previous: [SYNCED], generation: 1, reconcileId: "abc" });
    expect(failure).toMatchObject({ reason, next, isStalled });
    if (more === undefined) expect(failure.conditions).toBeUndefined();
    else expect(failure.conditions).toContainEqual(expect.objectContaining({ type: more, status: "True", reason }));
  });

  test("an outage leaves what was ready as it was", () => {
    const error = new ApiTransportError("connect ECONNREFUSED");
    const { conditions } = reconcileFailureOf(error, { previous: [SYNCED, READY], generation: 1, reconcileId: "abc" });
    expect(conditions).toMatchObject([
      { type: "Synced", status: "True" },
      { type: "Ready", status: "True" },
    ]);
  });

  test("a fault of the program shows where to look and nothing of itself", () => {
    const { message } = reconcileFailureOf(new TypeError("secret"), {
      previous: [],
      generation: 1,
      reconcileId: "abc",
    });
    expect(message).toContain("abc");
    expect(message).not.toContain("secret");
  });

  test("advice about rights stands only where one is missing", () => {
    const message = (text: string): string => {
      const error = errorOfAnswer("PATCH /x", 403, { kind: "Status", reason: "Forbidden", message: text });
      return reconcileFailureOf(error, { previous: [], generation: 1, reconcileId: "abc" }).message;
    };
    expect(message('persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized')).toMatch(
      /can be resized$/,
    );
    expect(message('services "a" is forbidden: User "o" cannot patch resource "services"')).toContain("this right");
  });

  test("a Secret that is refused shows its fields and no value", () => {
    const causes = [{ field: "data[tls.key]", message: 'Invalid value: "swordfish"' }];
    const error = kube(
      422,
      "Invalid",
      'PATCH /api/v1/namespaces/a/secrets/b: 422 Invalid: Invalid value: "swordfish"',
      causes,
    );
    const { message } = reconcileFailureOf(error, { previous: [], generation: 1, reconcileId: "abc" });
    expect(message).toBe("the API server refuses a Secret: 422 Invalid (data[tls.key])");
  });

  test("a Secret for which a quota leaves no room says so, and a webhook that speaks of quotas shows no value", () => {
    const message = (why: string): string => {
      const text = `POST /api/v1/namespaces/a/secrets: 403 Forbidden: ${why}`;
      return reconcileFailureOf(kube(403, "Forbidden", text), { previous: [], generation: 1, reconcileId: "abc" })
        .message;
    };
    const quota = "exceeded quota: full, requested: count/secrets=1,secrets=1, used: secrets=2, limited: secrets=0";
    expect(message(`secrets "b" is forbidden: ${quota}`)).toBe(
      `the API server refuses a Secret: 403 Forbidden (${quota})`,
    );
    const webhook = 'admission webhook "w" denied the request: exceeded quota: swordfish, requested: swordfish';
    expect(message(webhook)).toBe("the API server refuses a Secret: 403 Forbidden");
    expect(message('secrets "b" is forbidden: exceeded quota: {"key":"swordfish"}')).not.toContain("swordfish");
  });
});

describe("a resource goes without its network being asked:", () => {
  const managed = { metadata: {}, spec: { managed: {} }, status: {} };
  const going = { metadata: { deletionTimestamp: at }, spec: { managed: {} }, status: {} };
  const forced = { metadata: { annotations: { "sallyport.dev/force-orphan": "true" } } };
  // biome-ignore format: a table
  test.each<[string, Changes, Parameters<typeof orphanReasonOf>[1], string | undefined]>([
    ["not while its Network is there", {}, managed, undefined],
    ["when it is told to", forced, managed, "ForceOrphan"],
    ["not when it is told something else", { metadata: { annotations: { "sallyport.dev/force-orphan": "yes" } } }, managed, undefined],
    ["when its Network is gone", {}, undefined, "NetworkGone"],
    ["when its Network is ours and goes", {}, going, "NetworkDeleting"],
    ["not when a Network that exists elsewhere goes", {}, { metadata: { deletionTimestamp: at }, spec: {}, status: {} }, undefined],
    ["not a Network, which refers to none", { kind: "Network", spec: { networkRef: undefined } }, undefined, undefined],
  ])("%s", (_what, changes, network, reason) => {
    expect(orphanReasonOf(resource(changes), network)?.reason).toBe(reason);
  });
});

describe("a resource goes although its network can't be asked:", () => {
  const never = { metadata: {}, spec: {}, status: {} };
  const known = { metadata: {}, spec: {}, status: { sessionIdentity: "admin" } };
  const unmade = { status: { id: undefined } };
  // biome-ignore format: a table
  test.each<[string, Changes, Parameters<typeof neverInNetwork>[1], string, boolean]>([
    ["when the operator never logged in to it", unmade, never, "ControllerUnavailable", true],
    ["when its Network can't be used for another reason", unmade, never, "NetworkNotReady", true],
    ["when it is an EdgeRouter without an entity", { status: { id: undefined, routers: [{ ordinal: 0 }] } }, never, "NetworkUnauthorized", true],
    ["not when the network was used before: the answer to a creation may have been lost", unmade, known, "ControllerUnavailable", false],
    ["not when it has an id", {}, never, "ControllerUnavailable", false],
    ["not when it is an EdgeRouter with an entity", { status: { id: undefined, routers: [{ ordinal: 0, id: "r" }] } }, never, "ControllerUnavailable", false],
    ["not for a refusal of the network", unmade, never, "InUse", false],
  ])("%s", (_what, changes, network, reason, goes) => {
    expect(neverInNetwork(resource(changes), network, reason)?.reason).toBe(goes ? "NeverInNetwork" : undefined);
  });
});

describe("an event warns", () => {
  const draft = (type: string, status: Condition["status"], reason: string) => ({ type, status, reason, message: "" });
  // biome-ignore format: a table
  test.each<[string, ReturnType<typeof draft>[], string]>([
    ["not of what is on its way", [draft("Ready", "False", "Progressing"), draft("Reconciling", "True", "Progressing")], "Normal"],
    ["of what waits for a person", [draft("Ready", "False", "SecretNotFound"), draft("Reconciling", "True", "SecretNotFound")], "Warning"],
    ["of what does not go on", [draft("Ready", "False", "NameConflict"), draft("Stalled", "True", "NameConflict")], "Warning"],
    ["of a deletion that waits", [draft("Ready", "False", "DeletionBlocked"), draft("DeletionBlocked", "True", "InUse")], "Warning"],
    ["not of what is ready", [draft("Ready", "True", "Synced")], "Normal"],
    ["not of what waits for another resource", [draft("Ready", "False", "ReferenceNotReady")], "Normal"],
    ["of a name that nothing has", [draft("Ready", "False", "ReferenceNotFound")], "Warning"],
  ])("%s", (_what, conditions, type) => {
    expect(eventTypeOf(conditions)).toBe(type);
  });
});

test("a deletion that waits says the way out, and goes on knowing whose the entity is", () => {
  const what = { reason: "InUse", message: "used by i1" };
  const before = [condition("Synced", "True", "Observed"), READY, condition("Stalled", "True", "X")];
  const conditions = conditionsOfBlocked(resource(), what, before);
  expect(conditions.map(({ type, reason }) => [type, reason])).toEqual([
    ["Synced", "Observed"],
    ["Ready", "DeletionBlocked"],
    ["DeletionBlocked", "InUse"],
  ]);
  expect(conditions[2]?.message).toMatch(
    /^used by i1; .*kubectl annotate overlayservice web -n edge sallyport.dev\/force-orphan=true$/,
  );
});

test("a pause adds one condition, once", () => {
  const once = conditionsOfPause([SYNCED, READY]);
  expect(once.map(({ type, status }) => `${type} ${status}`)).toEqual([
    "Synced True",
    "Ready True",
    "ReconciliationPaused True",
  ]);
  const again = conditionsOfPause(once.map((draft) => ({ ...draft, lastTransitionTime: at })));
  expect(again).toEqual(once);
});

describe("a status", () => {
  const now = new Date("2026-11-22T12:00:00Z");
  const drafts = [SYNCED, READY].map(({ type, status, reason, message }) => ({ type, status, reason, message }));

  test("that is decided again is the same, whatever the time is", () => {
    const draft = { conditions: drafts, own: { id: "s1" }, isObserved: true } as never;
    expect(sameStatus(nextStatus(resource(), draft, now), resource().status)).toBe(true);
  });

  test("names the generation and the request that it is for", () => {
    const asked = { metadata: { generation: 3, annotations: { "sallyport.dev/reconcile-requested-at": "later" } } };
    const draft = { conditions: drafts, own: {}, isObserved: true };
    expect(nextStatus(resource(asked), draft, now)).toMatchObject({
      observedGeneration: 3,
      lastHandledReconcileAt: "later",
      conditions: [{ observedGeneration: 3, lastTransitionTime: at }, {}],
    });
    expect(nextStatus(resource(asked), draft, now)).not.toHaveProperty("id");
  });

  test("that was not acted on keeps the generation that it was for", () => {
    const draft = { conditions: drafts, own: {}, isObserved: false };
    const asked = { metadata: { generation: 3, annotations: { "sallyport.dev/reconcile-requested-at": "later" } } };
    const status = nextStatus(resource(asked), draft, now);
    expect(status.observedGeneration).toBe(1);
    expect(status).not.toHaveProperty("lastHandledReconcileAt");
  });

  test("has its conditions as a map and its other lists in order", () => {
    const [left, right] = [{ conditions: [SYNCED, READY] }, { conditions: [READY, SYNCED] }];
    expect(sameStatus(left, right)).toBe(true);
    expect(sameStatus({ ...left, routers: [1, 2] } as never, { ...right, routers: [2, 1] } as never)).toBe(false);
  });
});
