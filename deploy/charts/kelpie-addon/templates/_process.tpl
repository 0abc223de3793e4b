{{/*
The processes of the addon share these templates. Each takes a dict: `root`, the chart's context; `name`, the process;
`args`, its arguments; `secret`, the Secret with the hub's kubeconfig, or nothing.
*/}}

{{- define "kelpie-addon.selector" -}}
app.kubernetes.io/name: kelpie-addon
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "kelpie-addon.labels" -}}
{{ include "kelpie-addon.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "kelpie-addon.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is not set; docs/operate/install.md describes how to build the image" $image.repository -}}
{{- $version := printf ":%s" ($image.tag | default .Chart.AppVersion) -}}
{{- with $image.digest }}{{ $version = printf "@%s" . }}{{ end -}}
{{- printf "%s%s" $repository $version -}}
{{- end -}}

{{/*
The documents of a file with permissions, in the namespace of the release. Takes a dict: `root`; `file`; `replace`, a
dict of texts to replace. The Role for user workloads gets a name of its own, because its namespace may be that of
another one.
*/}}
{{- define "kelpie-addon.permissions" -}}
{{- $root := .root -}}
{{- $replace := .replace | default dict -}}
{{- range splitList "\n---\n" ($root.Files.Get .file) }}
---
{{- $text := . }}
{{- if contains "\n  namespace: openshift-user-workload-monitoring\n" . }}
{{- $own := "kelpie-addon-operator-user-workload" }}
{{- range $before := list "metadata:" "  kind: Role" }}
{{- $text = replace (printf "%s\n  name: kelpie-addon-operator\n" $before) (printf "%s\n  name: %s\n" $before $own) $text }}
{{- end }}
{{- end }}
{{- $text = replace "namespace: open-cluster-management-addon-observability" (printf "namespace: %s" $root.Release.Namespace) $text }}
{{- range $from, $to := $replace }}
{{- $text = replace $from $to $text }}
{{- end }}
{{ $text }}
{{- end }}
{{- end -}}

{{- define "kelpie-addon.process" -}}
{{- $values := .root.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: kelpie-addon-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kelpie-addon.labels" . | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- include "kelpie-addon.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "kelpie-addon.labels" . | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: kelpie-addon-{{ .name }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: {{ .name }}
        image: {{ include "kelpie-addon.image" .root | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args:
        - addon
        - {{ .name }}
        - --namespace={{ .root.Release.Namespace }}
        - --enable-leader-election
        - --log-format={{ $values.log.format }}
        - --log-level={{ $values.log.level }}
        {{- range concat .args $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - name: health
          containerPort: 9644
        livenessProbe:
          httpGet:
            path: /livez
            port: health
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
        resources:
          {{- toYaml $values.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        {{- with .secret }}
        volumeMounts:
        - name: hub
          mountPath: /etc/hub
          readOnly: true
        {{- end }}
      {{- with .secret }}
      volumes:
      - name: hub
        secret:
          secretName: {{ . }}
      {{- end }}
{{- end -}}
