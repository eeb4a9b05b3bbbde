{{- define "policy-sync.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "policy-sync.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "policy-sync.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "policy-sync.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The name of the webhook configurations. The Service and the Secret of the webhooks add `-webhook`. The name of a Service
has at most 63 characters. */}}
{{- define "policy-sync.webhookName" -}}
{{- include "policy-sync.fullname" . | trunc 55 | trimSuffix "-" }}
{{- end }}

{{- /* The namespace of Rego policies: `create`, `name`, and `deprecated` (true if rego.policyNamespace sets a value). */}}
{{- define "policy-sync.regoNamespace" -}}
{{- $namespace := dict "create" true "name" "kube-federation-scheduling-policy" }}
{{- $sources := list }}
{{- range $source := list "namespace" "policyNamespace" }}
{{- range $key, $value := index $.Values.rego $source }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $namespace $key $value }}
{{- $sources = append $sources $source }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (has "namespace" $sources) (has "policyNamespace" $sources) }}
{{- fail "rego.policyNamespace is the deprecated name of rego.namespace, and both are set: set rego.namespace alone" }}
{{- end }}
{{- set $namespace "deprecated" (has "policyNamespace" $sources) | toYaml }}
{{- end }}

{{- define "policy-sync.controllerName" -}}
{{- default "kuadrant.io/policy-sync" .Values.controller.name }}
{{- end }}

{{- /* The labels that select the pods. They are immutable in a Deployment. */}}
{{- define "policy-sync.selectorLabels" -}}
app.kubernetes.io/name: {{ include "policy-sync.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "policy-sync.labels" -}}
{{ include "policy-sync.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The metadata of an object. Argument: a list of the context, the suffix of the name or "", and the namespace or "". */}}
{{- define "policy-sync.metadata" -}}
{{- $root := index . 0 }}
{{- $namespace := index . 2 -}}
name: {{ include "policy-sync.fullname" $root }}{{ index . 1 }}
{{- with $namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "policy-sync.labels" $root | nindent 2 }}
{{- end }}

{{- define "policy-sync.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "policy-sync.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "policy-sync.image" -}}
{{- $repository := required "image.repository is required: no image is published, so it is where yours is" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The image of OPA, by digest or by tag. */}}
{{- define "policy-sync.opaImage" -}}
{{- with .Values.opa.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secrets that the controller reads as files, by volume. Empty if `rego.enabled` is false. */}}
{{- define "policy-sync.secrets" -}}
{{- if .Values.rego.enabled }}
{{- with .Values.rego.certificateSecret }}
webhook: {{ . | quote }}
{{- end }}
{{- with .Values.rego.authorizeTokenSecret }}
authorize-token: {{ . | quote }}
{{- end }}
{{- if .Values.opa.url }}
{{- with .Values.opa.tokenSecret }}
opa-token: {{ . | quote }}
{{- end }}
{{- with .Values.opa.caSecret }}
opa-ca: {{ . | quote }}
{{- end }}
{{- with .Values.opa.certificateSecret }}
opa-certificate: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.placement.url }}
{{- with .Values.placement.tokenSecret }}
placement-token: {{ . | quote }}
{{- end }}
{{- with .Values.placement.caSecret }}
placement-ca: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* RBAC rules for the kinds that may be synced, one for each API group. Argument: a list of the context and the verbs. */}}
{{- define "policy-sync.policyRules" -}}
{{- $root := index . 0 }}
{{- $verbs := index . 1 }}
{{- $kinds := dict }}
{{- $parameters := $root.Values.gatewayClass.parameters }}
{{- range concat (default list $parameters.policiesToSync) (default list $parameters.resourcesToSync) }}
{{- $_ := set $kinds .group (append (default list (get $kinds .group)) .resource) }}
{{- end }}
{{- range $root.Values.rbac.policyKinds }}
{{- $_ := set $kinds .group (concat (default list (get $kinds .group)) .resources) }}
{{- end }}
{{- range $group, $resources := $kinds }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ $resources | uniq | sortAlpha | toJson }}
  verbs: {{ $verbs | toJson }}
{{- end }}
{{- end }}

{{- /* Binds a role to the controller. Argument: a list of the context, the suffix of the role's name, and the namespace of a
Role, or "" for a ClusterRole. */}}
{{- define "policy-sync.binding" -}}
{{- $root := index . 0 }}
{{- $namespace := index . 2 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (not (empty $namespace)) }}
metadata:
  {{- include "policy-sync.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ ternary "Role" "ClusterRole" (not (empty $namespace)) }}
  name: {{ include "policy-sync.fullname" $root }}{{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ include "policy-sync.serviceAccount" $root }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
