/** Names under which programs can be inspected and that another program asks for (docs/protocol/control.md, "Inspect"). */
export const InspectionKey = {
  CircuitRoutes: "circuit-routes",
  IdentityConnections: "identity-connection-statuses",
  Links: "links",
  RouterCircuits: "router-circuits",
  RouterDataModel: "router-data-model",
  SdkTerminators: "sdk-terminators",
  TunnelTerminators: "ert-terminators",
} as const;
