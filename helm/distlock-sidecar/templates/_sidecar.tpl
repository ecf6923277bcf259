{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /*
The container, an item of the pod's initContainers. It takes a dict:
  image         required: registry, name and tag, or digest
  imagePullPolicy  Always, IfNotPresent or Never; Kubernetes' own choice unless given
  redisUrl      --redis; or redisUrlSecret (dict "name" .. "key" ..), a Secret that holds it
  redisUser     --redis-user
  redisPasswordSecret  (dict "name" .. "key" ..): a Secret that holds its password
  sentinelPasswordSecret  likewise, of the sentinels
  httpPort      of /healthz and /readyz, 9420
  drainTimeoutSeconds  30
  env           other DISTLOCK_* variables, a dict; takes the place of what the template sets
  extraEnv      the same in pod-spec format, for values from elsewhere
  extraArgs     other flags of distlockd, a list
  extraVolumes, extraVolumeMounts  in pod-spec format, such as a CA for rediss://redis:6379?ca=/etc/distlock/tls/ca.crt
  resources     requests and limits
*/ -}}
{{- define "distlock.sidecar" -}}
{{- include "distlock.sidecar.checks" . -}}
- name: distlockd
  image: {{ .image | quote }}
  {{- with .imagePullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  restartPolicy: Always  # a native sidecar: starts before the containers, and ends after them
  {{- with .extraArgs }}
  args: {{- toYaml . | nindent 4 }}
  {{- end }}
  env:
    {{- include "distlock.sidecar.brokerEnv" . | trim | nindent 4 }}
  # The program starts when its first lock can be taken. Nothing restarts a broker because its store is away: a restart
  # would end its locks.
  startupProbe:
    httpGet: {path: /readyz, port: {{ .httpPort | default 9420 }}}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /healthz, port: {{ .httpPort | default 9420 }}}
    timeoutSeconds: 5
    failureThreshold: 6
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  resources:
    {{- if .resources }}
    {{- toYaml .resources | nindent 4 }}
    {{- else }}
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 256Mi}
    {{- end }}
  {{- $mounts := include "distlock.sidecar.mounts" . | fromYamlArray }}
  volumeMounts:
    {{- include "distlock.sidecar.items" (dict "key" "mountPath" "base" $mounts "over" .extraVolumeMounts) | nindent 4 }}
{{- end -}}

{{- define "distlock.sidecar.brokerEnv" -}}
{{- $made := include "distlock.sidecar.ownEnv" . | fromYamlArray -}}
{{- $given := list -}}
{{- range $name, $value := .env -}}
{{- $given = append $given (dict "name" $name "value" $value) -}}
{{- end -}}
{{- range $over := list $given .extraEnv -}}
{{- $made = include "distlock.sidecar.items" (dict "key" "name" "base" $made "over" $over) | fromYamlArray -}}
{{- end -}}
{{- range $made }}
- name: {{ .name }}
  {{- if hasKey . "value" }}
  value: {{ include "distlock.sidecar.text" .value | quote }}
  {{- else if hasKey . "valueFrom" }}
  valueFrom: {{- toYaml .valueFrom | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "distlock.sidecar.ownEnv" -}}
- name: DISTLOCK_REDIS
  {{- if .redisUrlSecret }}
  valueFrom:
    secretKeyRef: {name: {{ .redisUrlSecret.name }}, key: {{ .redisUrlSecret.key }}}
  {{- else }}
  value: {{ .redisUrl | quote }}
  {{- end }}
{{- with .redisUser }}
- name: DISTLOCK_REDIS_USER
  value: {{ . | quote }}
{{- end }}
{{- if .redisPasswordSecret }}
- name: DISTLOCK_REDIS_PASSWORD_FILE
  value: /etc/distlock/redis/password
{{- end }}
{{- if .sentinelPasswordSecret }}
- name: DISTLOCK_SENTINEL_PASSWORD_FILE
  value: /etc/distlock/sentinel/password
{{- end }}
- name: DISTLOCK_HTTP
  value: "[::]:{{ .httpPort | default 9420 }}"
- name: DISTLOCK_WAIT_FOR_STORE
  value: "true"
- name: DISTLOCK_DRAIN_TIMEOUT
  value: "{{ hasKey . "drainTimeoutSeconds" | ternary .drainTimeoutSeconds 30 | int }}s"
{{- end -}}

{{- define "distlock.sidecar.mounts" -}}
{{ include "distlock.sidecar.volumeMount" . }}
{{- if .redisPasswordSecret }}
- {name: distlock-redis, mountPath: /etc/distlock/redis, readOnly: true}
{{- end }}
{{- if .sentinelPasswordSecret }}
- {name: distlock-sentinel, mountPath: /etc/distlock/sentinel, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Items of the pod's volumes; the same dict. */ -}}
{{- define "distlock.sidecar.volumes" -}}
{{- include "distlock.sidecar.checks" . -}}
{{- $volumes := include "distlock.sidecar.ownVolumes" . | fromYamlArray -}}
{{- include "distlock.sidecar.items" (dict "key" "name" "base" $volumes "over" .extraVolumes) -}}
{{- end -}}

{{- define "distlock.sidecar.ownVolumes" -}}
- {name: distlock, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- range $name, $secret := dict "distlock-redis" .redisPasswordSecret "distlock-sentinel" .sentinelPasswordSecret }}
{{- with $secret }}
- name: {{ $name }}
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
      - {key: {{ .key }}, path: password}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A list: the template's items (base) but for those that the user's (over) have the name of, then the user's. An
item's name is its field `key`. */ -}}
{{- define "distlock.sidecar.items" -}}
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

{{- /* A value as text. Helm reads numbers of a file as floating point, and prints 1000000 of them as 1e+06. */ -}}
{{- define "distlock.sidecar.text" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- toJson . -}}{{- end -}}
{{- end -}}

{{- /* An item of volumeMounts of each container that takes locks. */ -}}
{{- define "distlock.sidecar.volumeMount" -}}
- {name: distlock, mountPath: /run/distlock}
{{- end -}}

{{- /* An item of env of each container that takes locks. */ -}}
{{- define "distlock.sidecar.env" -}}
- {name: DISTLOCK_SERVER, value: "unix:///run/distlock/distlock.sock"}
{{- end -}}

{{- define "distlock.sidecar.checks" -}}
{{- $known := list "image" "redisUrl" "redisUrlSecret" "redisUser" "redisPasswordSecret" "sentinelPasswordSecret" -}}
{{- $known = concat $known (list "imagePullPolicy" "httpPort" "drainTimeoutSeconds" "env" "extraEnv") -}}
{{- $known = concat $known (list "extraArgs" "extraVolumes" "extraVolumeMounts" "resources") -}}
{{- range $key, $value := . -}}
{{- if not (has $key $known) -}}
{{- fail (printf "distlock.sidecar: %q is no setting; the settings are %s" $key (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- $_ := required "distlock.sidecar: image is required: build it from the Dockerfile at the root of distlock" .image -}}
{{- if and .redisUrl .redisUrlSecret -}}
{{- fail "distlock.sidecar: redisUrl and redisUrlSecret are both set: give the store's address in one place" -}}
{{- end -}}
{{- if not (or .redisUrl .redisUrlSecret) -}}
{{- fail "distlock.sidecar: redisUrl is required, such as redis://redis:6379; or redisUrlSecret (dict \"name\" .. \"key\" ..), a Secret that holds it" -}}
{{- end -}}
{{- end -}}
