import type { FoundEdgeRouter } from "@sallyport/resources";
import { describe, expect, test } from "vitest";
import { ago, ahead, found, input, NOW, object, pod, router, tokenless, unverified } from "../testing/routers.ts";
import { enrollmentStep, reEnrollRequest } from "./enrollment.ts";
import { type ObservedRouter, podProblem } from "./router-plan.ts";

const step = (entity: FoundEdgeRouter, more: Partial<ObservedRouter> = {}, isRequested = false) =>
  enrollmentStep(router({ entity: { state: "synced", found: entity }, ...more }), isRequested, NOW);
const offline = (more: Partial<FoundEdgeRouter> = {}) => found({ isOnline: false, ...more });
const secret = (creationTimestamp: string) => object("Secret", "eu-0-enrollment", { metadata: { creationTimestamp } });
const claim = (uid: string) => object("PersistentVolumeClaim", "data-eu-0-0", { metadata: { uid } });
const fresh = { ordinal: 0, id: "r-0", verified: true, everOnline: false };
const enrolled = (finishedAt: string) => ({
  initContainerStatuses: [{ name: "enroll", state: { terminated: { exitCode: 0, finishedAt } } }],
});
const token = { step: "token", jwt: "a.b.c", restartsPod: false };

describe("what the enrollment of a router needs", () => {
  // biome-ignore format: a table
  test.each<[string, FoundEdgeRouter, Partial<ObservedRouter>, object]>([
    ["a token that is good is redeemed", unverified(), {}, token],
    ["one that ends soon is replaced", unverified({ enrollmentExpiresAt: ahead(60) }), {}, { step: "reEnroll", reason: "TokenExpired" }],
    ["one that has ended is replaced", unverified({ enrollmentExpiresAt: ago(60) }), {}, { step: "reEnroll", reason: "TokenExpired" }],
    ["a short one is not replaced over and over", unverified({ enrollmentCreatedAt: ago(70), enrollmentExpiresAt: ahead(230) }), {}, token],
    ["a new one is not replaced, however clocks differ", unverified({ enrollmentCreatedAt: ago(5), enrollmentExpiresAt: ago(1) }), {}, token],
    ["without one there is a new one", unverified({ enrollmentJwt: undefined }), {}, { step: "reEnroll", reason: "TokenExpired" }],
    ["of one without an end nothing is known", unverified({ enrollmentExpiresAt: undefined }), {}, token],
    ["a pod that came before its token and has gone on is started again", unverified(), { secret: secret(ago(10)), pod: pod() },
      { ...token, restartsPod: true }],
    ["a pod that asked without success before is started again", unverified(), { secret: secret(ago(10)), pod: tokenless() },
      { ...token, restartsPod: true }],
    ["a pod that has used a token, and was made to use another one a while ago, is started again", unverified(),
      { secret: secret(ago(700)), pod: pod(enrolled(ago(40))) }, { ...token, restartsPod: true }],
    ["a pod that has used its token a moment ago is left alone", unverified(), { secret: secret(ago(700)), pod: pod(enrolled(ago(5))) }, token],
    ["a pod that is younger than its token is left alone", unverified(), { secret: secret(ago(700)), pod: pod() }, token],
    ["one that is online has what it needs", found(), {}, { step: "enrolled" }],
    ["one that is offline, too, as long as its pod does not say otherwise", offline(), {}, { step: "enrolled" }],
    ["a pod without certificates, when another one is online", found(), { pod: tokenless() }, { step: "enrolled" }],
    ["a new volume means a new enrollment", offline(), { pod: tokenless(), claim: claim("claim-2") }, { step: "reEnroll", reason: "VolumeLost" }],
    [
      "the same volume without certificates is for people, when it was online",
      offline(),
      { pod: tokenless() },
      {
        step: "lost",
        message: expect.stringContaining(
          "its volume has no certificate: annotate the EdgeRouter with sallyport.dev/re-enroll=0:<anything new>",
        ),
      },
    ],
    ["a token that was used and lost is replaced after a while", offline(), { pod: tokenless(), before: fresh },
      { step: "reEnroll", reason: "NeverOnline" }],
    ["but not at once", offline(), { pod: tokenless({ creationTimestamp: ago(60) }), before: fresh }, { step: "enrolled" }],
    ["of one that was verified when it was seen first nothing is known", offline(), { pod: tokenless(), before: { ordinal: 0, id: "r-0" } },
      { step: "lost" }],
    ["nor of one that has taken another's place", offline(), { pod: tokenless(), before: { ...fresh, id: "r-9" } }, { step: "lost" }],
  ])("%s", (_name, entity, more, wanted) => expect(step(entity, more)).toMatchObject(wanted));

  test("is a new one whenever it is asked for", () => {
    expect(step(found(), {}, true)).toMatchObject({ step: "reEnroll", reason: "Requested" });
    expect(step(unverified(), {}, true)).toMatchObject({ step: "reEnroll", reason: "Requested" });
  });
});

describe("the annotation", () => {
  const request = (value: string | undefined, handled?: string) =>
    reEnrollRequest(
      input([router(), router({ ordinal: 1 })], {
        metadata: value === undefined ? {} : { annotations: { "sallyport.dev/re-enroll": value } },
        status: handled === undefined ? {} : { lastHandledReEnroll: handled },
      }).resource,
    );
  test.each<[string | undefined, string | undefined, object]>([
    [undefined, undefined, { state: "none" }],
    ["", undefined, { state: "none" }],
    ["1:a", "1:a", { state: "none" }],
    ["1:a", undefined, { state: "wanted", ordinal: 1, value: "1:a" }],
    ["1:b", "1:a", { state: "wanted", ordinal: 1 }],
    ["2:a", undefined, { state: "wrong", message: expect.stringContaining('the ordinal below 2, found "2:a"') }],
    ["yes", undefined, { state: "wrong" }],
    ["1:", undefined, { state: "wrong" }],
  ])("%s, after %s", (value, handled, wanted) => expect(request(value, handled)).toMatchObject(wanted));
});

describe("a pod that does not work", () => {
  const init = (state: object, more: object = {}) =>
    pod({ initContainerStatuses: [{ name: "enroll", state, ...more }], containerStatuses: [] });
  test.each<[string, ReturnType<typeof pod> | undefined, object | undefined]>([
    ["none", undefined, undefined],
    ["that works", pod(), undefined],
    ["that starts", init({ waiting: { reason: "PodInitializing" } }), undefined],
    [
      "without its image",
      pod({
        containerStatuses: [
          { name: "router", state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } } },
        ],
      }),
      { reason: "ImagePullBackOff", message: "container router: ImagePullBackOff: no such image", isRepeated: false },
    ],
    ["without a token", tokenless(), { reason: "CrashLoopBackOff", isRepeated: true, isTokenMissing: true }],
    [
      "whose enrollment just failed",
      init({ terminated: { exitCode: 1, reason: "Error", message: "a\nb\nc\nd [BAD_TOKEN]" } }),
      { reason: "Error", message: "container enroll: ended: b c d [BAD_TOKEN]", isTokenMissing: false },
    ],
    [
      "that failed once and runs",
      pod({
        containerStatuses: [
          { name: "router", restartCount: 1, state: { running: {} }, lastState: { terminated: { exitCode: 1 } } },
        ],
      }),
      undefined,
    ],
    [
      "that no node takes",
      pod({
        initContainerStatuses: [],
        containerStatuses: [],
        conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/3 nodes" }],
      }),
      { reason: "Unschedulable", message: "0/3 nodes" },
    ],
  ])("%s", (_name, given, wanted) => {
    if (wanted === undefined) expect(podProblem(given)).toBeUndefined();
    else expect(podProblem(given)).toMatchObject(wanted);
  });
});
