//! Authentication and RBAC of the test servers.

use kelpie_e2e::{ControlPlane, Credentials, get_raw};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

#[tokio::test]
async fn unknown_users_get_401_unprivileged_403() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
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

    for (user, credentials, expected) in [
        ("the admin", api.admin(), 200),
        ("an unprivileged user", api.unprivileged(), 403),
        (
            "an unknown token",
            Credentials::Token("not-a-token".into()),
            401,
        ),
        ("a reader", api.user("rita", &["readers"]).unwrap(), 200),
        ("another user", api.user("otto", &["writers"]).unwrap(), 403),
    ] {
        let client = api.client(&credentials).await.unwrap();
        let response = get_raw(&client, LEASES, "application/json").await.unwrap();
        assert_eq!(response.status.as_u16(), expected, "{user}");
    }
}
