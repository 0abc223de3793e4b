//! The generated permissions on a real API server: every verb that a component does not need is
//! refused.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Method, Request};
use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ControlPlane, poll};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use xtask::cache;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const VERBS: [&str; 11] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
];
/// Resources that a thief of the token would like, as group and resource.
const TEMPTING: [(&str, &str); 20] = [
    ("", "configmaps"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "nodes/proxy"),
    ("", "nodes/status"),
    ("", "pods"),
    ("", "pods/eviction"),
    ("", "pods/exec"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "serviceaccounts/token"),
    ("", "users"),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "statefulsets/scale"),
    ("authentication.k8s.io", "tokenreviews"),
    ("batch", "jobs"),
    ("certificates.k8s.io", "certificatesigningrequests/approval"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
];

/// A rule of a role, with the namespace in which it holds; `None` for all.
#[derive(Debug)]
struct GrantedRule {
    namespace: Option<String>,
    rule: Value,
}

impl GrantedRule {
    fn allows(&self, request: &MatrixRequest<'_>) -> bool {
        let has = |key: &str, value: &str| {
            let mut values = self.rule[key].as_array().into_iter().flatten();
            values.any(|allowed| allowed == value)
        };
        let is_here = match &self.namespace {
            None => true,
            Some(namespace) => namespace == request.namespace,
        };
        is_here
            && has("verbs", request.verb)
            && has("apiGroups", request.group)
            && has("resources", request.resource)
            && (self.rule["resourceNames"].is_null() || has("resourceNames", request.name))
    }
}

/// One cell of the matrix.
#[derive(Debug)]
struct MatrixRequest<'a> {
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    /// Empty for all namespaces.
    namespace: &'a str,
    /// Empty for all objects.
    name: &'a str,
}

/// Asks the API server whether a service account may do this.
async fn is_allowed(admin: &Client, account: &str, request: &MatrixRequest<'_>) -> bool {
    let (resource, subresource) = match request.resource.split_once('/') {
        Some((resource, subresource)) => (resource, subresource),
        None => (request.resource, ""),
    };
    let review = json!({
        "spec": {
            "user": format!("system:serviceaccount:{account}"),
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": request.verb, "group": request.group, "resource": resource,
                "subresource": subresource, "namespace": request.namespace, "name": request.name,
            },
        },
    });
    let answer = rest::create(admin, REVIEWS, &review).await.unwrap();
    answer["status"]["allowed"] == true
}

/// Returns the rules of all roles that have this name.
async fn rules(admin: &Client, role: &str) -> Vec<GrantedRule> {
    let mut granted = Vec::new();
    for path in ["clusterroles", "roles"] {
        let roles = rest::get(admin, &format!("{RBAC}/{path}")).await.unwrap();
        let roles = roles["items"].as_array().unwrap().iter();
        for role in roles.filter(|found| found["metadata"]["name"] == role) {
            let namespace = role["metadata"]["namespace"].as_str();
            for rule in role["rules"].as_array().into_iter().flatten() {
                granted.push(GrantedRule {
                    namespace: namespace.map(str::to_owned),
                    rule: rule.clone(),
                });
            }
        }
    }
    granted
}

fn words<'a>(rules: &'a [GrantedRule], key: &'a str) -> impl Iterator<Item = &'a str> {
    let values = rules
        .iter()
        .filter_map(move |granted| granted.rule[key].as_array());
    values.flatten().filter_map(Value::as_str)
}

/// Compares every cell of the matrix: all verbs, all resources of the rules and the tempting ones,
/// all names of the rules and another one.
async fn assert_exact(file: &str, role: &str, account: &str, namespaces: &[&str]) {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    for namespace in ["garden", "shoot--a"] {
        api.kubectl(&["create", "namespace", namespace])
            .await
            .unwrap();
    }
    let path = cache::repository().join("deploy/rbac").join(file);
    let create = ["create", "--filename", path.to_str().unwrap()];
    api.kubectl(&create).await.unwrap();
    let admin = control_plane.client().await.unwrap();
    let rules = rules(&admin, role).await;
    assert!(!rules.is_empty());

    let mut resources: BTreeSet<(&str, &str)> = TEMPTING.into_iter().collect();
    for granted in &rules {
        let one = std::slice::from_ref(granted);
        for group in words(one, "apiGroups") {
            resources.extend(words(one, "resources").map(|resource| (group, resource)));
        }
    }
    let names: BTreeSet<&str> = words(&rules, "resourceNames")
        .chain(["", "another"])
        .collect();

    // The authorizer of the API server learns of new roles through a watch.
    let first = &rules[0];
    let one = std::slice::from_ref(first);
    let granted = MatrixRequest {
        verb: words(one, "verbs").next().unwrap(),
        group: words(one, "apiGroups").next().unwrap(),
        resource: words(one, "resources").next().unwrap(),
        namespace: first.namespace.as_deref().unwrap_or_default(),
        name: words(one, "resourceNames").next().unwrap_or_default(),
    };
    poll::until(
        "the roles to take effect",
        Duration::from_secs(10),
        async || Ok(is_allowed(&admin, account, &granted).await.then_some(())),
    )
    .await
    .unwrap();

    let (mut allowed, mut refused) = (0, 0);
    for (group, resource) in resources {
        for namespace in namespaces {
            for name in &names {
                for verb in VERBS {
                    let request = MatrixRequest {
                        verb,
                        group,
                        resource,
                        namespace,
                        name,
                    };
                    let expected = rules.iter().any(|rule| rule.allows(&request));
                    let found = is_allowed(&admin, account, &request).await;
                    assert_eq!(found, expected, "{file}: {request:?}");
                    *(if found { &mut allowed } else { &mut refused }) += 1;
                }
            }
        }
    }
    println!("{file}: {allowed} requests allowed, {refused} refused");
    assert!(allowed > 0 && refused > 20 * allowed);
}

#[tokio::test]
async fn prober_may_do_nothing_else_on_the_seed() {
    let namespaces = ["", "garden", "shoot--a"];
    assert_exact(
        "prober-seed.yaml",
        "kelpie-prober",
        "garden:kelpie-prober",
        &namespaces,
    )
    .await;
}

#[tokio::test]
async fn prober_may_do_nothing_else_on_a_cluster() {
    let namespaces = ["", "kube-node-lease", "default"];
    let account = "kube-system:kelpie-prober";
    assert_exact("prober-shoot.yaml", "kelpie-prober", account, &namespaces).await;
}

#[tokio::test]
async fn guard_may_do_nothing_else_on_a_cluster() {
    let namespaces = ["", "kube-node-lease", "kube-system"];
    let account = "kube-system:kelpie-prober";
    assert_exact(
        "prober-guarded-shoot.yaml",
        "kelpie-prober",
        account,
        &namespaces,
    )
    .await;
}

#[tokio::test]
async fn weeder_may_do_nothing_else() {
    let namespaces = ["", "garden", "shoot--a"];
    assert_exact(
        "weeder.yaml",
        "kelpie-weeder",
        "garden:kelpie-weeder",
        &namespaces,
    )
    .await;
}

#[tokio::test]
async fn tempting_requests_are_refused() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    api.kubectl(&["create", "namespace", "garden"])
        .await
        .unwrap();
    for file in ["prober-seed.yaml", "weeder.yaml"] {
        let path = cache::repository().join("deploy/rbac").join(file);
        let create = ["create", "--filename", path.to_str().unwrap()];
        api.kubectl(&create).await.unwrap();
    }
    let targets = "/apis/apps/v1/namespaces/default/deployments";
    let named = "/apis/apps/v1/namespaces/default/deployments/kube-controller-manager";
    for account in ["kelpie-prober", "kelpie-weeder"] {
        let user = format!("system:serviceaccount:garden:{account}");
        let user = api.user(&user, &["system:serviceaccounts"]).unwrap();
        let client = api.client(&user).await.unwrap();
        for (method, path) in [
            (Method::GET, "/api/v1/secrets"),
            (Method::GET, "/api/v1/namespaces/garden/secrets/another"),
            (Method::POST, "/api/v1/namespaces/default/pods"),
            (
                Method::POST,
                "/api/v1/namespaces/garden/serviceaccounts/default/token",
            ),
            (Method::GET, "/api/v1/nodes"),
            (Method::PATCH, "/api/v1/nodes/one/status"),
            (Method::GET, "/api/v1/nodes/one/proxy/run"),
            (Method::POST, targets),
            (Method::DELETE, named),
            (Method::PUT, named),
            (Method::POST, "/apis/batch/v1/namespaces/default/jobs"),
            (
                Method::POST,
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            ),
            (
                Method::DELETE,
                "/apis/coordination.k8s.io/v1/namespaces/garden/leases",
            ),
            (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews"),
            (Method::GET, "/debug/pprof/"),
        ] {
            let request = Request::builder().method(&method).uri(path);
            let request = request.header(
                "content-type",
                match method {
                    Method::PATCH => "application/merge-patch+json",
                    _ => "application/json",
                },
            );
            let response = client.send(request.body(Body::from(b"{}".to_vec())).unwrap());
            let status = response.await.unwrap().status();
            assert_eq!(status.as_u16(), 403, "{account}: {method} {path}");
        }
    }
}
