/**
 * What containers of the operator's own ask for and may use where the spec says nothing. Both have both amounts, so that pods are made in a namespace with
 * a quota of any of them, and an autoscaler has something to measure by.
 */
export const RESOURCES = {
  router: { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "2", memory: "1Gi" } },
  controller: { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "2", memory: "1Gi" } },
} as const;
