import {
  ANNOTATIONS,
  type EdgeRouterResource,
  missingReason,
  missingText,
  type RouterStatus,
} from "@sallyport/resources";
import { isRolledOut } from "../../../children/workload.ts";
import type { ConditionDraft } from "../../../kube/conditions.ts";
import { hostnameOf } from "../render/address.ts";
import { routerName } from "../render/names.ts";
import type { SpecProblem } from "../render/router-config.ts";
import { certificateOf, isOnline, isVerified, routerProblem, type SurplusRouter, unreadySince } from "./router-plan.ts";
import type { RouterStep } from "./step.ts";

/** What conditions are made from, once it is decided what is done. */
interface ConditionInput {
  readonly resource: EdgeRouterResource;
  readonly now: Date;
  /** Why the spec can't be followed at all. */
  readonly problems: readonly SpecProblem[];
  readonly steps: readonly RouterStep[];
  readonly routers: readonly RouterStatus[];
  readonly surplus: readonly SurplusRouter[];
  /** Ordinals that are not as the spec wants them yet. */
  readonly outdated: readonly number[];
  /** Shared objects of the routers that another client made. */
  readonly conflicts: readonly string[];
}

/** One aspect: it holds, it will hold, or a person has to act. */
interface Finding {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
  readonly isStalled?: boolean;
}

type ConditionCheck = (input: ConditionInput) => Finding;

/** A pod that takes longer to become ready is stuck. */
const STUCK_MS = 10 * 60_000;
const DAY_MS = 24 * 3_600_000;
/**
 * Routers renew their certificates a week before the end, or when a third of their life is left if that is less: when three sevenths of that time are left, something
 * keeps them from it.
 */
const overdueMs = (lifeMs: number): number => Math.min(3 * DAY_MS, lifeMs / 7);

const good = (type: string, reason: string, message: string): Finding => ({ type, status: "True", reason, message });
const bad = (type: string, reason: string, message: string, isStalled = false): Finding => ({
  ...{ type, status: "False", reason, message, isStalled },
});

const entitiesSynced: ConditionCheck = ({ steps }) => {
  for (const { router } of steps) {
    if (router.entity.state === "failed") {
      const { reason, message, isStalled } = router.entity;
      return bad("EntitiesSynced", reason, message, isStalled);
    }
    const { missing = [] } = router.entity;
    if (missing.length === 0) continue;
    return bad("EntitiesSynced", missingReason(missing), `${missingText(missing)}; the rest is in force`);
  }
  return good("EntitiesSynced", "Synced", "the network has the routers as in the spec");
};

const configValid: ConditionCheck = ({ problems: ofSpec, steps }) => {
  const problems = ofSpec.length > 0 ? ofSpec : steps.flatMap((step) => step.problems);
  if (problems.length === 0) return good("ConfigValid", "Valid", "the routers' files are valid");
  const texts = [...new Set(problems.map(({ path, message }) => `${path}: ${message}`))];
  const more = texts.length > 5 ? `; and ${texts.length - 5} more` : "";
  return bad("ConfigValid", "InvalidConfig", `${texts.slice(0, 5).join("; ")}${more}`, true);
};

const addressAssigned: ConditionCheck = ({ resource, steps }) => {
  for (const { address, isChanging, router, advertised } of steps) {
    if (address?.state === "waiting") return bad("AddressAssigned", address.reason, address.message);
    if (isChanging && address?.state === "known") {
      const name = routerName(resource.metadata.name, router.ordinal);
      const message = `router ${name} goes on as ${advertised} until its certificate has the name ${address.address.host}; it is renewed when the pod starts`;
      return good("AddressAssigned", "AddressChanging", message);
    }
  }
  if (resource.spec.exposure.type === "None")
    return good("AddressAssigned", "NotExposed", "no client dials the routers");
  return good("AddressAssigned", "Assigned", "every router has an address");
};

const enrolled: ConditionCheck = ({ steps }) => {
  for (const { router, enrollment } of steps) {
    if (enrollment?.step === "lost") return bad("Enrolled", "IdentityLost", enrollment.message, true);
    if (enrollment?.step === "reEnroll") return bad("Enrolled", enrollment.reason, enrollment.message);
    if (isVerified(router)) continue;
    const problem = routerProblem(router);
    const name = router.entity.state === "synced" ? router.entity.found.name : String(router.ordinal);
    const message = `router ${name} has not enrolled yet`;
    if (problem === undefined) return bad("Enrolled", "WaitingForEnrollment", message);
    // The pod's own reason goes back and forth, such as between ErrImagePull and ImagePullBackOff.
    return bad("Enrolled", "PodFailing", `${message}: ${problem.message}`);
  }
  return good("Enrolled", "Enrolled", "every router has its certificates");
};

const workloadReady: ConditionCheck = ({ resource, steps, conflicts, outdated, now }) => {
  const all = [...conflicts, ...steps.flatMap((step) => step.conflicts)];
  if (all.length > 0) {
    const message = `${all.join("; ")}: delete or rename it, or choose another name for the EdgeRouter`;
    const reason = all.some((text) => text.startsWith("Secret ")) ? "SecretConflict" : "ObjectConflict";
    return bad("WorkloadReady", reason, message, true);
  }
  for (const { router } of steps) {
    const { statefulSet, pod, ordinal } = router;
    const name = routerName(resource.metadata.name, ordinal);
    if (statefulSet !== undefined && isRolledOut(statefulSet)) continue;
    const problem = routerProblem(router);
    const since = pod && unreadySince(pod);
    const waits = since === undefined ? 0 : now.getTime() - since.getTime();
    if (problem?.isRepeated === true || waits > STUCK_MS) {
      const waiting = outdated
        .filter((each) => each !== ordinal)
        .map((each) => routerName(resource.metadata.name, each));
      const others = waiting.length === 0 ? "" : `; ${waiting.join(", ")} wait for it`;
      const why = problem?.message ?? "its pod does not become ready";
      return bad("WorkloadReady", "RolloutStuck", `router ${name}: ${why}${others}`, true);
    }
    const why = problem?.message ?? (statefulSet === undefined ? "it has no pod yet" : "its pod is starting");
    return bad("WorkloadReady", problem?.reason ?? "Progressing", `router ${name}: ${why}`);
  }
  return good("WorkloadReady", "Ready", "every router has a pod that is ready");
};

const online: ConditionCheck = ({ resource, steps }) => {
  const away = steps
    .filter(({ router }) => !isOnline(router))
    .map(({ router }) => routerName(resource.metadata.name, router.ordinal));
  if (away.length === 0) return good("Online", "Online", "the controller has every router");
  const names = away.join(", ");
  if (resource.spec.disabled)
    return bad("Online", "Disabled", `${names}: the controller turns them away, spec.disabled is true`);
  return bad(
    "Online",
    "Offline",
    `${names}: not connected to a controller; the pod's log and its route to the controller tell why`,
  );
};

const certificateValid: ConditionCheck = ({ resource, steps, routers, now }) => {
  const type = "CertificateValid";
  const [first] = routers
    .flatMap(({ ordinal, certificateNotAfter: end }) => (end === undefined ? [] : [{ ordinal, end: Date.parse(end) }]))
    .sort((a, b) => a.end - b.end);
  if (first === undefined) return good(type, "NotKnown", "no router has a certificate yet");
  const name = routerName(resource.metadata.name, first.ordinal);
  const end = new Date(first.end).toISOString();
  const remedy = `annotate the EdgeRouter with ${ANNOTATIONS.reEnroll}=${first.ordinal}:<anything new>`;
  if (first.end <= now.getTime()) {
    return bad(type, "CertificateExpired", `the certificate of ${name} ended on ${end}: ${remedy}`, true);
  }
  const entity = steps.find(({ router }) => router.ordinal === first.ordinal)?.router.entity;
  const certificate = entity?.state === "synced" ? certificateOf(entity.found.certPem) : undefined;
  const life = certificate === undefined ? Number.POSITIVE_INFINITY : first.end - certificate.notBefore.getTime();
  if (first.end - now.getTime() < overdueMs(life)) {
    return bad(
      type,
      "CertificateExpiring",
      `the certificate of ${name} ends on ${end} and was not renewed: look at its log; ${remedy} when that does not help`,
    );
  }
  return good(type, "Valid", `the first certificate to end, that of ${name}, is valid until ${end}`);
};

/** In the order to show; the first that does not hold says why the EdgeRouter is not ready. */
const CONDITION_CHECKS: readonly ConditionCheck[] = [
  entitiesSynced,
  configValid,
  addressAssigned,
  enrolled,
  workloadReady,
  online,
  certificateValid,
];

/** All conditions of an EdgeRouter. */
export function routerConditions(input: ConditionInput): ConditionDraft[] {
  const { resource, steps, surplus, outdated } = input;
  const findings = CONDITION_CHECKS.map((check) => check(input));
  const draft = ({ type, status, reason, message }: Finding): ConditionDraft => ({ type, status, reason, message });
  const failing =
    findings.find(({ isStalled }) => isStalled === true) ?? findings.find(({ status }) => status === "False");
  const aspects = findings.map(draft);
  if (failing !== undefined) {
    const { reason, message } = failing;
    const more = failing.isStalled === true ? "Stalled" : "Reconciling";
    return [
      { type: "Ready", status: "False", reason, message },
      ...aspects,
      { type: more, status: "True", reason, message },
    ];
  }
  const count = steps.length;
  const ready =
    count === 0 ? "no router is wanted" : `${count === 1 ? "the router is" : `all ${count} routers are`} online`;
  const work = workLeft(resource, surplus, outdated) ?? growthLeft(steps);
  const reconciling: ConditionDraft[] =
    work === undefined ? [] : [{ type: "Reconciling", status: "True", reason: "Progressing", message: work }];
  return [
    { type: "Ready", status: "True", reason: count === 0 ? "ScaledToZero" : "Online", message: ready },
    ...aspects,
    ...reconciling,
  ];
}

function workLeft(
  { metadata }: EdgeRouterResource,
  surplus: readonly SurplusRouter[],
  outdated: readonly number[],
): string | undefined {
  const names = (ordinals: readonly number[]) => ordinals.map((each) => routerName(metadata.name, each)).join(", ");
  if (outdated.length > 0) return `being brought up to date: ${names(outdated)}`;
  if (surplus.length > 0) return `on the way out: ${names(surplus.map(({ ordinal }) => ordinal))}`;
  return undefined;
}

function growthLeft(steps: readonly RouterStep[]): string | undefined {
  const volumes = steps.flatMap(({ actions }) =>
    actions.flatMap((action) => (action.type === "growClaim" ? [`${action.name} to ${action.size}`] : [])),
  );
  if (volumes.length === 0) return undefined;
  return `to be grown: ${volumes.join(", ")}; when the storage class does not let it, the event VolumeNotGrown says so`;
}

/** The conditions of an EdgeRouter that only looks at its routers. */
export function observedConditions(
  steps: readonly { name: string; differences: readonly string[]; missing?: string }[],
): ConditionDraft[] {
  const missing = steps.flatMap((step) => step.missing ?? []);
  if (missing.length > 0) {
    const outcome = { status: "False", reason: "NotInNetwork", message: missing.join("; ") } as const;
    return [
      { type: "Ready", ...outcome },
      { type: "EntitiesSynced", ...outcome },
      { type: "Reconciling", ...outcome, status: "True" },
    ];
  }
  const texts = steps.flatMap(({ name, differences }) =>
    differences.length === 0 ? [] : [`${name}: ${differences.join(", ")}`],
  );
  const ready = { status: "True", reason: "Observed", message: "the routers exist; they are only observed" } as const;
  const message = `not as in the spec: ${texts.join("; ")}; managementPolicy Observe leaves that as it is`;
  const synced = texts.length === 0 ? ready : ({ status: "False", reason: "Observed", message } as const);
  return [
    { type: "Ready", ...ready },
    { type: "EntitiesSynced", ...synced },
  ];
}

/** The first load balancer that has no name: its address may change with every load balancer that is made. */
export function advertisedIp({ spec, metadata }: EdgeRouterResource, step: RouterStep): string | undefined {
  if (spec.exposure.type !== "LoadBalancer" || step.advertised === undefined) return undefined;
  if (hostnameOf({ kind: "EdgeRouter", metadata, spec }, 0) !== undefined) return undefined;
  if (step.address?.state !== "known" || !/^[0-9.]+$|:/.test(step.address.address.host)) return undefined;
  return step.advertised;
}
