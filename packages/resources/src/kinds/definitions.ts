import type { KindDefinition } from "../kind-definition.ts";
import { authPolicyDefinition } from "./auth-policy/schema.ts";
import { edgeRouterDefinition } from "./edge-router/schema.ts";
import { edgeRouterPolicyDefinition } from "./edge-router-policy/schema.ts";
import { identityDefinition } from "./identity/schema.ts";
import { networkDefinition } from "./network/schema.ts";
import { overlayServiceDefinition } from "./overlay-service/schema.ts";
import { postureCheckDefinition } from "./posture-check/schema.ts";
import { serviceConfigDefinition } from "./service-config/schema.ts";
import { serviceEdgeRouterPolicyDefinition } from "./service-edge-router-policy/schema.ts";
import { servicePolicyDefinition } from "./service-policy/schema.ts";

/** The definition of each of `KINDS`, in the same order: for the CRDs, the documentation and tests. The running operator loads none of them. */
export const DEFINITIONS: readonly KindDefinition[] = [
  networkDefinition,
  edgeRouterDefinition,
  identityDefinition,
  overlayServiceDefinition,
  serviceConfigDefinition,
  servicePolicyDefinition,
  edgeRouterPolicyDefinition,
  serviceEdgeRouterPolicyDefinition,
  authPolicyDefinition,
  postureCheckDefinition,
];

export { edgeRouterDefinition, identityDefinition, networkDefinition };
