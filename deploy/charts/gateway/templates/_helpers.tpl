{{- define "gateway.name" -}}
{{ .Values.name | default .Release.Name }}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels that Gateway resources select. */}}
{{- define "gateway.podLabels" -}}
{{- toYaml (merge (dict) .Values.labels (ternary (dict "gateway" (include "gateway.name" .)) (dict) (empty .Values.labels))) }}
{{- end }}

{{/* A gateway gets no sidecar, not even in a namespace with injection. */}}
{{- define "gateway.noSidecar" -}}
sidecar.mesh.io/inject: "false"
sidecar.istio.io/inject: "false"
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: meshd
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gateway.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
