{{/*
The permissions that shards need in addition. `kelpie generate rbac-prober-seed --config-file FILE` prints those of one
shard. Takes a dict: `root`, the chart's context; `name`, the component; `shards`, the list of shards.
*/}}
{{- define "kelpie.shard-permissions" -}}
{{- $namespace := .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: kelpie-prober-shards
  namespace: {{ $namespace }}
  labels:
    {{- include "kelpie.labels" (dict "root" .root "name" .name) | nindent 4 }}
rules:
# Knowing the clusters of the other shards.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["list"]
# Becoming and staying the leader, and telling the other shards which clusters this one has.
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames:
  {{- range .shards }}
  - dwd-prober-leader-election-{{ .name }}
  - kelpie-shard-{{ .name }}
  {{- end }}
  verbs: ["get", "update"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: kelpie-prober-shards
  namespace: {{ $namespace }}
  labels:
    {{- include "kelpie.labels" (dict "root" .root "name" .name) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: kelpie-prober-shards
subjects:
- kind: ServiceAccount
  name: kelpie-prober
  namespace: {{ $namespace }}
{{- if contains "shard.alpha.sharding.timebertt.dev/" (toYaml .shards) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kelpie-prober-shards
  labels:
    {{- include "kelpie.labels" (dict "root" .root "name" .name) | nindent 4 }}
rules:
# Giving clusters to other shards when the engine of the ring asks for it.
- apiGroups: ["extensions.gardener.cloud"]
  resources: ["clusters"]
  verbs: ["patch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kelpie-prober-shards
  labels:
    {{- include "kelpie.labels" (dict "root" .root "name" .name) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: kelpie-prober-shards
subjects:
- kind: ServiceAccount
  name: kelpie-prober
  namespace: {{ $namespace }}
{{- end }}
{{- end -}}
