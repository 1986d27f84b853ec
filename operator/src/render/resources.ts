/** Default requests and limits of routers and controllers. Both CPU and memory are given, as quotas and autoscalers require. */
export const RESOURCES = {
  router: { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "2", memory: "1Gi" } },
  controller: { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "2", memory: "1Gi" } },
} as const;
