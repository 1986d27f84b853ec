import type { BlockedReason } from "../../../children/blocked-reason.ts";
import { type FoundPod, type FoundStatefulSet, isRolledOut } from "../../../children/workload.ts";
import { type NetworkProblem, passing, stalled } from "./problem.ts";

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
const MOST_SAID = 300;
/** Mistakes in the file and a database in other hands are not fixed by a restart. */
const EXIT_ADVICE: Readonly<Record<number, string>> = {
  3: "its configuration can't be used",
  4: "another controller holds the database",
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
  const said = message.trim().split("\n").at(-1)?.slice(0, MOST_SAID);
  return `status ${exitCode}${advice === undefined ? "" : ` (${advice})`}${said ? `: ${said}` : ""}`;
}
