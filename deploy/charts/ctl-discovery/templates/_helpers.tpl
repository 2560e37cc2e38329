{{/* Empty for the revision default, which is the same as none. */}}
{{- define "ctl-discovery.revision" -}}
{{- if ne .Values.revision "default" }}{{ .Values.revision }}{{ end }}
{{- end }}

{{/* The suffix of names: "-canary" for the revision canary. */}}
{{- define "ctl-discovery.suffix" -}}
{{- with include "ctl-discovery.revision" . }}-{{ . }}{{ end }}
{{- end }}

{{- define "ctl-discovery.name" -}}
ctl-discovery{{ include "ctl-discovery.suffix" . }}
{{- end }}

{{/* Agents find the control plane as meshd.<namespace>.svc; its ConfigMap has the same name. */}}
{{- define "ctl-discovery.service" -}}
meshd{{ include "ctl-discovery.suffix" . }}
{{- end }}

{{- define "ctl-discovery.clusterRole" -}}
{{ include "ctl-discovery.name" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "ctl-discovery.selector" -}}
app.kubernetes.io/name: ctl-discovery
mesh.io/rev: {{ .Values.revision | default "default" | quote }}
{{- end }}

{{- define "ctl-discovery.labels" -}}
{{ include "ctl-discovery.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: meshd
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "ctl-discovery.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The rules of a file of the chart without its comments; empty without rules. Names that contain the revision get it. */}}
{{- define "ctl-discovery.rules" -}}
{{- $own := printf "resourceNames: [%s]" (include "ctl-discovery.service" .context) }}
{{- with fromYamlArray (.context.Files.Get .file | replace "resourceNames: [meshd]" $own) }}
{{- toYaml . }}
{{- end }}
{{- end }}
