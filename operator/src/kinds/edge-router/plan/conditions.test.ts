import { TestAuthority } from "@sallyport/wire/testing";
import { describe, expect, test } from "vitest";
import { healthOf } from "../../../kube/conditions.ts";
import { planEdgeRouter } from "../plan.ts";
import {
  ago,
  ahead,
  applied,
  container,
  found,
  input,
  object,
  of,
  pair,
  plannedActions,
  pod,
  router,
  settled,
  starting,
  tokenless,
  unowned,
  unverified,
  withSpec,
  words,
} from "../testing/routers.ts";
import type { RouterPlanInput } from "./router-plan.ts";

describe("conditions", () => {
  const plan = (given: RouterPlanInput) => {
    const { conditions } = planEdgeRouter(given);
    const all = conditions.map((each) => ({ ...each, observedGeneration: 1, lastTransitionTime: ago(0) }));
    const { health } = healthOf({ metadata: { generation: 1 }, status: { observedGeneration: 1, conditions: all } });
    return { conditions, health, ready: conditions.find(({ type }) => type === "Ready") };
  };
  const late = { creationTimestamp: ago(700) };
  const ready = (status: "True" | "False", seconds: number) => ({
    conditions: [{ type: "Ready", status, lastTransitionTime: ago(seconds) }],
  });
  const owner = { apiVersion: "a/b", kind: "App", name: "x", uid: "u", controller: true };
  const failing = { waiting: { reason: "CrashLoopBackOff" } };
  const refused = { terminated: { exitCode: 1, message: "refused [X]" } };
  const inUse = { restartCount: 3, lastState: { terminated: { exitCode: 1, message: "port in use" } } };
  const lacking = (problem: "NotFound" | "NotReady") =>
    ({ state: "synced", found: found(), missing: [{ kind: "ServiceConfig", name: "link", problem }] }) as const;
  // biome-ignore format: a table
  test.each<[string, RouterPlanInput, string, RegExp]>([
    ["all is well", settled(), "Current Online", /the router is online/],
    ["nothing is wanted", settled([]), "Current ScaledToZero", /no router is wanted/],
    ["another owner has the name", settled([router({ entity: { state: "failed", reason: "NameConflict", message: "taken", isStalled: true } })]),
      "Failed NameConflict", /taken/],
    ["the file can't be", settled([router()], { spec: { config: { overrides: { ctrl: { endpoint: "tls:x:1" } } } } }), "Failed InvalidConfig",
      /spec\.config\.overrides\.ctrl\.endpoint: can't be overridden/],
    ["the template can't be", settled([router()], { spec: { template: { spec: { volumes: [{ name: "tmp" }] } } } }), "Failed InvalidConfig",
      /spec\.template\.spec\.volumes\[0\]\.name/],
    ["there is no load balancer", input([router()], { spec: { exposure: { type: "LoadBalancer" } } }), "InProgress WaitingForLoadBalancer",
      /set spec\.exposure\.hostname if it never gets one/],
    ["it was not enrolled yet", settled([of(unverified())]), "InProgress WaitingForEnrollment", /eu-0 has not enrolled yet$/],
    ["it can't be enrolled", settled([of(unverified(), { pod: pod({ initContainerStatuses: [container("enroll", refused)] }) })]),
      "InProgress PodFailing", /container enroll: ended: refused \[X\]/],
    [
      "the cluster refuses the pod of one that never enrolled",
      settled([of(unverified(), { blockedReason: { reason: "PodRefused", message: "no pod: exceeded quota" } })]),
      "InProgress PodFailing",
      /eu-0 has not enrolled yet: no pod: exceeded quota$/,
    ],
    [
      "the cluster refuses the next pod of one that is enrolled",
      starting(pod(), { blockedReason: { reason: "PodRefused", message: "no pod: violates PodSecurity" } }),
      "InProgress PodRefused",
      /router eu-0: no pod: violates PodSecurity$/,
    ],
    ["its identity is gone", settled([of(found({ isOnline: false }), { pod: tokenless() })]), "Failed IdentityLost",
      /annotate the EdgeRouter with sallyport\.dev\/re-enroll=0:/],
    ["one of its configs is missing", settled([router({ entity: lacking("NotFound") })]), "InProgress ReferenceNotFound",
      /^ServiceConfig link does not exist; the rest is in force$/],
    ["one of its configs is on its way", settled([router({ entity: lacking("NotReady") })]), "InProgress ReferenceNotReady",
      /^ServiceConfig link has no id in the network yet; the rest is in force$/],
    ["a Secret is another owner's", settled([router({ secret: unowned("Secret", "eu-0-enrollment") })]), "Failed SecretConflict",
      /Secret eu-0-enrollment has no owner: delete or rename it/],
    ["an object is another's", settled([router({ service: object("Service", "eu-0-edge", { metadata: { ownerReferences: [owner] } }) })]),
      "Failed ObjectConflict", /Service eu-0-edge is owned by App x/],
    ["its pod starts", starting(pod({}, { creationTimestamp: ago(5) })), "InProgress Progressing", /its pod is starting/],
    ["an old pod goes, as in every rollout", starting(pod(ready("False", 1000), { ...late, deletionTimestamp: ago(9) })), "InProgress Progressing", /its pod is starting/],
    ["an old pod is still ready, as in every rollout", starting(pod(ready("True", 9_000), late)), "InProgress Progressing", /its pod is starting/],
    ["an old pod is not ready for a moment, as in every rollout", starting(pod(ready("False", 9), late)), "InProgress Progressing", /its pod is starting/],
    ["its pod does not come up", starting(pod({}, late)), "Failed RolloutStuck", /its pod does not become ready/],
    ["its pod fails again and again", starting(pod({ containerStatuses: [container("router", failing, inUse)] })), "Failed RolloutStuck",
      /CrashLoopBackOff: port in use/],
    ["it is not connected", settled([of(found({ isOnline: false }))]), "InProgress Offline", /eu-0: not connected to a controller/],
    ["it is turned away", settled([of(found({ isOnline: false }))], { spec: { disabled: true } }), "InProgress Disabled", /spec\.disabled is true/],
  ])("when %s", (_name, given, judged, message) => {
    const seen = plan(given);
    expect(`${seen.health} ${seen.ready?.reason}`).toBe(judged);
    expect(seen.ready?.message).toMatch(message);
    const types = seen.conditions.map(({ type }) => type);
    const always = "Ready EntitiesSynced ConfigValid AddressAssigned Enrolled WorkloadReady Online CertificateValid";
    expect(types.slice(0, 8).join(" ")).toBe(always);
    expect(types.filter((type) => type === "Stalled" || type === "Reconciling")).toEqual(
      seen.health === "Failed" ? ["Stalled"] : seen.health === "InProgress" ? ["Reconciling"] : [],
    );
  });

  test("a router that does not come back is named, and who waits for it", () => {
    const base = settled(
      [0, 1].map((ordinal) => router({ ordinal })),
      { spec: { exposure: { type: "None" } } },
    );
    const given = applied(withSpec(base, { exposure: { type: "None" }, drainSeconds: 7 }), { isReady: false });
    const stuck = { ...given, routers: given.routers.map((each) => ({ ...each, pod: pod({}, late) })) };
    expect(plan(stuck).ready?.message).toBe("router eu-0: its pod does not become ready; eu-1 wait for it");
  });

  test("while others are brought up to date it is ready and says what goes on", () => {
    const seen = plan(
      withSpec(settled(pair(), { spec: { exposure: { type: "None" } } }), {
        exposure: { type: "None" },
        drainSeconds: 7,
      }),
    );
    expect(seen).toMatchObject({ health: "InProgress", ready: { status: "True" } });
    expect(seen.conditions.at(-1)).toMatchObject({
      type: "Reconciling",
      message: "being brought up to date: eu-0, eu-1",
    });
  });
});

test("a volume that is to grow is told, keeps nothing from being ready, and is no reason to look more often", () => {
  const spec = { storage: { size: "1Gi" } };
  const { conditions, requeueAfterMs, actions } = planEdgeRouter(withSpec(settled(), spec));
  expect(words(actions)).toEqual(["grow data-eu-0-0 1Gi"]);
  expect(conditions[0]).toMatchObject({ type: "Ready", status: "True" });
  expect(conditions.at(-1)).toMatchObject({
    type: "Reconciling",
    message: expect.stringContaining("to be grown: data-eu-0-0 to 1Gi"),
  });
  expect(requeueAfterMs).toBe(planEdgeRouter(settled()).requeueAfterMs);
});

describe("the certificate", () => {
  const certified = async (notAfter: string, notBefore = ago(86_400 * 400)) => {
    const authority = await TestAuthority.create();
    const { certPem } = await authority.issue({
      commonName: "r-0",
      dns: ["old.example"],
      notBefore: new Date(notBefore),
      notAfter: new Date(notAfter),
    });
    return of(found({ certPem }));
  };
  const DAY = 86_400;
  test.each<[string, string, string, string?]>([
    ["that is good for long", ahead(100 * DAY), "True Valid"],
    ["that will be renewed", ahead(5 * DAY), "True Valid"],
    ["that should have been renewed", ahead(2 * DAY), "False CertificateExpiring"],
    ["that has ended", ago(60), "False CertificateExpired"],
    ["of a short life that will be renewed", ahead(3_600), "True Valid", ago(3 * 3_600)],
    ["of a short life that should have been renewed", ahead(1_500), "False CertificateExpiring", ago(3 * 3_600)],
  ])("%s", async (_name, notAfter, wanted, notBefore) => {
    const { conditions, routers } = planEdgeRouter(settled([await certified(notAfter, notBefore)]));
    const { status, reason } = conditions.find(({ type }) => type === "CertificateValid") ?? {};
    expect(`${status} ${reason}`).toBe(wanted);
    expect(Date.parse(routers[0]?.certificateNotAfter ?? "")).toBe(Math.floor(Date.parse(notAfter) / 1000) * 1000);
    expect(conditions.some(({ type }) => type === "Stalled")).toBe(wanted.endsWith("Expired"));
  });

  test("gets a new name before the router goes by it, and the status tells which one it goes by", async () => {
    const spec = { exposure: { type: "LoadBalancer", hostname: "old.example" } };
    const seen = {
      ordinal: 0,
      id: "r-0",
      verified: true,
      online: true,
      everOnline: true,
      advertiseAddress: "old.example:3022",
    };
    const before = settled([{ ...(await certified(ahead(100 * DAY))), before: seen }], { spec });
    const moved = withSpec(before, { exposure: { ...spec.exposure, hostname: "new.example" } });
    const first = planEdgeRouter(moved);
    expect(first.changing).toEqual([0]);
    expect(first.routers[0]?.advertiseAddress).toBe("old.example:3022");
    expect(first.conditions).toContainEqual(
      expect.objectContaining({ type: "AddressAssigned", status: "True", reason: "AddressChanging" }),
    );
    const renewed = applied(moved);
    expect(plannedActions(renewed)).toEqual([]);
    const served = {
      ...renewed,
      routers: renewed.routers.map((each) => ({ ...each, servedNames: ["new.example", "old.example"] })),
    };
    const second = planEdgeRouter(served);
    expect(words(second.actions)).toEqual(["apply ConfigMap eu-0-config", "apply StatefulSet eu-0"]);
    expect(second).toMatchObject({ changing: [], routers: [{ advertiseAddress: "new.example:3022" }] });
  });
});
