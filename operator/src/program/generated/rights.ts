// Generated from operator/deploy by `npm run generate`; do not edit.

export interface Right {
  readonly group: string;
  /** With its subresource: `networks/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
}

/** In every namespace that is looked after. */
export const RIGHTS: readonly Right[] = [
  {
    "group": "sallyport.dev",
    "resource": "networks",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouters",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "identities",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "overlayservices",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceconfigs",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "servicepolicies",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouterpolicies",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceedgerouterpolicies",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "authpolicies",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "posturechecks",
    "verbs": [
      "get",
      "list",
      "watch",
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "networks/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouters/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "identities/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "overlayservices/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceconfigs/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "servicepolicies/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouterpolicies/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceedgerouterpolicies/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "authpolicies/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "posturechecks/status",
    "verbs": [
      "patch"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "networks/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouters/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "identities/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "overlayservices/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceconfigs/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "servicepolicies/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "edgerouterpolicies/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "serviceedgerouterpolicies/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "authpolicies/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "sallyport.dev",
    "resource": "posturechecks/finalizers",
    "verbs": [
      "update"
    ]
  },
  {
    "group": "",
    "resource": "secrets",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "update",
      "patch",
      "delete"
    ]
  },
  {
    "group": "",
    "resource": "configmaps",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "",
    "resource": "services",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "",
    "resource": "serviceaccounts",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "apps",
    "resource": "statefulsets",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "policy",
    "resource": "poddisruptionbudgets",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "networking.k8s.io",
    "resource": "networkpolicies",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "",
    "resource": "persistentvolumeclaims",
    "verbs": [
      "get",
      "list",
      "watch",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "",
    "resource": "pods",
    "verbs": [
      "get",
      "list",
      "watch",
      "delete"
    ]
  },
  {
    "group": "monitoring.coreos.com",
    "resource": "servicemonitors",
    "verbs": [
      "get",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "cert-manager.io",
    "resource": "certificates",
    "verbs": [
      "get",
      "create",
      "patch",
      "delete"
    ]
  },
  {
    "group": "events.k8s.io",
    "resource": "events",
    "verbs": [
      "list",
      "create",
      "patch"
    ]
  },
  {
    "group": "",
    "resource": "namespaces",
    "verbs": [
      "get"
    ]
  }
];

/** In the operator's own namespace. */
export const OWN_RIGHTS: readonly Right[] = [
  {
    "group": "coordination.k8s.io",
    "resource": "leases",
    "verbs": [
      "get",
      "create",
      "update"
    ]
  }
];
