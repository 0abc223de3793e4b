//! The addon on a simulated OpenShift: a real API server with OpenShift's cluster version and its
//! monitoring role, and a Prometheus that checks tokens by reviews, as OpenShift's does.

use std::net::SocketAddr;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{kelpie, poll};
use kube::Client;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use xtask::cache;

use super::fixture::operator::{
    PLATFORM_COLLECTOR, container, find_deployment, spoke_with_inputs, start_operator,
    until_deployment, until_reason,
};
use super::fixture::{AddonCluster, NAMESPACE, PLATFORM_STATUS, TIMEOUT};
use crate::fixture::exit_code_and_text;

const ID: &str = "6f1b2c3d-0000-4000-8000-000000000001";

const CLUSTER_VERSIONS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterversions.config.openshift.io
spec:
  group: config.openshift.io
  names: {kind: ClusterVersion, plural: clusterversions}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// Makes the cluster look like OpenShift.
async fn become_openshift(spoke: &AddonCluster) {
    spoke.install_crd(CLUSTER_VERSIONS).await;
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterVersion",
            "metadata": { "name": "version" },
            "spec": { "clusterID": ID },
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": "cluster-monitoring-view" },
            "rules": [{
                "apiGroups": ["monitoring.coreos.com"],
                "resources": ["prometheuses/api"],
                "resourceNames": ["k8s"],
                "verbs": ["get", "create", "update"],
            }],
        },
    ] });
    let file = spoke.write_file("openshift.json", &objects.to_string());
    let file = format!("--filename={}", file.display());
    spoke.api.kubectl(&["apply", &file]).await.unwrap();
}

#[tokio::test]
async fn openshift_is_supported_as_shipped() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    become_openshift(spoke).await;
    let _operator = start_operator(spoke, &["--resync=300ms"]).await;
    let first = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    let arguments = container(&first)["args"].to_string();
    for argument in [
        &format!("--label=clusterID={ID}"),
        "--label=cluster=spoke-1",
        "--from-query=https://thanos-querier.openshift-monitoring.svc:9091",
    ] {
        assert!(arguments.contains(argument), "{arguments}");
    }
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;

    let service = [
        "delete",
        "service",
        "prometheus-k8s",
        "--namespace=openshift-monitoring",
    ];
    spoke.api.kubectl(&service).await.unwrap();
    // A change that is rolled out after the deletion was seen.
    let patch = json!({ "spec": { "interval": 60 } }).to_string();
    let namespace = format!("--namespace={NAMESPACE}");
    let patch = format!("--patch={patch}");
    let edit = [
        "patch",
        "oba",
        "observability-addon",
        &namespace,
        "--type=merge",
        &patch,
    ];
    spoke.api.kubectl(&edit).await.unwrap();
    let rolled = until_deployment(spoke, PLATFORM_COLLECTOR, |it| {
        container(it)["args"].to_string().contains("--interval=60s")
    });
    let rolled = rolled.await;
    assert_eq!(rolled["metadata"]["uid"], first["metadata"]["uid"]);
    assert!(find_deployment(spoke, PLATFORM_COLLECTOR).await.is_some());
    let condition = until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    assert_eq!(condition["status"], "True");
}

/// A Prometheus behind OpenShift's proxy, which asks the API server about each token.
struct GuardedPrometheus(SocketAddr);

impl GuardedPrometheus {
    async fn start(client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, client.clone()));
            }
        });
        Self(address)
    }
}

async fn answer(mut stream: TcpStream, client: Client) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let token = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_token = name.eq_ignore_ascii_case("authorization");
        value.strip_prefix("Bearer ").filter(|_| is_token)
    });
    let (status, body) = match review(&client, token.unwrap_or_default()).await {
        Review::Allowed => ("200 OK", "up 1\n"),
        Review::Unknown => ("401 Unauthorized", ""),
        Review::Denied => ("403 Forbidden", ""),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\nconnection: close\r\n");
    let response = format!("{head}content-length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(response.as_bytes()).await;
}

enum Review {
    Allowed,
    Unknown,
    Denied,
}

/// Asks the API server who has a token, and whether that user may read from Prometheus.
async fn review(client: &Client, token: &str) -> Review {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": token },
    });
    let reviewed = rest::create(client, path, &review)
        .await
        .unwrap_or_default();
    let status = &reviewed["status"];
    if status["authenticated"] != true {
        return Review::Unknown;
    }
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": status["user"]["username"],
            "groups": status["user"]["groups"],
            "resourceAttributes": {
                "verb": "get",
                "group": "monitoring.coreos.com",
                "resource": "prometheuses",
                "subresource": "api",
                "namespace": "openshift-monitoring",
                "name": "k8s",
            },
        },
    });
    let reviewed = rest::create(client, path, &review)
        .await
        .unwrap_or_default();
    if reviewed["status"]["allowed"] == true {
        Review::Allowed
    } else {
        Review::Denied
    }
}

#[tokio::test]
async fn collectors_may_read_with_the_shipped_binding() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    become_openshift(spoke).await;
    let prometheus = GuardedPrometheus::start(spoke.client.clone()).await;
    let from = format!("--from=http://{}", prometheus.0);
    let collect = async |token: &str| {
        let token = format!("--from-token={token}");
        let arguments = [
            "addon",
            "collector",
            &from,
            &token,
            "--match=up",
            "--once",
            "--dry-run",
        ];
        exit_code_and_text(kelpie::run(&arguments).await.unwrap())
    };
    let (code, text) = collect("made-up").await;
    assert!(code == Some(1) && text.contains("401"), "{text}");

    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    let account = json!({ "metadata": { "name": "kelpie-addon-collector" } });
    rest::create(&spoke.client, &accounts, &account)
        .await
        .unwrap();
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest" });
    let path = format!("{accounts}/kelpie-addon-collector/token");
    let granted = rest::create(&spoke.client, &path, &request).await.unwrap();
    let token: &str = granted["status"]["token"].as_str().unwrap();
    let (code, text) = collect(token).await;
    assert!(code == Some(1) && text.contains("403"), "{text}");

    let shipped = cache::repository().join("deploy/rbac/addon-openshift.yaml");
    let shipped = format!("--filename={}", shipped.display());
    spoke.api.kubectl(&["apply", &shipped]).await.unwrap();
    // The authorizer of the API server learns of new roles through a watch.
    let allowed = poll::until("the binding to take effect", TIMEOUT, async || {
        let (code, text) = collect(token).await;
        Ok((code == Some(0) && text.contains("up 1")).then_some(()))
    });
    allowed.await.unwrap();
}
