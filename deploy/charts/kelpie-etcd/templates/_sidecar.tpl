{{/*
The sidecar, for `initContainers` of the pod. Values: `image` (required); `endpoint`, by default
http://127.0.0.1:2379; `metricsUrl`; `certificates`, the name of a volume with ca.crt, tls.crt and tls.key; `port`, by
default 2378; `extraArgs`; `resources`.
*/}}
{{- define "kelpie-etcd.sidecar" -}}
{{- $port := .port | default 2378 -}}
- name: kelpie
  image: {{ required "image is not set: the kelpie image in your registry" .image | quote }}
  # An init container that is always restarted listens before etcd starts and until after it has ended.
  restartPolicy: Always
  args:
  - etcd
  - --listen=:{{ $port }}
  - --endpoints={{ .endpoint | default "http://127.0.0.1:2379" }}
  {{- with .metricsUrl }}
  - --metrics-url={{ . }}
  {{- end }}
  {{- if .certificates }}
  - --cacert=/etc/kelpie/certificates/ca.crt
  - --cert=/etc/kelpie/certificates/tls.crt
  - --key=/etc/kelpie/certificates/tls.key
  {{- end }}
  {{- range .extraArgs }}
  - {{ . | quote }}
  {{- end }}
  ports:
  - name: kelpie
    containerPort: {{ $port }}
  startupProbe:
    httpGet: &kelpie
      # kelpie itself: without the checks of etcd.
      path: /livez?exclude=serializable_read&exclude=raft_loop
      port: kelpie
    periodSeconds: 1
    failureThreshold: 30
  livenessProbe:
    httpGet: *kelpie
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
  resources:
    {{- .resources | default (dict "requests" (dict "cpu" "5m" "memory" "15Mi") "limits" (dict "memory" "64Mi")) | toYaml | nindent 4 }}
  {{- with .certificates }}
  volumeMounts:
  - name: {{ . }}
    mountPath: /etc/kelpie/certificates
    readOnly: true
  {{- end }}
{{- end }}

{{/* The probes of the etcd container. Values: `port`, by default 2378. */}}
{{- define "kelpie-etcd.probes" -}}
{{- $port := .port | default 2378 -}}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ $port }}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ $port }}
  periodSeconds: 1
  timeoutSeconds: 1
  failureThreshold: 3
{{- end }}
