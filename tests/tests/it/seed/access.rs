//! What we may do, and whom we speak to.

use kelpie_e2e::{ControlPlane, Credentials};
use kelpie_kube::seed::{Answer, Permission, SeedError};

use super::seed;

#[tokio::test]
async fn the_api_server_says_what_we_may_do_and_which_version_it_is() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let role = "--verb=get,list --resource=deployments.apps,deployments.apps/scale";
    let mut create = vec!["create", "role", "scaler", "--namespace=default"];
    create.extend(role.split(' '));
    api.kubectl(&create).await.unwrap();
    let bind = "create rolebinding scaler --namespace=default --role=scaler --user=otto";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    let seed = seed(api, &api.user("otto", &[]).unwrap()).await;
    let deployments = Permission {
        verb: "get".into(),
        group: "apps".into(),
        resource: "deployments".into(),
        namespace: Some("default".into()),
        ..Permission::default()
    };
    let questions = [
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

    let answers = seed.may(&questions).await.unwrap();

    let allowed: Vec<bool> = answers
        .iter()
        .map(|(_, answer)| *answer == Answer::Allowed)
        .collect();
    assert_eq!(allowed, [true, true, false, false]);
    let asked: Vec<Permission> = answers.into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, questions);
    assert!(seed.version().await.unwrap().starts_with("v1."));
}

#[tokio::test]
async fn unknown_credentials_are_told_from_a_server_that_is_down() {
    let mut plane = ControlPlane::start().await.unwrap();
    let unknown = Credentials::Token("not-a-token".into());
    let seed = seed(&plane.api, &unknown).await;
    let question = [Permission::default()];

    let error = seed.may(&question).await.unwrap_err();
    assert!(matches!(error, SeedError::Denied { .. }), "{error}");

    plane.api.go_down();
    let error = seed.version().await.unwrap_err();
    assert!(matches!(error, SeedError::Unavailable { .. }), "{error}");
    assert!(error.to_string().ends_with("is it up?"), "{error}");
}
