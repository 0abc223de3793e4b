//! A list of leases in both encodings of the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kelpie_e2e::{ApiResponse, ControlPlane, get_raw};
use kube::api::{Api, ObjectList, PostParams};
use kube::core::ObjectMeta;
use prost::Message;

const LEASES: usize = 50;
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The renewal time and the duration of each lease, by node.
type Renewals = BTreeMap<String, (Timestamp, i32)>;

#[tokio::test]
async fn protobuf_and_json_lists_agree() {
    let control_plane = ControlPlane::start().await.unwrap();
    let client = control_plane.client().await.unwrap();
    let written: Renewals = (0..LEASES).map(renewal).collect();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for (node, (renewed, seconds)) in &written {
        let lease = lease(node, *renewed, *seconds);
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }

    let accept = format!("{PROTOBUF}, application/json");
    let protobuf = get_raw(&client, PATH, &accept).await.unwrap();
    let json = get_raw(&client, PATH, "application/json").await.unwrap();

    assert_eq!(protobuf.content_type, PROTOBUF);
    assert_eq!(json.content_type, "application/json");
    assert_eq!(from_protobuf(&protobuf), written);
    assert_eq!(from_json(&json), written);
    println!(
        "{LEASES} leases: {} B each as protobuf, {} B each as JSON",
        protobuf.body.len() / LEASES,
        json.body.len() / LEASES
    );
}

/// Returns a renewal with a distinct number of seconds and microseconds.
fn renewal(number: usize) -> (String, (Timestamp, i32)) {
    let micros = 1_790_000_000_000_000 + i64::try_from(number).unwrap() * 1_234_567;
    let renewed = Timestamp::from_microsecond(micros).unwrap();
    (format!("node-{number:03}"), (renewed, 40))
}

fn lease(node: &str, renewed: Timestamp, seconds: i32) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(node.into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.into()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(renewed)),
            ..LeaseSpec::default()
        }),
    }
}

fn from_json(response: &ApiResponse) -> Renewals {
    let list: ObjectList<Lease> = serde_json::from_slice(&response.body).unwrap();
    let renewal = |lease: Lease| {
        let spec = lease.spec.unwrap();
        let renewed = spec.renew_time.unwrap().0;
        let name = lease.metadata.name.unwrap();
        (name, (renewed, spec.lease_duration_seconds.unwrap()))
    };
    list.items.into_iter().map(renewal).collect()
}

fn from_protobuf(response: &ApiResponse) -> Renewals {
    let message = response.body.strip_prefix(b"k8s\0").unwrap();
    let message = wire::Unknown::decode(message).unwrap();
    let list = wire::LeaseList::decode(message.raw.as_slice()).unwrap();
    let renewal = |lease: wire::Lease| {
        let spec = lease.spec.unwrap();
        let time = spec.renew_time.unwrap();
        let renewed = Timestamp::new(time.seconds, time.nanos).unwrap();
        let name = lease.metadata.unwrap().name;
        (name, (renewed, spec.lease_duration_seconds))
    };
    list.items.into_iter().map(renewal).collect()
}

/// The Protobuf messages of Kubernetes, with the fields that the test reads. prost skips the
/// others.
mod wire {
    /// The envelope of every object.
    #[derive(prost::Message)]
    pub(super) struct Unknown {
        #[prost(bytes = "vec", tag = "2")]
        pub(super) raw: Vec<u8>,
    }

    #[derive(prost::Message)]
    pub(super) struct LeaseList {
        #[prost(message, repeated, tag = "2")]
        pub(super) items: Vec<Lease>,
    }

    #[derive(prost::Message)]
    pub(super) struct Lease {
        #[prost(message, tag = "1")]
        pub(super) metadata: Option<ObjectMeta>,
        #[prost(message, tag = "2")]
        pub(super) spec: Option<LeaseSpec>,
    }

    #[derive(prost::Message)]
    pub(super) struct ObjectMeta {
        #[prost(string, tag = "1")]
        pub(super) name: String,
    }

    #[derive(prost::Message)]
    pub(super) struct LeaseSpec {
        #[prost(int32, tag = "2")]
        pub(super) lease_duration_seconds: i32,
        #[prost(message, tag = "4")]
        pub(super) renew_time: Option<MicroTime>,
    }

    #[derive(prost::Message)]
    pub(super) struct MicroTime {
        #[prost(int64, tag = "1")]
        pub(super) seconds: i64,
        #[prost(int32, tag = "2")]
        pub(super) nanos: i32,
    }
}
