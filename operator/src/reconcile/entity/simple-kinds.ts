import { isDeepStrictEqual } from "node:util";
import * as collections from "../../network/collections.ts";
import { authPolicy } from "../../plan/entity/auth-policy.ts";
import { edgeRouterPolicy } from "../../plan/entity/edge-router-policy.ts";
import { overlayService } from "../../plan/entity/overlay-service.ts";
import { postureCheck } from "../../plan/entity/posture-check.ts";
import { serviceEdgeRouterPolicy } from "../../plan/entity/service-edge-router-policy.ts";
import { servicePolicy } from "../../plan/entity/service-policy.ts";
import type { AuthPolicyResource } from "../../resources/auth-policy.ts";
import type { EdgeRouterPolicyResource } from "../../resources/edge-router-policy.ts";
import {
  authPolicyKind,
  edgeRouterPolicyKind,
  overlayServiceKind,
  postureCheckKind,
  serviceEdgeRouterPolicyKind,
  servicePolicyKind,
} from "../../resources/kinds.ts";
import type { OverlayServiceResource } from "../../resources/overlay-service.ts";
import type { PostureCheckResource } from "../../resources/posture-check.ts";
import type { ServiceEdgeRouterPolicyResource } from "../../resources/service-edge-router-policy.ts";
import type { ServicePolicyResource } from "../../resources/service-policy.ts";
import type { KindReconciler } from "../loop/kind-reconciler.ts";
import { entityReconciler, nothingMore } from "./entity-reconciler.ts";
import { followHosting } from "./hosting-watch.ts";
import { TerminatorCounts } from "./terminator-counts.ts";

/** A service that nobody hosts is looked at again so soon, should it have been missed that somebody does. */
const UNHOSTED_MS = 60_000;
/** What a policy selects, while that changes: resources that were declared together come one after the other. */
const SELECTING_MS = 60_000;
/** Only how many there are is asked for. */
const ONE = { limit: 1 };

const terminatorCounts = new TerminatorCounts();

const countOf = ({ meta }: { readonly meta: { readonly pagination: { readonly totalCount: number } } }): number =>
  meta.pagination.totalCount;

export const overlayServiceReconciler: KindReconciler<OverlayServiceResource> = entityReconciler({
  kind: overlayServiceKind,
  follow: followHosting,
  entity: overlayService,
  collection: collections.services,
  lookUp: nothingMore,
  async tell(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  lookAgainMs: ({ hosted }) => (hosted ? undefined : UNHOSTED_MS),
});

export const servicePolicyReconciler: KindReconciler<ServicePolicyResource> = entityReconciler({
  kind: servicePolicyKind,
  entity: servicePolicy,
  collection: collections.servicePolicies,
  lookUp: nothingMore,
  keepsTold: true,
  async tell(client, id, { spec }, signal) {
    const input = { params: { id }, query: ONE };
    const checks = [spec.postureCheckRoles, spec.postureCheckRefs, spec.postureCheckIds];
    const hasChecks = checks.some((selectors = []) => selectors.length > 0);
    const [identities, services, postureChecks] = await Promise.all([
      client.listServicePolicyIdentities(input, { signal }).then(countOf),
      client.listServicePolicyServices(input, { signal }).then(countOf),
      hasChecks ? client.listServicePolicyPostureChecks(input, { signal }).then(countOf) : 0,
    ]);
    return { matched: { identities, services, postureChecks } };
  },
  lookAgainMs: ({ matched }, before) => (isDeepStrictEqual(matched, before.matched) ? undefined : SELECTING_MS),
});

export const edgeRouterPolicyReconciler: KindReconciler<EdgeRouterPolicyResource> = entityReconciler({
  kind: edgeRouterPolicyKind,
  entity: edgeRouterPolicy,
  collection: collections.edgeRouterPolicies,
  lookUp: nothingMore,
});

export const serviceEdgeRouterPolicyReconciler: KindReconciler<ServiceEdgeRouterPolicyResource> = entityReconciler({
  kind: serviceEdgeRouterPolicyKind,
  entity: serviceEdgeRouterPolicy,
  collection: collections.serviceEdgeRouterPolicies,
  lookUp: nothingMore,
});

export const authPolicyReconciler: KindReconciler<AuthPolicyResource> = entityReconciler({
  kind: authPolicyKind,
  entity: authPolicy,
  collection: collections.authPolicies,
  lookUp: nothingMore,
});

export const postureCheckReconciler: KindReconciler<PostureCheckResource> = entityReconciler({
  kind: postureCheckKind,
  entity: postureCheck,
  collection: collections.postureChecks,
  lookUp: nothingMore,
});
