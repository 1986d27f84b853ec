import type { ConditionDraft } from "../../../kube/conditions.ts";
import type { NetworkProblem } from "./problem.ts";

/** How far the look at a network came; the first problem ends it. */
export interface Findings {
  /** Of a Network that is run here: its objects and pods come first. */
  readonly isManaged?: boolean;
  /** The objects in the cluster can't be as wanted. */
  readonly deployment?: NetworkProblem;
  /** The controller's pod is not ready. */
  readonly availability?: NetworkProblem;
  /** Of several controllers: the network can be used when one is ready. */
  readonly replicas?: Replicas | undefined;
  /** Nothing could be asked: the Network's own settings, Secrets and ConfigMaps. */
  readonly access?: NetworkProblem;
  /** The controller did not answer, or not as one. */
  readonly connection?: NetworkProblem;
  readonly version?: NetworkProblem;
  readonly login?: NetworkProblem;
  /** Of a controller that can be used. */
  readonly serverVersion?: string;
  readonly identity?: string;
}

interface Replicas {
  readonly wanted: number;
  readonly ready: number;
  /** Why they are not all ready. */
  readonly problem?: NetworkProblem | undefined;
}

type Step = { readonly type: string; readonly problem: NetworkProblem | undefined; readonly good: Good };
interface Good {
  readonly reason: string;
  readonly message: string;
}

/** The conditions that say how a Network is reached, `Ready` last but for `Reconciling` or `Stalled`. */
export function connectionConditions(findings: Findings): ConditionDraft[] {
  const { access, connection, version, login, serverVersion = "", identity = "" } = findings;
  const steps: Step[] = [
    ...(findings.isManaged ? deploymentSteps(findings) : []),
    {
      type: "Connected",
      problem: access ?? connection,
      good: { reason: "Connected", message: "the controller answers, and its certificate is trusted" },
    },
    {
      type: "VersionSupported",
      problem: version,
      good: { reason: "Supported", message: `the controller is of version ${serverVersion}` },
    },
    {
      type: "Authenticated",
      problem: login,
      good: { reason: "LoggedIn", message: `logged in as ${identity}, an administrator` },
    },
  ];
  const drafts: ConditionDraft[] = [];
  let first: NetworkProblem | undefined;
  for (const { type, problem, good } of steps) {
    if (first !== undefined) {
      drafts.push({ type, status: "Unknown", reason: "NotTried", message: `not tried: ${first.reason}` });
    } else if (problem === undefined) {
      drafts.push({ type, status: "True", ...good });
    } else {
      first = problem;
      drafts.push({ type, status: "False", reason: problem.reason, message: problem.message });
    }
  }
  return [...drafts, ...replicaConditions(findings.replicas), ...readyConditions(first, findings.replicas?.problem)];
}

/** That one of several controllers is missing is no reason not to use the network. */
function replicaConditions(replicas: Replicas | undefined): ConditionDraft[] {
  if (replicas === undefined) return [];
  const { wanted, ready, problem } = replicas;
  const type = "ReplicasReady";
  const count = `${Math.min(ready, wanted)} of ${wanted} controllers are ready`;
  if (problem === undefined) return [{ type, status: "True", reason: "AllReady", message: count }];
  return [{ type, status: "False", reason: problem.reason, message: `${count}: ${problem.message}` }];
}

function deploymentSteps({ deployment, availability, replicas }: Findings): Step[] {
  return [
    {
      type: "Deployed",
      problem: deployment,
      good: { reason: "Deployed", message: "the objects in the cluster are as in the spec" },
    },
    {
      type: "Available",
      problem: availability,
      good: {
        reason: "PodReady",
        message: replicas === undefined ? "the controller's pod is ready" : "a controller's pod is ready",
      },
    },
  ];
}

/**
 * `Ready`, and with a problem `Stalled` or `Reconciling`.
 * @param lesser a problem with which the network can be used
 */
function readyConditions(problem: NetworkProblem | undefined, lesser: NetworkProblem | undefined): ConditionDraft[] {
  const ready: ConditionDraft =
    problem === undefined
      ? { type: "Ready", status: "True", reason: "Ready", message: "the network can be used" }
      : { type: "Ready", status: "False", reason: problem.reason, message: problem.message };
  const shown = problem ?? lesser;
  if (shown === undefined) return [ready];
  const { reason, message, isStalled } = shown;
  return [ready, { type: isStalled ? "Stalled" : "Reconciling", status: "True", reason, message }];
}
