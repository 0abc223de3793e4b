//! Python's `kubernetes` client.

use kelpie_e2e::{Credentials, python};

use super::{cluster, deployment};

#[tokio::test]
async fn python_client_reads_and_writes() {
    let simulated = cluster().await;
    let kubeconfig = simulated.kubeconfig(&Credentials::admin());
    let output = python::run(include_str!("client.py"), &kubeconfig).await;
    let expected = "version v1.36.4
nodes n1 n2
replicas 2
pods kcm-a kcm-b
scale 0
event ADDED a {'k': 'v'}
event MODIFIED a {'k': 'w'}
event DELETED a {'k': 'w'}
gone 404
";
    assert_eq!(output.unwrap(), expected);
    let deployment = deployment(&simulated);
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["metadata"]["annotations"]["from"], "python");
}
