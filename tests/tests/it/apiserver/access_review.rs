//! Access reviews and errors of the client.

use kelpie_e2e::{ControlPlane, Credentials};
use kelpie_kube::client::{ApiError, ClientError};
use kelpie_kube::rbac::{AccessReview, Permission};

use super::connect;

#[tokio::test]
async fn access_review_and_version() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let role = "--verb=get,list --resource=deployments.apps,deployments.apps/scale";
    let mut create = vec!["create", "role", "scaler", "--namespace=default"];
    create.extend(role.split(' '));
    api.kubectl(&create).await.unwrap();
    let bind = "create rolebinding scaler --namespace=default --role=scaler --user=otto";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    let api_client = connect(api, &api.user("otto", &[]).unwrap()).await;
    let deployments = Permission {
        verb: "get".into(),
        group: "apps".into(),
        resource: "deployments".into(),
        namespace: Some("default".into()),
        ..Permission::default()
    };
    let permissions = [
        deployments.clone(),
        Permission {
            subresource: Some("scale".into()),
            ..deployments.clone()
        },
        Permission {
            verb: "patch".into(),
            ..deployments.clone()
        },
        Permission {
            namespace: None,
            ..deployments
        },
    ];

    let reviews = api_client.can_i(&permissions).await.unwrap();

    let allowed: Vec<bool> = reviews
        .iter()
        .map(|(_, review)| *review == AccessReview::Allowed)
        .collect();
    assert_eq!(allowed, [true, true, false, false]);
    let reviewed: Vec<Permission> = reviews
        .into_iter()
        .map(|(permission, _)| permission)
        .collect();
    assert_eq!(reviewed, permissions);
    assert!(api_client.version().await.unwrap().starts_with("v1."));
}

#[tokio::test]
async fn denied_differs_from_unavailable() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    let unknown = Credentials::Token("not-a-token".into());
    let api_client = connect(&control_plane.api, &unknown).await;
    let permission = [Permission::default()];

    let error = api_client.can_i(&permission).await.unwrap_err();
    let ClientError::Request { cause, .. } = &error else {
        panic!("{error}");
    };
    assert!(cause.denied().is_some(), "{error}");

    control_plane.api.kill();
    let error = api_client.version().await.unwrap_err();
    let ClientError::Request { cause, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(cause, ApiError::Unavailable(_)), "{error}");
    assert!(
        error.to_string().ends_with("the connection to it"),
        "{error}"
    );
}
