{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* The pod of a broker, for a Deployment and for a DaemonSet. */ -}}
{{- define "distlock.podTemplate" -}}
{{- include "distlock.checks" . -}}
metadata:
  {{- $labels := dict "base" (include "distlock.labels" . | fromYaml) "over" .Values.podLabels }}
  labels: {{- include "distlock.fields" $labels | nindent 4 }}
  {{- $annotations := dict "base" (include "distlock.annotations" . | fromYaml) "over" .Values.podAnnotations }}
  annotations: {{- include "distlock.fields" $annotations | nindent 4 }}
spec:
  serviceAccountName: {{ include "distlock.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false  # a service named distlock-* would otherwise set DISTLOCK_* variables
  terminationGracePeriodSeconds: {{ add .Values.drainTimeoutSeconds 10 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- $pod := dict "runAsNonRoot" true "runAsUser" 10001 "runAsGroup" 10001 "fsGroup" 10001 "seccompProfile" (dict "type" "RuntimeDefault") }}
  securityContext: {{- include "distlock.fields" (dict "base" $pod "over" .Values.podSecurityContext) | nindent 4 }}
  {{- if and (eq .Values.mode "daemonset") .Values.daemonset.prepareFolder.enabled }}
  initContainers:
    - name: folder
      image: {{ .Values.daemonset.prepareFolder.image }}
      command: [chown, "10001:10001", /run/distlock]
      securityContext:
        runAsNonRoot: false
        runAsUser: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL], add: [CHOWN]}
      resources:
        requests: {cpu: 10m, memory: 16Mi}
        limits: {memory: 32Mi}
      volumeMounts:
        - {name: socket, mountPath: /run/distlock}
  {{- end }}
  containers:
    {{- include "distlock.container" . | nindent 4 }}
  {{- $volumes := dict "key" "name" "base" (include "distlock.volumes" . | fromYamlArray) "over" .Values.extraVolumes }}
  {{- with include "distlock.items" $volumes | fromYamlArray }}
  volumes: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .Values.topologySpread (eq .Values.mode "deployment") }}
  topologySpreadConstraints:
    {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "distlock.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "distlock.annotations" -}}
kubectl.kubernetes.io/default-container: distlockd
{{- if and .Values.monitoring.annotations (not (include "distlock.isMonitored" .)) }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.service.httpPort | quote }}
{{- end }}
{{- with .Values.config }}
checksum/config: {{ . | toJson | sha256sum }}
{{- end }}
{{- end -}}

{{- define "distlock.container" -}}
- name: distlockd
  image: {{ include "distlock.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- with include "distlock.args" . | trim }}
  args:
    {{- . | nindent 4 }}
  {{- end }}
  env:
    {{- include "distlock.env" . | trim | nindent 4 }}
  ports:
    {{- if eq .Values.mode "deployment" }}
    - {name: grpc, containerPort: {{ .Values.service.port }}}
    {{- end }}
    - {name: http, containerPort: {{ .Values.service.httpPort }}}
  # Liveness does not depend on the store: a broker whose store is down must not be restarted, because a restart ends
  # its clients' locks. The generous timeout keeps a busy node from causing one.
  livenessProbe:
    httpGet: {path: /healthz, port: http}
    timeoutSeconds: 5
    failureThreshold: 6
  readinessProbe:
    httpGet: {path: {{ ternary "\"/readyz?grants=1\"" "/readyz" .Values.readyOnlyIfGranting }}, port: http}
    periodSeconds: 5
    timeoutSeconds: 5
  {{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
  securityContext: {{- include "distlock.fields" (dict "base" $container "over" .Values.securityContext) | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  {{- $base := include "distlock.volumeMounts" . | fromYamlArray }}
  {{- with include "distlock.items" (dict "key" "mountPath" "base" $base "over" .Values.extraVolumeMounts) | fromYamlArray }}
  volumeMounts: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* What guards the port is given by flags: an image that does not know one of them does not start. */ -}}
{{- define "distlock.args" -}}
{{- if and .Values.insecureListen (eq .Values.mode "deployment") }}
- --insecure-listen
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-cert=/etc/distlock/tls/tls.crt
- --tls-key=/etc/distlock/tls/tls.key
{{- if .Values.tls.clientCa.secretName }}
- --tls-client-ca=/etc/distlock/client-ca/{{ .Values.tls.clientCa.key }}
{{- end }}
{{- end }}
{{- if include "distlock.hasPolicy" . }}
- --policy=/etc/distlock/policy/{{ if .Values.policy.rules }}policy.yaml{{ else }}{{ .Values.policy.configMap.key }}{{ end }}
{{- end }}
{{- if .Values.policy.tokenSecret.name }}
- --token-file=/etc/distlock/tokens/{{ .Values.policy.tokenSecret.key }}
{{- end }}
{{- if .Values.policy.allowAll }}
- --allow-all
{{- end }}
{{- with .Values.auth.kubernetes }}
{{- if .enabled }}
- --jwt-keys=/etc/distlock/jwt/{{ .keysConfigMap.key }}
- {{ printf "--jwt-issuer=%s" .issuer | quote }}
- {{ printf "--jwt-audience=%s" .audience | quote }}
{{- end }}
{{- end }}
{{- if .Values.config }}
- --config=/etc/distlock/config/distlockd.yaml
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "distlock.env" -}}
{{- $made := include "distlock.chartEnv" . | fromYamlArray -}}
{{- include "distlock.items" (dict "key" "name" "base" $made "over" .Values.extraEnv) -}}
{{- end -}}

{{- define "distlock.chartEnv" -}}
- name: DISTLOCK_LISTEN
  {{- if eq .Values.mode "daemonset" }}
  value: unix:///run/distlock/distlock.sock{{ if ne .Values.daemonset.socketMode "0660" }}?mode={{ .Values.daemonset.socketMode }}{{ end }}
  {{- else }}
  value: "[::]:{{ .Values.service.port }}{{ if .Values.adminSocket }},unix:///run/distlock/distlock.sock{{ end }}"
  {{- end }}
- name: DISTLOCK_HTTP
  value: "[::]:{{ .Values.service.httpPort }}"
- name: DISTLOCK_REDIS
  {{- if .Values.redis.urlSecret.name }}
  valueFrom:
    secretKeyRef: {name: {{ .Values.redis.urlSecret.name }}, key: {{ .Values.redis.urlSecret.key }}}
  {{- else }}
  value: {{ .Values.redis.url | quote }}
  {{- end }}
- name: DISTLOCK_WAIT_FOR_STORE
  value: "true"
- name: DISTLOCK_DRAIN_TIMEOUT
  value: "{{ .Values.drainTimeoutSeconds }}s"
{{- with .Values.redis.user }}
- name: DISTLOCK_REDIS_USER
  value: {{ . | quote }}
{{- end }}
{{- if .Values.redis.passwordSecret.name }}
- name: DISTLOCK_REDIS_PASSWORD_FILE
  value: /etc/distlock/redis/password
{{- end }}
{{- if .Values.redis.sentinelPasswordSecret.name }}
- name: DISTLOCK_SENTINEL_PASSWORD_FILE
  value: /etc/distlock/sentinel/password
{{- end }}
{{- end -}}

{{- define "distlock.volumeMounts" -}}
{{- if or (eq .Values.mode "daemonset") .Values.adminSocket }}
- {name: socket, mountPath: /run/distlock}
{{- end }}
{{- if .Values.redis.passwordSecret.name }}
- {name: redis-password, mountPath: /etc/distlock/redis, readOnly: true}
{{- end }}
{{- if .Values.redis.sentinelPasswordSecret.name }}
- {name: sentinel-password, mountPath: /etc/distlock/sentinel, readOnly: true}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/distlock/tls, readOnly: true}
{{- if .Values.tls.clientCa.secretName }}
- {name: client-ca, mountPath: /etc/distlock/client-ca, readOnly: true}
{{- end }}
{{- end }}
{{- if include "distlock.hasPolicy" . }}
- {name: policy, mountPath: /etc/distlock/policy, readOnly: true}
{{- end }}
{{- if .Values.policy.tokenSecret.name }}
- {name: tokens, mountPath: /etc/distlock/tokens, readOnly: true}
{{- end }}
{{- if .Values.auth.kubernetes.enabled }}
- {name: jwt, mountPath: /etc/distlock/jwt, readOnly: true}
{{- end }}
{{- if .Values.config }}
- {name: config, mountPath: /etc/distlock/config, readOnly: true}
{{- end }}
{{- end -}}

{{- define "distlock.volumes" -}}
{{- if eq .Values.mode "daemonset" }}
- {name: socket, hostPath: {path: {{ .Values.daemonset.hostPath }}, type: DirectoryOrCreate}}
{{- else if .Values.adminSocket }}
- {name: socket, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- end }}
{{- if .Values.redis.passwordSecret.name }}
{{ include "distlock.secretVolume" (dict "name" "redis-password" "secret" .Values.redis.passwordSecret.name "key" .Values.redis.passwordSecret.key "path" "password") }}
{{- end }}
{{- if .Values.redis.sentinelPasswordSecret.name }}
{{ include "distlock.secretVolume" (dict "name" "sentinel-password" "secret" .Values.redis.sentinelPasswordSecret.name "key" .Values.redis.sentinelPasswordSecret.key "path" "password") }}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, secret: {secretName: {{ include "distlock.tlsSecret" . }}, defaultMode: 0440}}
{{- if .Values.tls.clientCa.secretName }}
{{ include "distlock.secretVolume" (dict "name" "client-ca" "secret" .Values.tls.clientCa.secretName "key" .Values.tls.clientCa.key "path" .Values.tls.clientCa.key) }}
{{- end }}
{{- end }}
{{- if include "distlock.hasPolicy" . }}
- {name: policy, configMap: {name: {{ include "distlock.policyConfigMap" . }}}}
{{- end }}
{{- if .Values.policy.tokenSecret.name }}
{{ include "distlock.secretVolume" (dict "name" "tokens" "secret" .Values.policy.tokenSecret.name "key" .Values.policy.tokenSecret.key "path" .Values.policy.tokenSecret.key) }}
{{- end }}
{{- if .Values.auth.kubernetes.enabled }}
- {name: jwt, configMap: {name: {{ .Values.auth.kubernetes.keysConfigMap.name }}}}
{{- end }}
{{- if .Values.config }}
- {name: config, configMap: {name: {{ include "distlock.name" . }}-config}}
{{- end }}
{{- end -}}

{{- define "distlock.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - {key: {{ .key }}, path: {{ .path }}}
{{- end -}}
