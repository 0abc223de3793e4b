//! The client of a real member.
//!
//! `channel` connects with the addresses of `member_url` and the certificates of `tls_credentials`.
//! `rpc` makes one gRPC call, `progress_watch` keeps a watch open, `token_cache` logs in, and
//! `metrics_page` reads the metrics. `remote_member` combines them into a
//! [`Member`](crate::Member).

mod channel;
mod member_url;
mod message;
mod metrics_page;
mod progress_watch;
mod remote_member;
mod rpc;
mod tls_credentials;
mod token_cache;

pub use channel::{ConnectionSettings, KeepAlive};
pub use member_url::{MemberUrl, MemberUrlError};
pub use remote_member::{MemberConfig, RemoteMember};
pub use tls_credentials::TlsCredentials;
pub use token_cache::EtcdUser;
