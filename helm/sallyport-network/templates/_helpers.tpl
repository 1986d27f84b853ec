{{- define "sallyport-network.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sallyport-network.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sallyport-network.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "sallyport-network.labels" -}}
{{ include "sallyport-network.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{- /*
One resource. Values are data and nothing else: no text of them is a template, and all of them are written by toYaml.
Takes root, kind, name, spec and metadata.
*/ -}}
{{- define "sallyport-network.resource" -}}
{{- $given := .metadata | default dict -}}
{{- $labels := dict -}}
{{- range $from := list .root.Values.commonLabels $given.labels (include "sallyport-network.labels" .root | fromYaml) -}}
{{- range $key, $value := $from }}{{ $_ := set $labels $key $value }}{{ end -}}
{{- end -}}
{{- $annotations := dict -}}
{{- if .root.Values.keepOnUninstall }}{{ $_ := set $annotations "helm.sh/resource-policy" "keep" }}{{ end -}}
{{- range $from := list .root.Values.commonAnnotations $given.annotations -}}
{{- range $key, $value := $from }}{{ $_ := set $annotations $key $value }}{{ end -}}
{{- end -}}
{{- $metadata := dict "name" .name "namespace" .root.Release.Namespace "labels" $labels -}}
{{- with $annotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
---
{{ toYaml (dict "apiVersion" "sallyport.dev/v1alpha1" "kind" .kind "metadata" $metadata "spec" .spec) }}
{{ end -}}

{{- /* The resources of a map of values. Takes root, kind and from. */ -}}
{{- define "sallyport-network.resources" -}}
{{- $root := .root -}}
{{- $kind := .kind -}}
{{- range $name, $value := .from }}
{{- if not (kindIs "invalid" $value) }}
{{- $spec := set (omit $value "metadata") "networkRef" (dict "name" $root.Values.network.name) }}
{{- include "sallyport-network.resource" (dict "root" $root "kind" $kind "name" $name "spec" $spec "metadata" $value.metadata) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Metadata of the objects of `helm test`, which are there only while it runs; one that failed stays for its log. Takes root, name and podLabels. */ -}}
{{- define "sallyport-network.testMetadata" -}}
{{- $labels := dict -}}
{{- range $from := list .root.Values.commonLabels .podLabels (include "sallyport-network.labels" .root | fromYaml) -}}
{{- range $key, $value := $from }}{{ $_ := set $labels $key $value }}{{ end -}}
{{- end -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- toYaml (set $labels "app.kubernetes.io/component" "test") | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
