import type { Condition } from "./condition.ts";

export type Health = "Current" | "InProgress" | "Failed" | "Terminating";

/** What generic tools look at. */
export interface Judged {
  readonly metadata: { readonly generation?: number | undefined; readonly deletionTimestamp?: string | undefined };
  readonly status?:
    | {
        readonly observedGeneration?: number | undefined;
        readonly conditions?: readonly Pick<Condition, "type" | "status" | "reason" | "message">[] | undefined;
      }
    | undefined;
}

/**
 * How `kubectl`, Flux and Argo CD judge a custom resource that follows the conventions (docs/operator/machinery.md, "Conditions"):
 * the first of the six tests that fits decides.
 */
export function healthOf({ metadata, status }: Judged): { health: Health; message: string } {
  const { observedGeneration, conditions = [] } = status ?? {};
  if (metadata.deletionTimestamp !== undefined) return { health: "Terminating", message: "it is being deleted" };
  if (observedGeneration !== undefined && observedGeneration !== metadata.generation) {
    const message = `generation ${metadata.generation} is not observed yet, the last was ${observedGeneration}`;
    return { health: "InProgress", message };
  }
  const abnormal = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (abnormal !== undefined) {
    return { health: abnormal.type === "Stalled" ? "Failed" : "InProgress", message: abnormal.message };
  }
  const ready = conditions.find(({ type }) => type === "Ready");
  if (ready === undefined) return { health: "Current", message: "it says nothing about being ready" };
  return { health: ready.status === "True" ? "Current" : "InProgress", message: ready.message };
}
