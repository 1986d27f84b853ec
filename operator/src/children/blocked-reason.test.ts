import { describe, expect, test } from "vitest";
import { blockedObject, blockedReasonOf, type FoundClaim, type FoundEvent } from "./blocked-reason.ts";
import type { FoundPod, FoundStatefulSet } from "./workload.ts";

const named = (kind: string, name: string, metadata: object = {}) => ({
  apiVersion: "v1",
  kind,
  metadata: { name, namespace: "edge", uid: `uid-${name}`, ...metadata },
});
const statefulSet: FoundStatefulSet = { ...named("StatefulSet", "eu-0"), spec: { replicas: 1 } };
const claim = (phase: string): FoundClaim => ({
  ...named("PersistentVolumeClaim", "data-eu-0-0"),
  status: { phase },
});
const pod = (isScheduled: boolean, metadata: object = {}): FoundPod => ({
  ...named("Pod", "eu-0-0", metadata),
  status: { conditions: [{ type: "PodScheduled", status: isScheduled ? "True" : "False" }] },
});

describe("what has to be explained", () => {
  // biome-ignore format: a table
  test.each<[string, Parameters<typeof blockedObject>[0], string | undefined]>([
    ["nothing is there yet", { statefulSet: undefined, pod: undefined, claim: undefined }, undefined],
    ["there is no pod", { statefulSet, pod: undefined, claim: undefined }, "StatefulSet"],
    ["a user wants no pod", { statefulSet: { ...statefulSet, spec: { replicas: 0 } }, pod: undefined, claim: undefined }, undefined],
    [
      "it is being deleted",
      {
        statefulSet: {
          ...statefulSet,
          metadata: { ...statefulSet.metadata, deletionTimestamp: "2026-11-02T12:00:00Z" },
        },
        pod: undefined,
        claim: undefined,
      },
      undefined,
    ],
    ["the pod has no node for want of a volume", { statefulSet, pod: pod(false), claim: claim("Pending") }, "PersistentVolumeClaim"],
    ["the pod has no node although it has a volume", { statefulSet, pod: pod(false), claim: claim("Bound") }, undefined],
    ["the pod has a node", { statefulSet, pod: pod(true), claim: claim("Pending") }, undefined],
    ["the pod is on its way out", { statefulSet, pod: pod(false, { deletionTimestamp: "2026-11-02T12:00:00Z" }), claim: claim("Pending") },
      undefined],
  ])("%s", (_what, workload, kind) => expect(blockedObject(workload)?.kind).toBe(kind));
});

describe("what the events say", () => {
  const REFUSED =
    'create Pod eu-0-0 in StatefulSet eu-0 failed error: pods "eu-0-0" is forbidden: exceeded quota: none';
  const CREATED = "create Pod eu-0-0 in StatefulSet eu-0 successful";
  const event = (second: number, type: string, reason: string, note: string, more: object = {}): FoundEvent => ({
    ...named("Event", `eu-0.${second}`),
    ...{ type, reason, note, regarding: { uid: "uid-eu-0" } },
    deprecatedLastTimestamp: `2026-11-02T12:00:${String(second).padStart(2, "0")}Z`,
    ...more,
  });
  const failed = event(5, "Warning", "FailedCreate", REFUSED);
  // biome-ignore format: a table
  test.each<[string, FoundEvent[], RegExp | undefined]>([
    ["nothing", [], undefined],
    ["the pod was refused", [failed], /^the cluster makes no pod of StatefulSet eu-0: create Pod .* exceeded quota: none$/],
    ["another one was made later", [failed, event(6, "Normal", "SuccessfulCreate", CREATED)], undefined],
    ["one was made before", [event(4, "Normal", "SuccessfulCreate", CREATED), failed], /exceeded quota/],
    ["one was made in the same second", [failed, event(5, "Normal", "SuccessfulCreate", CREATED)], /exceeded quota/],
    ["the claim alone was made", [failed, event(6, "Normal", "SuccessfulCreate", "create Claim data-eu-0-0 Pod eu-0-0 in StatefulSet eu-0 success")],
      /exceeded quota/],
    ["it was refused again and again", [event(9, "Warning", "FailedCreate", `(combined from similar events): ${REFUSED}`), failed],
      /StatefulSet eu-0: create Pod/],
    ["of a namesake that is gone", [event(5, "Warning", "FailedCreate", REFUSED, { regarding: { uid: "x" } })], undefined],
    [
      "in the newer form, with a series",
      [
        event(1, "Warning", "FailedCreate", REFUSED, {
          eventTime: "2026-11-02T12:00:01.123456Z",
          series: { lastObservedTime: "2026-11-02T12:00:30.000000Z" },
          deprecatedLastTimestamp: null,
        }),
        event(20, "Normal", "SuccessfulCreate", CREATED),
      ],
      /exceeded quota/,
    ],
  ])("%s", (_what, events, expected) => {
    const found = blockedReasonOf(statefulSet, events);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject({ reason: "PodRefused", message: expect.stringMatching(expected) });
  });

  test("the volume can't be had, until a provisioner works on it", () => {
    const of = { regarding: { uid: "uid-data-eu-0-0" } };
    const unknown = event(1, "Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', of);
    expect(blockedReasonOf(claim("Pending"), [unknown])).toEqual({
      reason: "VolumePending",
      message: 'the volume data-eu-0-0 can\'t be had: storageclass.storage.k8s.io "fast" not found',
    });
    const waits = event(2, "Normal", "ExternalProvisioning", "Waiting for a volume to be created", of);
    expect(blockedReasonOf(claim("Pending"), [unknown, waits])).toBeUndefined();
  });
});
