//! A member that is reached over the network.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use prost::Message;
use secrecy::SecretString;

use crate::boot::{BootTracker, ProcessState};
use crate::client::channel::{ConnectionSettings, MemberChannel};
use crate::client::member_url::MemberUrl;
use crate::client::message::{
    ClusterMember, EmptyRequest, EmptyResponse, HealthCheckResponse, MemberListRequest,
    MemberListResponse, RangeRequest, StatusResponse,
};
use crate::client::metrics_page::MetricsPage;
use crate::client::progress_watch::ProgressWatch;
use crate::client::rpc::RequireLeader;
use crate::client::tls_credentials::TlsCredentials;
use crate::client::token_cache::{EtcdUser, TokenCache};
use crate::member::{Member, MemberCall, MemberStatus, ServingStatus, WatchProgress, has_alarm};
use crate::{EtcdError, EtcdMetrics, EtcdVersion, process};

/// The key that is read. It need not exist.
///
/// `etcdctl endpoint health` reads the same key, so one permission serves both.
const KEY: &[u8] = b"health";

/// The address of a member and the credentials for it.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The member's client URL.
    pub endpoint: MemberUrl,
    /// The URL of the metrics page. `None` if the client URL serves it.
    pub metrics_url: Option<MemberUrl>,
    /// The time limits of the connection.
    pub connection: ConnectionSettings,
    /// The certificates, for both URLs.
    pub tls: TlsCredentials,
    /// The user to log in as. `None` for no login.
    pub user: Option<EtcdUser>,
    /// Maximum time that a call waits for the login.
    ///
    /// Choose less than any deadline, so that a hanging login does not count as a hanging read.
    pub login_timeout: Duration,
    /// The PID of the member's process. `None` if the process is not visible from here.
    pub pid: Option<u32>,
}

/// A member that is reached over the network. Clones share the connection.
#[derive(Clone)]
pub struct RemoteMember {
    channel: MemberChannel,
    tokens: Option<TokenCache>,
    metrics_page: MetricsPage,
    watch: ProgressWatch,
    config: Arc<MemberConfig>,
}

impl RemoteMember {
    /// Creates the client. It connects on first use, and must be created inside a Tokio runtime.
    pub fn new(config: MemberConfig) -> Self {
        let channel = MemberChannel::new(&config.tls, &config.endpoint, config.connection);
        let metrics_url = config.metrics_url.clone();
        let metrics_url = metrics_url.unwrap_or(config.endpoint.clone());
        let user = config.user.clone();
        Self {
            tokens: user.map(|user| TokenCache::new(user, channel.clone(), config.login_timeout)),
            metrics_page: MetricsPage::new(config.tls.clone(), metrics_url),
            watch: ProgressWatch::default(),
            channel,
            config: Arc::new(config),
        }
    }

    /// Makes a call, and retries it once if the first attempt proves nothing: the connection had
    /// closed unnoticed, the token had expired, or another leader was just elected.
    async fn call<Q, A>(
        &self,
        channel: &MemberChannel,
        path: &'static str,
        message: Q,
        leader: RequireLeader,
    ) -> Result<A, EtcdError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let attempt = |token: Option<Arc<SecretString>>| {
            let (channel, message) = (channel.clone(), message.clone());
            async move { channel.call(path, message, leader, token.as_deref()).await }
        };
        self.with_one_retry(attempt).await
    }

    async fn with_one_retry<A, Fut>(
        &self,
        attempt: impl Fn(Option<Arc<SecretString>>) -> Fut,
    ) -> Result<A, EtcdError>
    where
        Fut: Future<Output = Result<A, EtcdError>>,
    {
        let mut retried = false;
        loop {
            let token = match &self.tokens {
                Some(tokens) => tokens.get().await?,
                None => None,
            };
            let result = attempt(token.clone()).await;
            match (&result, &self.tokens) {
                _ if retried => return result,
                (Err(EtcdError::ConnectionLost(_) | EtcdError::LeaderChanged), _) => {}
                (Err(error), Some(tokens)) if error.needs_new_token() => {
                    tokens.discard(token.as_ref());
                }
                _ => return result,
            }
            retried = true;
        }
    }

    async fn range(self, serializable: bool) -> Result<(), EtcdError> {
        let request = RangeRequest {
            key: KEY.to_vec(),
            limit: 1,
            serializable,
            keys_only: true,
        };
        let leader = RequireLeader(!serializable);
        let EmptyResponse {} = self
            .call(&self.channel, "/etcdserverpb.KV/Range", request, leader)
            .await?;
        Ok(())
    }

    async fn members(&self, linearizable: bool) -> Result<Vec<ClusterMember>, EtcdError> {
        let request = MemberListRequest { linearizable };
        let leader = RequireLeader(linearizable);
        let path = "/etcdserverpb.Cluster/MemberList";
        let response: MemberListResponse = self.call(&self.channel, path, request, leader).await?;
        Ok(response.members)
    }

    async fn status_over(&self, channel: &MemberChannel) -> Result<MemberStatus, EtcdError> {
        let path = "/etcdserverpb.Maintenance/Status";
        let calling = self.call(channel, path, EmptyRequest {}, RequireLeader(false));
        let response: StatusResponse = calling.await?;
        Ok(MemberStatus {
            version: EtcdVersion::parse(&response.version),
            watch_progress: watch_progress(&response.version),
            id: response.header.map_or(0, |header| header.member_id),
            leader: response.leader,
            commit: response.raft_index,
            applied: response.raft_applied_index,
            is_learner: response.is_learner,
            is_corrupt: has_alarm(&response.errors, "CORRUPT"),
            is_out_of_space: has_alarm(&response.errors, "NOSPACE"),
        })
    }

    /// Returns the commit index of another member, over a new connection to it.
    async fn commit_of(self, id: u64) -> Result<u64, EtcdError> {
        let members = self.members(false).await?;
        let leader = members.into_iter().find(|member| member.id == id);
        let urls = leader.map(|leader| leader.client_urls).unwrap_or_default();
        // Only a URL of the same scheme is used, so that a token sent over TLS so far is never sent
        // in plain text.
        let is_https = self.config.endpoint.is_https();
        let url = urls.iter().find_map(|url| {
            let url = MemberUrl::parse(url, is_https).ok()?;
            (url.is_https() == is_https).then_some(url)
        });
        let Some(url) = url else {
            let text = "the leader advertises no usable client URL";
            return Err(EtcdError::Misconfigured(text.to_owned()));
        };
        let channel = MemberChannel::new(&self.config.tls, &url, self.config.connection);
        commit_if_leader(&self.status_over(&channel).await?, id)
    }
}

fn watch_progress(version: &str) -> WatchProgress {
    let patch = version.split('.').nth(2);
    let patch = patch.and_then(|patch| patch.split('-').next()?.parse::<u32>().ok());
    match (EtcdVersion::parse(version), patch) {
        (Some(EtcdVersion(3, 4)), Some(25..=30)) | (Some(EtcdVersion(3, 5)), Some(8..=12)) => {
            WatchProgress::NeedsEvents
        }
        _ => WatchProgress::Always,
    }
}

/// Returns the commit index if it is the leader that responded.
///
/// Members advertise the URLs that they were configured with, and some advertise an address that
/// all members share.
fn commit_if_leader(status: &MemberStatus, leader: u64) -> Result<u64, EtcdError> {
    if status.id == leader {
        return Ok(status.commit);
    }
    let text = "another member answers at the leader's client URL";
    Err(EtcdError::Misconfigured(text.to_owned()))
}

impl Member for RemoteMember {
    fn serializable_read(&self) -> MemberCall<()> {
        self.clone().range(true).boxed()
    }

    fn linearizable_read(&self) -> MemberCall<()> {
        self.clone().range(false).boxed()
    }

    fn read_index(&self) -> MemberCall<()> {
        let this = self.clone();
        async move { this.members(true).await.map(drop) }.boxed()
    }

    fn status(&self) -> MemberCall<MemberStatus> {
        let this = self.clone();
        async move { this.status_over(&this.channel).await }.boxed()
    }

    fn leader_commit(&self, leader: u64) -> MemberCall<u64> {
        self.clone().commit_of(leader).boxed()
    }

    fn ping(&self) -> MemberCall<ServingStatus> {
        let this = self.clone();
        async move {
            // The health service needs no login, so a login cannot delay it.
            let path = "/grpc.health.v1.Health/Check";
            let calling = this
                .channel
                .call(path, EmptyRequest {}, RequireLeader(false), None);
            let HealthCheckResponse { status } = calling.await?;
            Ok(if status == HealthCheckResponse::NOT_SERVING {
                ServingStatus::NotServing
            } else {
                ServingStatus::Serving
            })
        }
        .boxed()
    }

    fn propose(&self) -> MemberCall<()> {
        let this = self.clone();
        async move {
            let path = "/etcdserverpb.Maintenance/Alarm";
            let leader = RequireLeader(true);
            let calling = this.call(&this.channel, path, EmptyRequest {}, leader);
            let EmptyResponse {} = calling.await?;
            Ok(())
        }
        .boxed()
    }

    fn watch_progress(&self) -> MemberCall<()> {
        let this = self.clone();
        async move {
            let attempt = |token: Option<Arc<SecretString>>| {
                let (watch, channel) = (this.watch.clone(), this.channel.clone());
                async move { watch.ask(&channel, KEY, token.as_deref()).await }
            };
            this.with_one_retry(attempt).await
        }
        .boxed()
    }

    fn member_count(&self) -> MemberCall<usize> {
        let this = self.clone();
        async move { Ok(this.members(false).await?.len()) }.boxed()
    }

    fn metrics(&self) -> MemberCall<EtcdMetrics> {
        let page = self.metrics_page.clone();
        async move { page.read().await }.boxed()
    }

    fn has_own_metrics_listener(&self) -> bool {
        let MemberConfig {
            endpoint,
            metrics_url,
            ..
        } = &*self.config;
        let is_separate = |url: &MemberUrl| url.authority() != endpoint.authority();
        metrics_url.as_ref().is_some_and(is_separate)
    }

    fn boot(&self) -> BootTracker {
        *self.channel.boot.lock()
    }

    fn process(&self) -> ProcessState {
        let unknown = ProcessState::Unknown;
        self.config.pid.map_or(unknown, process::state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_comes_from_the_leader_only() {
        let status = |id| MemberStatus {
            version: None,
            watch_progress: WatchProgress::Always,
            id,
            leader: 7,
            commit: 40,
            applied: 40,
            is_learner: false,
            is_corrupt: false,
            is_out_of_space: false,
        };
        assert_eq!(commit_if_leader(&status(7), 7), Ok(40));
        for other in [8, 0] {
            let error = commit_if_leader(&status(other), 7).unwrap_err();
            assert!(error.is_probe_problem());
        }
    }

    #[test]
    fn releases_without_progress_are_known() {
        use WatchProgress::{Always, NeedsEvents};
        for (version, expected) in [
            ("3.4.23", Always),
            ("3.4.25", NeedsEvents),
            ("3.4.30", NeedsEvents),
            ("3.4.31", Always),
            ("3.5.7", Always),
            ("3.5.8", NeedsEvents),
            ("3.5.12", NeedsEvents),
            ("3.5.13", Always),
            ("3.6.0-rc.1", Always),
            ("unknown", Always),
        ] {
            assert_eq!(watch_progress(version), expected, "{version}");
        }
    }
}
