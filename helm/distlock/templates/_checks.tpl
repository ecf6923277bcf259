{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* What values.schema.json cannot say, as it is about several values at once. */ -}}
{{- define "distlock.checks" -}}
{{- $policy := include "distlock.hasPolicy" . -}}
{{- if and .Values.policy.rules .Values.policy.configMap.name -}}
{{- fail "policy.rules and policy.configMap.name are both set: give the rules in one place" -}}
{{- end -}}
{{- if and .Values.redis.url .Values.redis.urlSecret.name -}}
{{- fail "redis.url and redis.urlSecret.name are both set: give the store's address in one place" -}}
{{- end -}}
{{- if not (or .Values.redis.url .Values.redis.urlSecret.name) -}}
{{- fail "redis.url is required, such as redis://redis:6379; or redis.urlSecret.name, a Secret that holds it" -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor and monitoring.podMonitor are both enabled: each broker would be scraped twice" -}}
{{- end -}}
{{- range list "app.kubernetes.io/name" "app.kubernetes.io/instance" -}}
{{- if hasKey $.Values.podLabels . -}}
{{- fail (printf "podLabels: the chart finds its pods by %s: leave it out; nameOverride and fullnameOverride change names" .) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "DISTLOCK_DRAIN_TIMEOUT" -}}
{{- fail "DISTLOCK_DRAIN_TIMEOUT: set drainTimeoutSeconds, which gives the pod its time to end, too" -}}
{{- end -}}
{{- end -}}
{{- range $option := list "listen" "http" "redis" "wait-for-store" "drain-timeout" "insecure-listen" "policy" "token-file" "allow-all" "tls-cert" "tls-key" "tls-client-ca" "jwt-keys" "jwt-issuer" "jwt-audience" -}}
{{- if hasKey $.Values.config $option -}}
{{- fail (printf "config.%s: a value of the chart sets that option; helm show values names it" $option) -}}
{{- end -}}
{{- end -}}
{{- with .Values.auth.kubernetes -}}
{{- if and .enabled (not .keysConfigMap.name) -}}
{{- fail "auth.kubernetes.enabled needs auth.kubernetes.keysConfigMap.name, a ConfigMap with the cluster's keys: kubectl get --raw /openid/v1/jwks >jwks.json; kubectl create configmap cluster-keys --from-file=jwks.json" -}}
{{- end -}}
{{- if and .enabled (not (or $policy $.Values.policy.allowAll)) -}}
{{- fail "auth.kubernetes.enabled needs rules: set policy.rules or policy.configMap.name, or policy.allowAll=true to refuse nobody" -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.mode "daemonset" -}}
{{- include "distlock.checksDaemonset" . -}}
{{- else -}}
{{- include "distlock.checksDeployment" . -}}
{{- end -}}
{{- end -}}

{{- define "distlock.checksDaemonset" -}}
{{- if .Values.tls.enabled -}}
{{- fail "tls.enabled with mode=daemonset: a daemonset serves a unix socket of its node, which has no TLS; set tls.enabled=false" -}}
{{- end -}}
{{- if and (eq .Values.daemonset.socketMode "0666") (not (include "distlock.hasPolicy" .)) -}}
{{- fail "daemonset.socketMode=0666 lets every pod of the node in that mounts the folder: give policy.rules that say who may do what, or use 0660 and let clients have supplementalGroups [10001]" -}}
{{- end -}}
{{- if .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor with mode=daemonset: a daemonset has no Service; enable monitoring.podMonitor" -}}
{{- end -}}
{{- end -}}

{{- define "distlock.checksDeployment" -}}
{{- $policy := include "distlock.hasPolicy" . -}}
{{- if and .Values.tls.enabled .Values.insecureListen -}}
{{- fail "tls.enabled and insecureListen exclude each other: with TLS the port is not plain text; set insecureListen=false" -}}
{{- end -}}
{{- if not (or .Values.tls.enabled .Values.insecureListen) -}}
{{- fail "insecureListen is false: the port is plaintext; guard it by a network policy or a mesh and set insecureListen=true, or set tls.enabled=true, or use mode=daemonset or the sidecar of helm/distlock-sidecar" -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- if not (or .Values.tls.secretName .Values.tls.certManager.enabled) -}}
{{- fail "tls.enabled needs a certificate: set tls.secretName, a Secret with tls.crt and tls.key, or tls.certManager.enabled" -}}
{{- end -}}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuer.name) -}}
{{- fail "tls.certManager.enabled needs tls.certManager.issuer.name, an Issuer of this namespace or a ClusterIssuer (issuer.kind)" -}}
{{- end -}}
{{- if not (or $policy .Values.policy.allowAll) -}}
{{- fail "tls.enabled needs rules: set policy.rules or policy.configMap.name, or policy.allowAll=true to refuse nobody" -}}
{{- end -}}
{{- else if or $policy .Values.policy.allowAll .Values.policy.tokenSecret.name -}}
{{- fail "policy needs tls.enabled: over a plain-text port nobody can prove who they are" -}}
{{- end -}}
{{- end -}}
