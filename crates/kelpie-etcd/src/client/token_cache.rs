//! Logs in with name and password, and keeps the token while etcd accepts it.
//!
//! etcd writes every token to its raft log, so logging in more often would cost entries.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::SharedCall;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

use crate::EtcdError;
use crate::client::channel::MemberChannel;
use crate::client::message::{AuthenticateRequest, AuthenticateResponse};
use crate::client::rpc::RequireLeader;

/// Time limit of a login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum time between a rejected login and the next. Each costs etcd a slow password hash.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The name and the password of an etcd user. `Debug` does not print the password.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names explain the fields")]
pub struct EtcdUser {
    pub name: String,
    pub password: SecretString,
}

/// The state of the token.
#[derive(Clone, Debug)]
enum TokenState {
    /// There is no token yet, or etcd no longer accepts the last one.
    Needed,
    Held(Arc<SecretString>),
    /// Authentication is not enabled on the server.
    NotEnabled,
    /// etcd rejected the login at this instant.
    Rejected(EtcdError, Instant),
    /// The last login failed at this instant. The next call tries again.
    Failed(EtcdError, Instant),
}

/// The token of one user.
#[derive(Clone)]
pub(crate) struct TokenCache {
    state: Arc<Mutex<TokenState>>,
    login: SharedCall<()>,
    /// Maximum time that a call waits for the login. The login itself continues.
    wait: Duration,
}

impl TokenCache {
    pub(crate) fn new(user: EtcdUser, channel: MemberChannel, wait: Duration) -> Self {
        let state = Arc::new(Mutex::new(TokenState::Needed));
        let shared = Arc::clone(&state);
        let login = SharedCall::new(LOGIN_TIMEOUT, move || {
            let (channel, user, shared) = (channel.clone(), user.clone(), Arc::clone(&shared));
            async move {
                let next = log_in(&channel, &user).await;
                *shared.lock() = next;
            }
        });
        Self { state, login, wait }
    }

    /// Returns the token to send, or `None` if the server needs none.
    pub(crate) async fn get(&self) -> Result<Option<Arc<SecretString>>, EtcdError> {
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        let ended = timeout(self.wait, self.login.get(LOGIN_TIMEOUT)).await;
        let now = Instant::now();
        let error = || self.missing_token_error(matches!(ended, Ok(Ok(()))), now);
        self.known(now).unwrap_or_else(|| Err(error()))
    }

    /// Returns the reason why there is no token.
    ///
    /// While a login is in progress, the error of the previous one is no longer evidence about
    /// etcd. A problem of the probe is likely to last.
    fn missing_token_error(&self, ended: bool, now: Instant) -> EtcdError {
        match &*self.state.lock() {
            // A login is a proposal. These errors come from a lost quorum or a busy member, which
            // may well answer reads.
            TokenState::Failed(
                EtcdError::NoResponse
                | EtcdError::ServerTimeout(_)
                | EtcdError::NoLeader
                | EtcdError::LeaderChanged
                | EtcdError::ServerError(_),
                _,
            ) => EtcdError::NoToken,
            TokenState::Failed(error, at)
                if ended
                    || error.is_probe_problem()
                        && now.saturating_duration_since(*at) < RETRY_AFTER =>
            {
                error.clone()
            }
            _ => EtcdError::NoToken,
        }
    }

    /// Discards a token that the server no longer accepts. Does nothing if it is already replaced.
    pub(crate) fn discard(&self, token: Option<&Arc<SecretString>>) {
        let mut state = self.state.lock();
        let is_current = match (&*state, token) {
            (TokenState::Held(held), Some(token)) => Arc::ptr_eq(held, token),
            (TokenState::NotEnabled, None) => true,
            _ => false,
        };
        if is_current {
            *state = TokenState::Needed;
        }
    }

    /// Returns the token or the error if no login is needed now.
    fn known(&self, now: Instant) -> Option<Result<Option<Arc<SecretString>>, EtcdError>> {
        match &*self.state.lock() {
            TokenState::Needed | TokenState::Failed(..) => None,
            TokenState::Held(token) => Some(Ok(Some(Arc::clone(token)))),
            TokenState::NotEnabled => Some(Ok(None)),
            TokenState::Rejected(_, at) if now.saturating_duration_since(*at) >= RETRY_AFTER => {
                None
            }
            TokenState::Rejected(error, _) => Some(Err(error.clone())),
        }
    }
}

async fn log_in(channel: &MemberChannel, user: &EtcdUser) -> TokenState {
    let request = AuthenticateRequest {
        name: user.name.clone(),
        password: user.password.expose_secret().to_owned(),
    };
    let path = "/etcdserverpb.Auth/Authenticate";
    let response = channel
        .call(path, request, RequireLeader(false), None)
        .await;
    match response {
        Ok(AuthenticateResponse { token }) => TokenState::Held(Arc::new(SecretString::from(token))),
        Err(EtcdError::ServerError(message))
            if message.contains("authentication is not enabled") =>
        {
            TokenState::NotEnabled
        }
        Err(EtcdError::AccessDenied(message)) => TokenState::Rejected(
            EtcdError::Misconfigured(format!(
                "etcd rejected the login of user {} ({message}): check --user and --password",
                user.name
            )),
            Instant::now(),
        ),
        // A learner knows no users, and serves all its calls without a token.
        Err(EtcdError::Learner) => TokenState::NotEnabled,
        Err(error) => TokenState::Failed(error, Instant::now()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::channel::ConnectionSettings;
    use crate::client::member_url::MemberUrl;
    use crate::client::tls_credentials::TlsCredentials;

    /// The cache of a user whose etcd is unreachable.
    fn tokens() -> TokenCache {
        tokens_at("127.0.0.1:1")
    }

    fn tokens_at(address: &str) -> TokenCache {
        let user = EtcdUser {
            name: "probe".to_owned(),
            password: SecretString::from("hunter2"),
        };
        assert!(!format!("{user:?}").contains("hunter2"));
        let url = MemberUrl::parse(&format!("http://{address}"), false).unwrap();
        let tls = TlsCredentials::new(kelpie_net::TlsFilePaths::default());
        let channel = MemberChannel::new(&tls, &url, ConnectionSettings::default());
        TokenCache::new(user, channel, Duration::from_millis(100))
    }

    fn token() -> Arc<SecretString> {
        Arc::new(SecretString::from("token"))
    }

    #[tokio::test]
    async fn login_error_is_returned() {
        let error = tokens().get().await.unwrap_err();
        assert_eq!(error, EtcdError::ConnectionRefused);

        let closing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tokens = tokens_at(&closing.local_addr().unwrap().to_string());
        tokio::spawn(async move { while closing.accept().await.is_ok() {} });
        let error = tokens.get().await.unwrap_err();
        assert!(error.is_probe_problem(), "{error:?}");
        assert!(error.to_string().contains("https://"), "{error}");
    }

    #[tokio::test]
    async fn unanswered_login_is_a_missing_token() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tokens = tokens_at(&silent.local_addr().unwrap().to_string());
        // The error of the previous login proves nothing about this one, which is in progress.
        *tokens.state.lock() = TokenState::Failed(EtcdError::ConnectionRefused, Instant::now());
        assert_eq!(tokens.get().await.unwrap_err(), EtcdError::NoToken);
    }

    #[tokio::test]
    async fn evidence_is_no_missing_token() {
        let tokens = tokens();
        let now = Instant::now();
        let reported = |error: &EtcdError, ended, at| {
            *tokens.state.lock() = TokenState::Failed(error.clone(), at);
            tokens.missing_token_error(ended, now)
        };
        let text = || "etcdserver: request timed out".to_owned();
        for error in [
            EtcdError::NoResponse,
            EtcdError::ServerTimeout(text()),
            EtcdError::NoLeader,
            EtcdError::LeaderChanged,
            EtcdError::ServerError("etcdserver: too many requests".to_owned()),
        ] {
            assert_eq!(reported(&error, true, now), EtcdError::NoToken, "{error:?}");
        }
        let expired = EtcdError::Misconfigured("the certificate has expired".to_owned());
        let lost = EtcdError::ConnectionLost(text());
        for error in [&expired, &EtcdError::ConnectionRefused, &lost] {
            assert_eq!(reported(error, true, now), *error);
        }
        assert_eq!(reported(&expired, false, now), expired);
        let old = reported(&expired, false, now - RETRY_AFTER);
        assert_eq!(old, EtcdError::NoToken, "old");
    }

    #[tokio::test]
    async fn token_is_kept_until_discarded() {
        let tokens = tokens();
        let held = token();
        *tokens.state.lock() = TokenState::Held(Arc::clone(&held));
        let got = tokens.get().await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&got, &held));

        tokens.discard(Some(&token()));
        let known = tokens.known(Instant::now());
        assert!(known.is_some(), "another token was discarded");
        tokens.discard(Some(&held));
        assert!(tokens.known(Instant::now()).is_none());
    }

    #[tokio::test]
    async fn no_token_without_authentication() {
        let tokens = tokens();
        *tokens.state.lock() = TokenState::NotEnabled;
        assert!(tokens.get().await.unwrap().is_none());
        // Authentication was enabled.
        tokens.discard(None);
        assert!(tokens.known(Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_login_is_not_repeated_at_once() {
        let tokens = tokens();
        let error = EtcdError::Misconfigured("wrong password".to_owned());
        *tokens.state.lock() = TokenState::Rejected(error.clone(), Instant::now());
        assert_eq!(tokens.get().await.unwrap_err(), error);
        tokio::time::advance(RETRY_AFTER).await;
        assert!(tokens.known(Instant::now()).is_none());
    }
}
