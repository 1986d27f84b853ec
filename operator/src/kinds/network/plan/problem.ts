import type { BlockedReason } from "../../../children/blocked-reason.ts";
import { type FoundPod, type FoundStatefulSet, isRolledOut } from "../../../children/workload.ts";

/** Why a network can't be used; `reason` is what conditions and events show (docs/operator/networks.md, "Why a Network is not ready"). */
export interface NetworkProblem {
  readonly reason: NetworkProblemReason;
  /** What was expected, what was found, what to do. No secrets. */
  readonly message: string;
  /** Nothing will come of it before a person changes something. */
  readonly isStalled: boolean;
}

type NetworkProblemReason =
  | "SecretNotFound"
  | "SecretKeyMissing"
  | "ConfigMapNotFound"
  | "ConfigMapKeyMissing"
  | "InvalidCaBundle"
  | "InvalidCredentials"
  | "TokenUnavailable"
  | "AudienceNotAllowed"
  | "ControllerUnavailable"
  | "UntrustedCertificate"
  | "WrongCertificateName"
  | "CertificateExpired"
  | "NotAController"
  | "NetworkUnauthorized"
  | "RateLimited"
  | "NotAdministrator"
  | "UnsupportedVersion"
  // Of Networks that the operator runs.
  | "NameConflict"
  | "InvalidConfig"
  | "InvalidDatabaseUrl"
  | "SecretKeyLost"
  | "WaitingForLoadBalancer"
  | "WaitingForNodePort"
  | "CertManagerMissing"
  | "CertificateNotReady"
  | "ControllerStarting"
  | "ControllerFailing";

export const stalled = (reason: NetworkProblemReason, message: string): NetworkProblem => ({
  reason,
  message,
  isStalled: true,
});

export const passing = (reason: NetworkProblemReason, message: string): NetworkProblem => ({
  reason,
  message,
  isStalled: false,
});

/** A network that can be used is looked at this often, milliseconds: its API tells nothing by itself. */
const WHEN_READY_MS = 30_000;
const SOONEST_MS = 1_000;
const LATEST_MS = 60_000;
/** What a person has to put right, without that the cluster would tell. */
const WHEN_STALLED_MS = 60_000;

/** A problem of the network's own objects: the watches tell when those change. */
const OF_OBJECTS = new Set<NetworkProblem["reason"]>([
  "SecretNotFound",
  "SecretKeyMissing",
  "ConfigMapNotFound",
  "ConfigMapKeyMissing",
  "InvalidCaBundle",
  "InvalidCredentials",
  "AudienceNotAllowed",
  "InvalidConfig",
  "InvalidDatabaseUrl",
  "SecretKeyLost",
  "WaitingForLoadBalancer",
  "WaitingForNodePort",
  "CertificateNotReady",
  "ControllerFailing",
]);

/**
 * When a Network is looked at again, milliseconds; undefined: when something changes. A network that is away is asked ever more rarely, a quarter of
 * the time that it has been away for; nothing has to be remembered for that.
 */
export function nextReconcileMs(
  problem: (NetworkProblem & { readonly retryAfterMs?: number | undefined }) | undefined,
  awayForMs: number,
): number | undefined {
  if (problem === undefined) return WHEN_READY_MS;
  if (problem.retryAfterMs === undefined && OF_OBJECTS.has(problem.reason)) return undefined;
  if (problem.retryAfterMs !== undefined) return Math.max(problem.retryAfterMs + 100, SOONEST_MS);
  // Refused for good: only other credentials help.
  if (problem.reason === "NetworkUnauthorized" && problem.isStalled) return undefined;
  if (problem.isStalled) return WHEN_STALLED_MS;
  return Math.min(Math.max(awayForMs / 4, SOONEST_MS), LATEST_MS);
}

/**
 * Why the controller does not answer yet, as far as Kubernetes says it; undefined once a pod is ready.
 *
 * @param blockedReason what is in the way of a pod, where that was looked for
 */
export function rolloutProblem(
  workload: FoundStatefulSet,
  pods: readonly FoundPod[],
  blockedReason?: BlockedReason,
): NetworkProblem | undefined {
  if (isRolledOut(workload)) return undefined;
  if (blockedReason !== undefined) return stalled("ControllerFailing", blockedReason.message);
  const [pod] = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const problem = pod && podProblem(pod);
  if (problem !== undefined) return problem;
  return passing(
    "ControllerStarting",
    pod === undefined ? "its pod is being made" : `the pod ${pod.metadata.name} is starting`,
  );
}

/** These reasons pass only when a person acts. */
const HOPELESS = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "CreateContainerConfigError",
  "CrashLoopBackOff",
]);
const MAX_MESSAGE_LENGTH = 300;
/** Mistakes in the file and a database in other hands are not fixed by a restart. */
const EXIT_ADVICE: Readonly<Record<number, string>> = {
  3: "its configuration can't be used",
  4: "the database belongs to another controller",
};

function podProblem({ metadata: { name }, status = {} }: FoundPod): NetworkProblem | undefined {
  const { conditions = [], initContainerStatuses = [], containerStatuses = [] } = status;
  const unscheduled = conditions.find(({ type, status: is }) => type === "PodScheduled" && is === "False");
  if (unscheduled !== undefined) {
    return passing(
      "ControllerStarting",
      `the pod ${name} has no node yet: ${unscheduled.message ?? unscheduled.reason}`,
    );
  }
  for (const { name: container, state, lastState, restartCount = 0 } of [
    ...initContainerStatuses,
    ...containerStatuses,
  ]) {
    const last = state?.terminated ?? lastState?.terminated;
    const waiting = state?.waiting;
    const isFailed = last !== undefined && last.exitCode !== 0;
    if (waiting?.reason !== undefined && HOPELESS.has(waiting.reason)) {
      const end = isFailed ? `; it ended with ${exit(last)}` : "";
      const said = waiting.message === undefined ? "" : `: ${waiting.message}`;
      return stalled(
        "ControllerFailing",
        `the container ${container} of the pod ${name} can't run (${waiting.reason})${said}${end}; see kubectl logs ${name} -c ${container}`,
      );
    }
    if (isFailed && (restartCount > 0 || state?.terminated !== undefined)) {
      return passing(
        "ControllerStarting",
        `the container ${container} of the pod ${name} ended with ${exit(last)} and is started again; see kubectl logs ${name} -c ${container} --previous`,
      );
    }
  }
  return undefined;
}

/** The status, and the last that the program said: that names the cause. */
function exit({ exitCode = 1, message = "" }: { readonly exitCode?: number; readonly message?: string }): string {
  const advice = EXIT_ADVICE[exitCode];
  const said = message.trim().split("\n").at(-1)?.slice(0, MAX_MESSAGE_LENGTH);
  return `status ${exitCode}${advice === undefined ? "" : ` (${advice})`}${said ? `: ${said}` : ""}`;
}
