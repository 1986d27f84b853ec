/**
 * Names by which Kubernetes knows what is ours: the API group, and the finalizer, annotations and labels under it.
 * Nothing else spells them out. `docs/operator/resources.md` says what each annotation does.
 */
export const GROUP = "sallyport.dev";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}` as const;
/** `kubectl get overlay` lists all kinds. */
export const CATEGORY = "overlay";

/**
 * Grows with every change of a schema that the operator relies on. CRDs carry it in `ANNOTATIONS.schemaVersion`; an
 * operator that finds a smaller one says so at its start, instead of losing the fields that the API server prunes.
 */
export const SCHEMA_VERSION = 1;

/** On everything whose deletion has an effect outside of Kubernetes. */
export const FINALIZER = `${GROUP}/finalizer`;

/** Label of everything that the operator makes in the cluster: of the kinds of Kubernetes it sees nothing else. */
export const MANAGED_BY = { key: "app.kubernetes.io/managed-by", value: "sallyport" } as const;

/** Whether the operator has made the object: what it keeps in Secrets of its own is no value for a spec. */
export const isOfOperator = ({ labels }: { readonly labels?: Readonly<Record<string, string>> | undefined }): boolean =>
  labels?.[MANAGED_BY.key] === MANAGED_BY.value;

export const ANNOTATIONS = {
  /** `"true"`: nothing is written but the condition `ReconciliationPaused`; deletion still works. */
  pause: `${GROUP}/pause-reconciliation`,
  /** Any new value: reconcile now; echoed in `status.lastHandledReconcileAt`. */
  reconcile: `${GROUP}/reconcile-requested-at`,
  /** Any new value on an EdgeRouter or a managed Network: restart its pods, one at a time. */
  restart: `${GROUP}/restart-requested-at`,
  /** EdgeRouter: `<ordinal>:<nonce>`, Identity: `<nonce>`; handled once, echoed in `status.lastHandledReEnroll`. */
  reEnroll: `${GROUP}/re-enroll`,
  /** `"true"`: a resource that is being deleted leaves the network's objects behind instead of waiting. */
  forceOrphan: `${GROUP}/force-orphan`,
  /** Pod templates: hash of the rendered file. A pod restarts only if it changes. */
  configHash: `${GROUP}/config-hash`,
  /** Children: hash of what was applied last. */
  intent: `${GROUP}/intent-hash`,
  /** Secrets with a certificate: when that ends, RFC 3339. */
  certificateNotAfter: `${GROUP}/certificate-not-after`,
  /** CRDs: `SCHEMA_VERSION`. */
  schemaVersion: `${GROUP}/schema-version`,
} as const;

export const LABELS = {
  /** Kind of the resource that a child belongs to. */
  ownerKind: `${GROUP}/owner-kind`,
  /** Its name. */
  ownerName: `${GROUP}/owner-name`,
  /** On a namespace: its resources reach nothing beyond it (docs/gitops.md, "Teams"). Every value but `"false"` counts. */
  tenant: `${GROUP}/tenant`,
  /** EdgeRouter children: which of the routers. */
  ordinal: `${GROUP}/ordinal`,
} as const;

/**
 * Names of our kinds, as paths of the API server need them. What a kind consists of is in `definitions.ts`, from which the CRDs are made: the running
 * operator doesn't load that, since schemas take megabytes and the API server has checked its objects.
 */

/** A kind of our group. All are namespaced. */
export interface OwnKind {
  readonly group: typeof GROUP;
  readonly version: typeof VERSION;
  /** As in the path: `edgerouters`. */
  readonly plural: string;
  /** As in the object: `EdgeRouter`. */
  readonly kind: string;
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
