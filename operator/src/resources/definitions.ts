import { authPolicyDefinition } from "./auth-policy.ts";
import { edgeRouterDefinition } from "./edge-router.ts";
import { edgeRouterPolicyDefinition } from "./edge-router-policy.ts";
import { identityDefinition } from "./identity.ts";
import type { KindDefinition } from "./kind.ts";
import { networkDefinition } from "./network.ts";
import { overlayServiceDefinition } from "./overlay-service.ts";
import { postureCheckDefinition } from "./posture-check.ts";
import { serviceConfigDefinition } from "./service-config.ts";
import { serviceEdgeRouterPolicyDefinition } from "./service-edge-router-policy.ts";
import { servicePolicyDefinition } from "./service-policy.ts";

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
