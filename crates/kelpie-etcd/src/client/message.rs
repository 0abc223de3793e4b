//! The few messages of etcd's API that are used here. Unused fields are left out; protobuf skips
//! them.

/// `etcdserverpb.RangeRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(bool, tag = "7")]
    pub(crate) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
}

/// Any response whose content does not matter.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct EmptyResponse {}

/// `etcdserverpb.ResponseHeader`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
}

/// `etcdserverpb.StatusResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// The commit index, despite its name.
    #[prost(uint64, tag = "5")]
    pub(crate) raft_index: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) raft_applied_index: u64,
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
}

/// `etcdserverpb.MemberListRequest`. 3.4 ignores the field and answers from memory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(crate) linearizable: bool,
}

/// `etcdserverpb.MemberListResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<ClusterMember>,
}

/// `etcdserverpb.Member`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ClusterMember {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
}

/// `etcdserverpb.WatchRequest`: one of its fields is set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreateRequest>,
    #[prost(message, optional, tag = "3")]
    pub(crate) progress: Option<EmptyRequest>,
}

/// `etcdserverpb.WatchCreateRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The kinds of events that are not sent.
    #[prost(int32, repeated, tag = "5")]
    pub(crate) filters: Vec<i32>,
}

impl WatchCreateRequest {
    /// `NOPUT` and `NODELETE`: no event at all.
    pub(crate) const NO_EVENTS: [i32; 2] = [0, 1];
}

/// `etcdserverpb.WatchResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct WatchResponse {
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
}

/// `etcdserverpb.AuthenticateRequest`. It has no `Debug`, which would print the password.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

/// `etcdserverpb.AuthenticateResponse`. It has no `Debug` either: the token is as good as a
/// password.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// A request without fields: `StatusRequest`, `HealthCheckRequest` for the whole server, and
/// `AlarmRequest`, whose default action lists all alarms.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct EmptyRequest {}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

impl HealthCheckResponse {
    /// `NOT_SERVING`, which etcd reports during a defragmentation if the server flag for it is set.
    pub(crate) const NOT_SERVING: i32 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn unused_fields_are_skipped() {
        // version, dbSize, leader, raftIndex, raftTerm, raftAppliedIndex, errors, isLearner
        let bytes = [
            &[0x12, 5][..],
            b"3.5.1",
            &[0x18, 1, 0x20, 7, 0x28, 9, 0x30, 2, 0x38, 8, 0x42, 1],
            b"x",
            &[0x50, 1, 0x5a, 0],
        ]
        .concat();
        let status = StatusResponse::decode(&bytes[..]).unwrap();
        assert_eq!(status.version, "3.5.1");
        assert_eq!(
            (status.leader, status.raft_index, status.raft_applied_index),
            (7, 9, 8)
        );
        assert_eq!(status.errors, ["x"]);
        assert!(status.is_learner);
    }
}
