#!/bin/sh
# Lifts every fence of a seed by hand, after Kelpie was stopped for good. A prober that still runs would fence again.
#
#   KUBECONFIG=SEED deploy/lift-fences.sh [--dry-run]
#
# Each target gets the replicas of its record and loses the marker, in one write that fails if anybody else has changed
# the target meanwhile. Pauses of MachineHealthChecks are lifted if they are Kelpie's. Needs kubectl and jq.
set -eu

annotation=dependency-watchdog.gardener.cloud
case "${1:-}" in
'') dry_run='' ;;
--dry-run) dry_run=--dry-run=server ;;
*) echo "usage: $0 [--dry-run]" >&2 && exit 2 ;;
esac

# Records that are not on the target yet: the prober itself has to bring them there.
on_lease=$(kubectl get leases --all-namespaces --output=json | jq --raw-output '.items[]
  | select((.metadata.annotations["kelpie.dev/fence-records"] // "") | . != "" and . != "{}")
  | .metadata.namespace + "/" + .metadata.name')
if [ -n "$on_lease" ]; then
  echo "The Lease $on_lease holds records of fences, because a webhook was away:" >&2
  echo "start the prober again and wait until kelpie_prober_records_on_lease is 0." >&2
  exit 1
fi

# kube-controller-manager comes first: it must see the renewed leases before machines are replaced.
fenced=$(kubectl get deployments,statefulsets,replicasets --all-namespaces --output=json | jq --compact-output "
  [.items[] | select(.metadata.annotations[\"$annotation/meltdown-protection-active\"] != null)]
  | sort_by(.metadata.name != \"kube-controller-manager\") | .[]
  | { target: [.metadata.namespace, .kind + \"/\" + .metadata.name],
      replicas: (.metadata.annotations[\"$annotation/replicas\"] // \"1\" | tonumber),
      version: .metadata.resourceVersion }")

failed=0
printf '%s\n' "$fenced" | {
  while read -r one; do
    [ -n "$one" ] || continue
    namespace=$(printf '%s' "$one" | jq --raw-output '.target[0]')
    target=$(printf '%s' "$one" | jq --raw-output '.target[1]')
    patch=$(printf '%s' "$one" | jq --compact-output "{
      metadata: { resourceVersion: .version, annotations: { \"$annotation/meltdown-protection-active\": null } },
      spec: { replicas: .replicas } }")
    kubectl --namespace "$namespace" patch "$target" --type=merge --patch "$patch" $dry_run || failed=1
  done
  exit $failed
} || failed=1

if kubectl get --raw /apis/cluster.x-k8s.io >/dev/null 2>&1; then
  paused=$(kubectl get machinehealthchecks.cluster.x-k8s.io --all-namespaces --output=json | jq --raw-output '.items[]
    | select(.metadata.annotations["cluster.x-k8s.io/paused"] // "" | startswith("kelpie/"))
    | .metadata.namespace + " " + .metadata.name')
  printf '%s\n' "$paused" | while read -r namespace name; do
    [ -n "$name" ] || continue
    kubectl --namespace "$namespace" annotate machinehealthchecks.cluster.x-k8s.io "$name" \
      cluster.x-k8s.io/paused- $dry_run
  done
fi

if [ $failed -ne 0 ]; then
  echo "Some targets were changed by others meanwhile: run this again." >&2
  exit 1
fi
[ -n "$fenced" ] || echo "Nothing is fenced."
