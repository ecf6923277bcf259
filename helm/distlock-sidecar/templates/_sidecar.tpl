{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /*
The container, an item of the pod's initContainers. It takes a dict:
  image         required: registry, name and tag, or digest
  redisUrl      --redis; or redisUrlSecret (dict "name" .. "key" ..), a Secret that holds it
  redisUser     --redis-user
  redisPasswordSecret  (dict "name" .. "key" ..): a Secret that holds its password
  httpPort      of /healthz and /readyz, 9420
  drainTimeoutSeconds  30
  env           other DISTLOCK_* variables, a dict
  resources     requests and limits
*/ -}}
{{- define "distlock.sidecar" -}}
{{- include "distlock.sidecar.checks" . -}}
- name: distlockd
  image: {{ .image | quote }}
  restartPolicy: Always  # a native sidecar: starts before the containers, and ends after them
  env:
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
    - name: DISTLOCK_HTTP
      value: "0.0.0.0:{{ .httpPort | default 9420 }}"
    - name: DISTLOCK_WAIT_FOR_STORE
      value: "true"
    - name: DISTLOCK_DRAIN_TIMEOUT
      value: "{{ .drainTimeoutSeconds | default 30 }}s"
    {{- range $name, $value := .env }}
    - name: {{ $name }}
      value: {{ $value | quote }}
    {{- end }}
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
  volumeMounts:
    - {name: distlock, mountPath: /run/distlock}
    {{- if .redisPasswordSecret }}
    - {name: distlock-redis, mountPath: /etc/distlock/redis, readOnly: true}
    {{- end }}
{{- end -}}

{{- /* Items of the pod's volumes; the same dict. */ -}}
{{- define "distlock.sidecar.volumes" -}}
{{- include "distlock.sidecar.checks" . -}}
- {name: distlock, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- if .redisPasswordSecret }}
- name: distlock-redis
  secret:
    secretName: {{ .redisPasswordSecret.name }}
    defaultMode: 0440
    items:
      - {key: {{ .redisPasswordSecret.key }}, path: password}
{{- end }}
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
{{- $known := list "image" "redisUrl" "redisUrlSecret" "redisUser" "redisPasswordSecret" "httpPort" "drainTimeoutSeconds" "env" "resources" -}}
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
