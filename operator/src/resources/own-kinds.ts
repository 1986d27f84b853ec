/**
 * Names of our kinds, as paths of the API server need them. What a kind consists of is in `definitions.ts`, from which the CRDs are made: the running
 * operator doesn't load that, since schemas take megabytes and the API server has checked its objects.
 */
import type { ResourceKind } from "../kube/kinds.ts";
import { GROUP, VERSION } from "./group.ts";

/** A kind of our group. All are namespaced. */
export interface OwnKind extends ResourceKind {
  readonly group: typeof GROUP;
  readonly version: typeof VERSION;
  readonly namespaced: true;
}

const own = (plural: string, kind: string): OwnKind => ({
  group: GROUP,
  version: VERSION,
  plural,
  kind,
  namespaced: true,
});

export const networkKind = own("networks", "Network");
export const edgeRouterKind = own("edgerouters", "EdgeRouter");
export const identityKind = own("identities", "Identity");
export const overlayServiceKind = own("overlayservices", "OverlayService");
export const serviceConfigKind = own("serviceconfigs", "ServiceConfig");
export const servicePolicyKind = own("servicepolicies", "ServicePolicy");
export const edgeRouterPolicyKind = own("edgerouterpolicies", "EdgeRouterPolicy");
export const serviceEdgeRouterPolicyKind = own("serviceedgerouterpolicies", "ServiceEdgeRouterPolicy");
export const authPolicyKind = own("authpolicies", "AuthPolicy");
export const postureCheckKind = own("posturechecks", "PostureCheck");

/** All kinds, a Network first: everything else refers to one. */
export const KINDS: readonly OwnKind[] = [
  networkKind,
  edgeRouterKind,
  identityKind,
  overlayServiceKind,
  serviceConfigKind,
  servicePolicyKind,
  edgeRouterPolicyKind,
  serviceEdgeRouterPolicyKind,
  authPolicyKind,
  postureCheckKind,
];
