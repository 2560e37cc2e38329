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

{{/* The ClusterRole of gateways that read Secrets; empty: they read none. */}}
{{- define "ctl-discovery.gatewaySecrets" -}}
{{- if and .Values.gatewayApi.enabled .Values.gatewayApi.readSecrets -}}
{{ include "ctl-discovery.clusterRole" . }}-gateway-secrets
{{- end }}
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

{{/* The default of INJECTION_WEBHOOK_CONFIG_NAME, and the name of the ConfigMap of the injector. */}}
{{- define "ctl-discovery.injector" -}}
mesh-sidecar-injector{{ include "ctl-discovery.suffix" . }}
{{- end }}

{{/* The ConfigMap of the hosts that sidecars have learned. */}}
{{- define "ctl-discovery.learnedHosts" -}}
meshd-learned-hosts{{ include "ctl-discovery.suffix" . }}
{{- end }}

{{/* The default of VALIDATION_WEBHOOK_CONFIG_NAME. */}}
{{- define "ctl-discovery.validator" -}}
meshd-{{ .Release.Namespace }}{{ include "ctl-discovery.suffix" . }}
{{- end }}

{{/* Where a webhook leads. Its caBundle is left out: the control plane writes it, and upgrades keep it. */}}
{{- define "ctl-discovery.clientConfig" -}}
service:
  name: {{ include "ctl-discovery.service" .context }}
  namespace: {{ .context.Release.Namespace }}
  path: {{ .path }}
  port: 443
{{- end }}

{{/*
  The rules of a file of the chart without its comments; empty without rules. Names that contain the revision or the
  namespace get it.
*/}}
{{- define "ctl-discovery.rules" -}}
{{- $text := .context.Files.Get .file }}
{{- $names := dict "meshd" "service" "meshd-learned-hosts" "learnedHosts" "mesh-sidecar-injector" "injector" "meshd-mesh-system" "validator" "ctl-discovery-mesh-system-gateway-secrets" "gatewaySecrets" }}
{{- range $name, $template := $names }}
{{- $own := include (printf "ctl-discovery.%s" $template) $.context }}
{{- $text = $text | replace (printf "resourceNames: [%s]" $name) (printf "resourceNames: [%s]" $own) }}
{{- end }}
{{- with fromYamlArray $text }}
{{- toYaml . }}
{{- end }}
{{- end }}
