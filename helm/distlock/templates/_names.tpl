{{- define "distlock.name" -}}
{{- printf "%s-distlock" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "distlock.selector" -}}
app.kubernetes.io/name: distlock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distlock.labels" -}}
{{ include "distlock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
