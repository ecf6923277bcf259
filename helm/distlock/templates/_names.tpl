{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "distlock.name" -}}
{{- $name := default "distlock" .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "distlock.selector" -}}
app.kubernetes.io/name: distlock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "distlock.labels" -}}
{{ include "distlock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "distlock.image" -}}
{{- $repository := required "image.repository is required: build the image from the Dockerfile at the root of distlock, and push it to a registry of your cluster" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "distlock.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "distlock.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "distlock.tlsSecret" -}}
{{- default (printf "%s-tls" (include "distlock.name" .)) .Values.tls.secretName -}}
{{- end -}}

{{- /* The Secret with which `helm test` speaks TLS; "": none. A policy refuses who shows nothing. */ -}}
{{- define "distlock.testSecret" -}}
{{- if .Values.helmTest.secretName -}}
{{- .Values.helmTest.secretName -}}
{{- else if and .Values.tls.certManager.enabled (or .Values.policy.allowAll .Values.helmTest.tokenSecret.name) (not .Values.tls.clientCa.secretName) -}}
{{- include "distlock.tlsSecret" . -}}
{{- end -}}
{{- end -}}

{{- define "distlock.hasPolicy" -}}
{{- if or .Values.policy.rules .Values.policy.configMap.name -}}true{{- end -}}
{{- end -}}

{{- define "distlock.policyConfigMap" -}}
{{- default (printf "%s-policy" (include "distlock.name" .)) .Values.policy.configMap.name -}}
{{- end -}}

{{- define "distlock.isMonitored" -}}
{{- if or .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}true{{- end -}}
{{- end -}}

{{- /* Fields of the chart (base), with the user's (over) in their place; null removes one. */ -}}
{{- define "distlock.fields" -}}
{{- $made := .base -}}
{{- range $field, $value := .over -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $made $field -}}
{{- else -}}
{{- $_ := set $made $field $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $made -}}
{{- end -}}

{{- /* A list: the chart's items (base) but for those that the user's (over) have the name of, then the user's.
An item's name is its field `key`. */ -}}
{{- define "distlock.items" -}}
{{- $named := list -}}
{{- range .over -}}
{{- $named = append $named (get . $.key) -}}
{{- end -}}
{{- $made := list -}}
{{- range .base -}}
{{- if not (has (get . $.key) $named) -}}
{{- $made = append $made . -}}
{{- end -}}
{{- end -}}
{{- concat $made (.over | default list) | toYaml -}}
{{- end -}}
