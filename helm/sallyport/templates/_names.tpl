{{/* What the program is called, in labels. */}}
{{- define "sallyport.name" -}}
{{- default "sallyport-operator" .Values.nameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects: 45 characters leave room for what stands behind some of them. */}}
{{- define "sallyport.fullname" -}}
{{- $name := include "sallyport.name" . -}}
{{- if not (or (eq .Release.Name .Chart.Name) (eq .Release.Name $name)) -}}
{{- $name = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- default $name .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{- define "sallyport.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sallyport.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: expected the name of a ServiceAccount that is there, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* By which the Deployment knows its pods; never changes. */}}
{{- define "sallyport.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What Helm and its users know a release by. */}}
{{- define "sallyport.releaseLabels" -}}
{{- if not (hasKey .Values "revisionHistoryLimit") -}}
{{- fail "the values are those of a former release, without this version's defaults such as security contexts: upgrade with --reset-then-reuse-values in place of --reuse-values" -}}
{{- end -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- range $name, $value := .Values.commonLabels }}
{{- if not (or (hasPrefix "app.kubernetes.io/" $name) (eq $name "helm.sh/chart")) }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sallyport.labels" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/part-of: sallyport
{{ include "sallyport.releaseLabels" . }}
{{- end -}}

{{/* The labels of an object with further ones, of which none takes the place of its own: dict "root" $ "more" (dict …). */}}
{{- define "sallyport.labelsWith" -}}
{{- toYaml (merge (fromYaml (include "sallyport.labels" .root)) .more) -}}
{{- end -}}

{{/* Of the pods of hooks, which are none of the Deployment's. */}}
{{- define "sallyport.hookLabels" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}-check
app.kubernetes.io/part-of: sallyport
{{ include "sallyport.releaseLabels" . }}
{{- end -}}

{{/* An image's whole name: dict "root" $ "image" (dict repository, tag, digest). */}}
{{- define "sallyport.imageName" -}}
{{- with .root.Values.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.tag }}:{{ .image.tag }}{{ else if not .image.digest }}:{{ .root.Chart.AppVersion }}{{ end -}}
{{- with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "sallyport.image" -}}
{{- include "sallyport.imageName" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{- define "sallyport.hookImage" -}}
{{- default (include "sallyport.image" .) .Values.test.image -}}
{{- end -}}
