/** Where the entities of a kind are in the Management API. */
export const ENTITY_PATHS: Readonly<Record<string, string>> = {
  ServiceConfig: "configs",
  OverlayService: "services",
  Identity: "identities",
  ServicePolicy: "service-policies",
  EdgeRouterPolicy: "edge-router-policies",
  ServiceEdgeRouterPolicy: "service-edge-router-policies",
  AuthPolicy: "auth-policies",
  PostureCheck: "posture-checks",
  EdgeRouter: "edge-routers",
};

/** Those of kinds that are an entity and nothing else. */
export const SIMPLE_PATHS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(ENTITY_PATHS).filter(([kind]) => !["Identity", "EdgeRouter"].includes(kind)),
);
