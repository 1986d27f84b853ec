{{/* Generated from operator/deploy by `npm run generate`; do not edit. */}}
{{- define "sallyport.rules.cluster" -}}
# Our kinds: read, and finalizers written; their spec is never changed.
- apiGroups:
    - sallyport.dev
  resources:
    - networks
    - edgerouters
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
  verbs:
    - get
    - list
    - watch
    - patch
- apiGroups:
    - sallyport.dev
  resources:
    - networks/status
    - edgerouters/status
    - identities/status
    - overlayservices/status
    - serviceconfigs/status
    - servicepolicies/status
    - edgerouterpolicies/status
    - serviceedgerouterpolicies/status
    - authpolicies/status
    - posturechecks/status
  verbs:
    - patch
# Owner references that block the deletion of the owner, where the cluster checks that.
- apiGroups:
    - sallyport.dev
  resources:
    - networks/finalizers
    - edgerouters/finalizers
    - identities/finalizers
    - overlayservices/finalizers
    - serviceconfigs/finalizers
    - servicepolicies/finalizers
    - edgerouterpolicies/finalizers
    - serviceedgerouterpolicies/finalizers
    - authpolicies/finalizers
    - posturechecks/finalizers
  verbs:
    - update
# Tokens, identities and keys are made as Secrets; credentials that resources name are read.
- apiGroups:
    - ""
  resources:
    - secrets
  verbs:
    - get
    - list
    - watch
    - create
    - update
    - patch
    - delete
# Children of EdgeRouters and managed Networks.
- apiGroups:
    - ""
  resources:
    - configmaps
    - services
    - serviceaccounts
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - apps
  resources:
    - statefulsets
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - policy
  resources:
    - poddisruptionbudgets
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - networking.k8s.io
  resources:
    - networkpolicies
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
# Volumes of routers are made by StatefulSets, that of a managed controller by the operator; they grow, and go where a resource says so.
- apiGroups:
    - ""
  resources:
    - persistentvolumeclaims
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
# A router that is enrolled again needs a pod that looks for its token.
- apiGroups:
    - ""
  resources:
    - pods
  verbs:
    - get
    - list
    - watch
    - delete
# What other operators know, where resources ask for it.
- apiGroups:
    - monitoring.coreos.com
  resources:
    - servicemonitors
  verbs:
    - get
    - create
    - patch
    - delete
- apiGroups:
    - cert-manager.io
  resources:
    - certificates
  verbs:
    - get
    - create
    - patch
    - delete
# What is done is told by events; those of Kubernetes say why it makes no pod, or no volume.
- apiGroups:
    - events.k8s.io
  resources:
    - events
  verbs:
    - list
    - create
    - patch
# Whether one is marked as a tenant's. The UID of kube-system marks the operator's entities.
- apiGroups:
    - ""
  resources:
    - namespaces
  verbs:
    - get
# Looked at when the operator starts: older ones would lose fields.
- apiGroups:
    - apiextensions.k8s.io
  resources:
    - customresourcedefinitions
  resourceNames:
    - networks.sallyport.dev
    - edgerouters.sallyport.dev
    - identities.sallyport.dev
    - overlayservices.sallyport.dev
    - serviceconfigs.sallyport.dev
    - servicepolicies.sallyport.dev
    - edgerouterpolicies.sallyport.dev
    - serviceedgerouterpolicies.sallyport.dev
    - authpolicies.sallyport.dev
    - posturechecks.sallyport.dev
  verbs:
    - get
{{- end -}}

{{- define "sallyport.rules.namespaced" -}}
# Our kinds: read, and finalizers written; their spec is never changed.
- apiGroups:
    - sallyport.dev
  resources:
    - networks
    - edgerouters
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
  verbs:
    - get
    - list
    - watch
    - patch
- apiGroups:
    - sallyport.dev
  resources:
    - networks/status
    - edgerouters/status
    - identities/status
    - overlayservices/status
    - serviceconfigs/status
    - servicepolicies/status
    - edgerouterpolicies/status
    - serviceedgerouterpolicies/status
    - authpolicies/status
    - posturechecks/status
  verbs:
    - patch
# Owner references that block the deletion of the owner, where the cluster checks that.
- apiGroups:
    - sallyport.dev
  resources:
    - networks/finalizers
    - edgerouters/finalizers
    - identities/finalizers
    - overlayservices/finalizers
    - serviceconfigs/finalizers
    - servicepolicies/finalizers
    - edgerouterpolicies/finalizers
    - serviceedgerouterpolicies/finalizers
    - authpolicies/finalizers
    - posturechecks/finalizers
  verbs:
    - update
# Tokens, identities and keys are made as Secrets; credentials that resources name are read.
- apiGroups:
    - ""
  resources:
    - secrets
  verbs:
    - get
    - list
    - watch
    - create
    - update
    - patch
    - delete
# Children of EdgeRouters and managed Networks.
- apiGroups:
    - ""
  resources:
    - configmaps
    - services
    - serviceaccounts
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - apps
  resources:
    - statefulsets
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - policy
  resources:
    - poddisruptionbudgets
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
- apiGroups:
    - networking.k8s.io
  resources:
    - networkpolicies
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
# Volumes of routers are made by StatefulSets, that of a managed controller by the operator; they grow, and go where a resource says so.
- apiGroups:
    - ""
  resources:
    - persistentvolumeclaims
  verbs:
    - get
    - list
    - watch
    - create
    - patch
    - delete
# A router that is enrolled again needs a pod that looks for its token.
- apiGroups:
    - ""
  resources:
    - pods
  verbs:
    - get
    - list
    - watch
    - delete
# What other operators know, where resources ask for it.
- apiGroups:
    - monitoring.coreos.com
  resources:
    - servicemonitors
  verbs:
    - get
    - create
    - patch
    - delete
- apiGroups:
    - cert-manager.io
  resources:
    - certificates
  verbs:
    - get
    - create
    - patch
    - delete
# What is done is told by events; those of Kubernetes say why it makes no pod, or no volume.
- apiGroups:
    - events.k8s.io
  resources:
    - events
  verbs:
    - list
    - create
    - patch
# Whether it is marked as a tenant's: this namespace alone, since a Role reaches no other.
- apiGroups:
    - ""
  resources:
    - namespaces
  verbs:
    - get
{{- end -}}

{{- define "sallyport.rules.leases" -}}
- apiGroups:
    - coordination.k8s.io
  resources:
    - leases
  verbs:
    - get
    - create
    - update
# Networks that the operator logs in to by a token of its own service account.
- apiGroups:
    - ""
  resources:
    - serviceaccounts/token
  resourceNames:
    - {{ include "sallyport.serviceAccountName" . }}
  verbs:
    - create
{{- end -}}

{{- define "sallyport.rules.view" -}}
- apiGroups:
    - sallyport.dev
  resources:
    - networks
    - edgerouters
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
    - networks/status
    - edgerouters/status
    - identities/status
    - overlayservices/status
    - serviceconfigs/status
    - servicepolicies/status
    - edgerouterpolicies/status
    - serviceedgerouterpolicies/status
    - authpolicies/status
    - posturechecks/status
    - edgerouters/scale
  verbs:
    - get
    - list
    - watch
{{- end -}}

{{- define "sallyport.rules.edit" -}}
- apiGroups:
    - sallyport.dev
  resources:
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
  verbs:
    - create
    - update
    - patch
    - delete
    - deletecollection
- apiGroups:
    - sallyport.dev
  resources:
    - edgerouters/scale
  verbs:
    - get
    - update
    - patch
{{- end -}}

{{- define "sallyport.rules.admin" -}}
- apiGroups:
    - sallyport.dev
  resources:
    - networks
    - edgerouters
  verbs:
    - create
    - update
    - patch
    - delete
    - deletecollection
{{- end -}}

{{- define "sallyport.rules.tenant" -}}
- apiGroups:
    - sallyport.dev
  resources:
    - networks
    - edgerouters
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
    - networks/status
    - edgerouters/status
    - identities/status
    - overlayservices/status
    - serviceconfigs/status
    - servicepolicies/status
    - edgerouterpolicies/status
    - serviceedgerouterpolicies/status
    - authpolicies/status
    - posturechecks/status
  verbs:
    - get
    - list
    - watch
- apiGroups:
    - sallyport.dev
  resources:
    - identities
    - overlayservices
    - serviceconfigs
    - servicepolicies
    - edgerouterpolicies
    - serviceedgerouterpolicies
    - authpolicies
    - posturechecks
  verbs:
    - create
    - update
    - patch
    - delete
    - deletecollection
{{- end -}}
