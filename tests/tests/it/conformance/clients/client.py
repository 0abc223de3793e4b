"""Gets, lists, watches, patches, scales and deletes objects, and prints a line for each result."""

import sys

from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()

print("version", client.VersionApi().get_code().git_version)
print("nodes", *(node.metadata.name for node in core.list_node().items))

deployment = apps.read_namespaced_deployment("kcm", "default")
print("replicas", deployment.spec.replicas)

first = core.list_namespaced_pod("default", label_selector="app=kcm", limit=1)
token = first.metadata._continue
rest = core.list_namespaced_pod("default", label_selector="app=kcm", limit=1, _continue=token)
print("pods", *(pod.metadata.name for pod in first.items + rest.items))

apps.patch_namespaced_deployment("kcm", "default", {"metadata": {"annotations": {"from": "python"}}})
apps.patch_namespaced_deployment_scale("kcm", "default", {"spec": {"replicas": 0}})
print("scale", apps.read_namespaced_deployment_scale("kcm", "default").spec.replicas or 0)

version = core.list_namespaced_config_map("default").metadata.resource_version
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "v"})
core.create_namespaced_config_map("default", body)
core.patch_namespaced_config_map("a", "default", {"data": {"k": "w"}})
core.delete_namespaced_config_map("a", "default")
events = watch.Watch()
for event in events.stream(core.list_namespaced_config_map, "default", resource_version=version):
    print("event", event["type"], event["object"].metadata.name, event["object"].data)
    if event["type"] == "DELETED":
        events.stop()

try:
    core.read_namespaced_config_map("a", "default")
except client.ApiException as error:
    print("gone", error.status)
