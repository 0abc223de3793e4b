//! Access reviews and errors of the client.

use kelpie_e2e::{ControlPlane, Credentials};
use kelpie_kube::client::{ApiError, ClientError};
use kelpie_kube::rbac::PolicyRule;

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
    let deployments = ("apps", "deployments");
    let rule = PolicyRule::new(&["get", "patch"], deployments, "test");
    let here = rule.clone().in_namespace(Some("default"));
    let scale = here.clone().subresource("scale");

    let denied = async |rule| {
        let denied = api_client.denied(rule).await.unwrap().into_iter();
        denied.map(|rule| rule.to_string()).collect::<Vec<_>>()
    };

    let expected = ["patch deployments.apps in namespace default"];
    assert_eq!(denied(&here).await, expected);
    let expected = ["patch deployments/scale.apps in namespace default"];
    assert_eq!(denied(&scale).await, expected);
    let expected = ["get deployments.apps", "patch deployments.apps"];
    assert_eq!(denied(&rule).await, expected);
    assert!(api_client.version().await.unwrap().starts_with("v1."));
}

#[tokio::test]
async fn denied_differs_from_unavailable() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    let unknown = Credentials::Token("not-a-token".into());
    let api_client = connect(&control_plane.api, &unknown).await;
    let rule = PolicyRule::new(&["get"], ("", "pods"), "test");

    let error = api_client.denied(&rule).await.unwrap_err();
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
