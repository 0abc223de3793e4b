//! The standard gRPC health service, called by the usual client.

use kelpie_e2e::{EtcdMember, Kelpie};
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::fixture::{TIMEOUT, on_every_release, start_kelpie};

async fn client(kelpie: &Kelpie) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(kelpie.url().to_owned()).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

fn request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn grpc_check_follows_the_groups() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        let mut client = client(&kelpie).await;
        let mut check = async |service: &str| {
            let reply = client.check(request(service)).await;
            reply.map(|reply| reply.get_ref().status())
        };
        for service in ["", "readyz", "livez"] {
            let status = check(service).await.unwrap();
            assert_eq!(status, ServingStatus::Serving, "{service}");
        }
        assert_eq!(check("bogus").await.unwrap_err().code(), Code::NotFound);
        // A member with an alarm is live and not ready.
        etcd.raise("CORRUPT", "4711").await.unwrap();
        kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
        assert_eq!(check("").await.unwrap(), ServingStatus::NotServing);
        assert_eq!(check("livez").await.unwrap(), ServingStatus::Serving);
    })
    .await;
}

#[tokio::test]
async fn grpc_watch_reports_changes() {
    let mut etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    let mut client = client(&kelpie).await;
    let unknown = client.watch(request("bogus")).await.unwrap();
    let first = unknown.into_inner().message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::ServiceUnknown);

    let mut watch = client.watch(request("")).await.unwrap().into_inner();
    let mut until = async |status: ServingStatus| {
        let changed = async {
            // An unchanged status is repeated from time to time.
            while watch.message().await.unwrap().unwrap().status() != status {}
        };
        timeout(TIMEOUT, changed).await.unwrap();
    };
    until(ServingStatus::Serving).await;
    etcd.kill();
    until(ServingStatus::NotServing).await;
    etcd.restart().await.unwrap();
    until(ServingStatus::Serving).await;

    // An open watch does not delay the end.
    let exit = kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.took.as_secs() < 2, "{:?}", exit.took);
}
