//! Who may do what: the server guards its objects by RBAC.

use kelpie_e2e::{ControlPlane, Credentials, get};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

#[tokio::test]
async fn access_is_refused_by_status_401_to_the_unknown_and_403_to_those_without_rights() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let role = [
        "create",
        "clusterrole",
        "reader",
        "--verb=list",
        "--resource=leases",
    ];
    api.kubectl(&role).await.unwrap();
    let binding = [
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=reader",
        "--group=readers",
    ];
    api.kubectl(&binding).await.unwrap();

    for (who, credentials, expected) in [
        ("the admin", api.admin(), 200),
        ("a stranger", api.stranger(), 403),
        ("nobody", Credentials::Token("not-a-token".into()), 401),
        ("a reader", api.user("rita", &["readers"]).unwrap(), 200),
        ("another user", api.user("otto", &["writers"]).unwrap(), 403),
    ] {
        let client = api.client(&credentials).await.unwrap();
        let answer = get(&client, LEASES, "application/json").await.unwrap();
        assert_eq!(answer.status.as_u16(), expected, "{who}");
    }
}
