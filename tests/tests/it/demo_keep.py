"""Reads a landscape, trusting only its certificate authority, and prints a line for each result."""

import json
import ssl
import sys
import urllib.request

from kubernetes import client, config

config.load_kube_config(sys.argv[1])

# Newer versions of Python are this strict by default.
seed = client.Configuration.get_default_copy()
context = ssl.create_default_context(cafile=seed.ssl_ca_cert)
context.verify_flags |= ssl.VERIFY_X509_STRICT
no_proxy = urllib.request.ProxyHandler({})
direct = urllib.request.build_opener(no_proxy, urllib.request.HTTPSHandler(context=context))
print("version", json.load(direct.open(seed.host + "/version"))["gitVersion"])

print("deployments", len(client.AppsV1Api().list_deployment_for_all_namespaces().items))
print("pods", len(client.CoreV1Api().list_pod_for_all_namespaces().items))
print("services", len(client.CoreV1Api().list_service_for_all_namespaces().items))
print("slices", len(client.DiscoveryV1Api().list_endpoint_slice_for_all_namespaces().items))
custom = client.CustomObjectsApi()
clusters = custom.list_cluster_custom_object("extensions.gardener.cloud", "v1alpha1", "clusters")
print("clusters", len(clusters["items"]))

shoot = config.new_client_from_config(sys.argv[1], context="shoot--sim--c0000")
nodes = client.CoreV1Api(shoot).list_node().items
print("nodes", len(nodes), *{node.status.node_info.operating_system for node in nodes})
leases = client.CoordinationV1Api(shoot).list_namespaced_lease("kube-node-lease")
print("leases", len(leases.items))
