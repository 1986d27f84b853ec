{{/* What keeps a pod within the pod security standard "restricted". */}}
{{- define "sallyport.podSecurity" -}}
{{- toYaml .Values.podSecurityContext -}}
{{- end -}}

{{- define "sallyport.containerSecurity" -}}
{{- toYaml .Values.securityContext -}}
{{- end -}}

{{/* Where pods run, and how they find names: alike for the operator and the checks. */}}
{{- define "sallyport.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "sallyport.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 16Mi
{{- end -}}

{{- define "sallyport.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/* Which namespaces the operator looks after. */}}
{{- define "sallyport.namespacesEnv" -}}
{{- if .Values.watchNamespaces -}}
- name: SALLYPORT_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
{{- end -}}
{{- end -}}

{{/* The operator's environment, as far as it differs from what the program does by itself. */}}
{{- define "sallyport.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_SERVICE_ACCOUNT
  valueFrom:
    fieldRef:
      fieldPath: spec.serviceAccountName
{{- with include "sallyport.namespacesEnv" . }}
{{ . }}
{{- end }}
{{- with include "sallyport.clusterId" . }}
- name: SALLYPORT_CLUSTER_ID
  value: {{ . | quote }}
{{- end }}
{{- $fullname := include "sallyport.fullname" . }}
{{- if ne $fullname "sallyport-operator" }}
- name: SALLYPORT_LEASE_NAME
  value: {{ $fullname }}
{{- end }}
{{- $router := include "sallyport.imageName" (dict "root" . "image" .Values.routerImage) }}
{{- if ne $router (printf "sallyport/router:%s" .Chart.AppVersion) }}
- name: SALLYPORT_ROUTER_IMAGE
  value: {{ $router | quote }}
{{- end }}
{{- $controller := include "sallyport.imageName" (dict "root" . "image" .Values.controllerImage) }}
{{- if ne $controller (printf "sallyport/controller:%s" .Chart.AppVersion) }}
- name: SALLYPORT_CONTROLLER_IMAGE
  value: {{ $controller | quote }}
{{- end }}
{{- if ne .Values.logLevel "info" }}
- name: SALLYPORT_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end }}
{{- if ne .Values.resync "10m" }}
- name: SALLYPORT_RESYNC
  value: {{ .Values.resync }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sallyport.clusterId" -}}
{{- if and .Values.watchNamespaces (not .Values.clusterId) -}}
{{- fail "clusterId: expected an id that no other operator of the same networks has, since watchNamespaces is set: such an operator may not read the namespace kube-system, whose UID stands for it otherwise. An example: --set clusterId=team-a" -}}
{{- end -}}
{{- if eq .Values.clusterId "change-me" -}}
{{- fail "clusterId: expected an id of your own, found change-me" -}}
{{- end -}}
{{- .Values.clusterId -}}
{{- end -}}

{{/* The spec of a pod that runs one command of the operator's program with the operator's rights, once: dict "root" $ "args" list. */}}
{{- define "sallyport.hookPod" -}}
{{- $root := .root -}}
restartPolicy: Never
serviceAccountName: {{ include "sallyport.serviceAccountName" $root }}
automountServiceAccountToken: true
{{- with include "sallyport.placement" $root | trim }}
{{ . }}
{{- end }}
securityContext:
  {{- include "sallyport.podSecurity" $root | nindent 2 }}
containers:
  - name: check
    image: {{ include "sallyport.hookImage" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args:
      {{- toYaml .args | nindent 6 }}
    {{- with include "sallyport.namespacesEnv" $root }}
    env:
      {{- . | nindent 6 }}
    {{- end }}
    {{- with $root.Values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      {{- include "sallyport.containerSecurity" $root | nindent 6 }}
    volumeMounts:
      {{- include "sallyport.volumeMounts" $root | nindent 6 }}
volumes:
  {{- include "sallyport.volumes" $root | nindent 2 }}
{{- end -}}
