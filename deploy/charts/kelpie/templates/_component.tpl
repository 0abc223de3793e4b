{{/*
The prober and the weeder share these templates. Each takes a dict: `root`, the chart's context; `name`, the
component; `values`, the component's section of the values; `shard`, the name of a shard, or nothing.
*/}}

{{- define "kelpie.fullname" -}}
kelpie-{{ .name }}{{ with .shard }}-{{ . }}{{ end }}
{{- end -}}

{{- define "kelpie.selector" -}}
app.kubernetes.io/name: kelpie
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- with .shard }}
kelpie.dev/shard: {{ . }}
{{- end }}
{{- end -}}

{{- define "kelpie.labels" -}}
{{ include "kelpie.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "kelpie.metadata" -}}
name: {{ include "kelpie.fullname" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "kelpie.labels" . | nindent 2 }}
{{- end -}}

{{/* The head of a ServiceAccount, up to its name. */}}
{{- define "kelpie.serviceAccount" -}}
kind: ServiceAccount
metadata:
{{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{ end -}}

{{- define "kelpie.component" -}}
{{- $pod := .root.Values -}}
{{- $image := $pod.image -}}
{{- $repository := required "image.repository is not set; docs/operate/install.md describes how to build the image" $image.repository -}}
{{- $version := printf ":%s" ($image.tag | default .root.Chart.AppVersion) -}}
{{- with $image.digest }}{{ $version = printf "@%s" . }}{{ end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "kelpie.metadata" . | nindent 2 }}
data:
  config.yaml: |
    {{- toYaml .values.config | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "kelpie.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  # An old pod stops only when a new one is ready. The prober is ready when it judges its clusters, so at any time at
  # least one replica could fence.
  strategy:
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "kelpie.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "kelpie.labels" . | nindent 8 }}
        {{- with $pod.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        # The file is read only at the start, so a changed file needs new pods.
        checksum/config: {{ toYaml .values.config | sha256sum }}
        {{- with $pod.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: kelpie-{{ .name }}
      terminationGracePeriodSeconds: 10
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
      {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
      - maxSkew: 1
        topologyKey: {{ $key }}
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            {{- include "kelpie.selector" $ | nindent 12 }}
      {{- end }}
      {{- with $pod.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $pod.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: {{ .name }}
        image: {{ printf "%s%s" $repository $version | quote }}
        imagePullPolicy: {{ $image.pullPolicy }}
        args:
        - {{ .name }}
        - --config-file=/etc/kelpie/config.yaml
        - --enable-leader-election=true
        - --leader-election-namespace={{ .root.Release.Namespace }}
        - --metrics-bind-addr=:9643
        - --health-bind-addr=:9644
        - --log-format={{ $pod.log.format }}
        - --zap-log-level={{ $pod.log.level }}
        {{- if .values.dryRun }}
        - --dry-run=true
        {{- end }}
        {{- range .values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - name: metrics
          containerPort: 9643
        - name: health
          containerPort: 9644
        livenessProbe:
          httpGet:
            path: /livez
            port: health
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          periodSeconds: 5
          timeoutSeconds: 5
        resources:
          {{- toYaml .values.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        volumeMounts:
        - name: config
          mountPath: /etc/kelpie
          readOnly: true
      volumes:
      - name: config
        configMap:
          name: {{ include "kelpie.fullname" . }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "kelpie.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "kelpie.selector" . | nindent 6 }}
{{- if $pod.prometheusOperator.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  {{- include "kelpie.metadata" . | nindent 2 }}
    {{- with $pod.prometheusOperator.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "kelpie.selector" . | nindent 6 }}
  podMetricsEndpoints:
  - port: metrics
    # The labels `cluster` and `namespace` name the probed cluster, not the pod's own.
    honorLabels: true
{{- end }}
{{- end -}}

{{- define "kelpie.alerts" -}}
{{- $pod := .root.Values -}}
{{- if $pod.prometheusOperator.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "kelpie.metadata" . | nindent 2 }}
    {{- with $pod.prometheusOperator.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- $alerts := .root.Files.Get (printf "files/alerts-%s.yaml" .name) }}
  {{- with $pod.prometheusOperator.docsUrl }}
  {{- $alerts = $alerts | replace "runbook_url: docs/" (printf "runbook_url: %s/docs/" .) }}
  {{- end }}
  {{- $alerts | nindent 2 }}
{{- end }}
{{- end -}}
