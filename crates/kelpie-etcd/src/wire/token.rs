//! Logging in by name and password. etcd writes every token to its raft log, so one is kept for as
//! long as it is good.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_health::Shared;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

use crate::Fault;
use crate::wire::dial::Line;
use crate::wire::message::{AuthenticateRequest, AuthenticateResponse};
use crate::wire::rpc::Leader;

/// A log-in that is out for longer is given up.
const LOG_IN: Duration = Duration::from_secs(30);

/// After a refused log-in: each costs etcd a slow hash of the password.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Name and password of an etcd user. `Debug` shows the name only.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: SecretString,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How it stands with the token.
#[derive(Clone, Debug)]
enum State {
    /// None yet, or the last one is no longer good.
    Wanted,
    Held(Arc<SecretString>),
    /// The server does not ask who we are.
    NotEnabled,
    Refused(Fault, Instant),
    /// The last log-in came to nothing, then; the next call tries again.
    Failed(Fault, Instant),
}

/// The token of a user.
#[derive(Clone)]
pub(crate) struct Tokens {
    state: Arc<Mutex<State>>,
    log_in: Shared<()>,
    /// A call waits this long for a log-in, and fails without it. The log-in itself goes on.
    wait: Duration,
}

impl Tokens {
    pub(crate) fn new(user: User, line: Line, wait: Duration) -> Self {
        let state = Arc::new(Mutex::new(State::Wanted));
        let kept = Arc::clone(&state);
        let log_in = Shared::new(LOG_IN, move || {
            let (line, user, kept) = (line.clone(), user.clone(), Arc::clone(&kept));
            async move {
                let next = log_in(&line, &user).await;
                *lock(&kept) = next;
            }
        });
        Self {
            state,
            log_in,
            wait,
        }
    }

    /// The token to send; none where the server wants none.
    pub(crate) async fn get(&self) -> Result<Option<Arc<SecretString>>, Fault> {
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        let ended = timeout(self.wait, self.log_in.get(LOG_IN)).await;
        let now = Instant::now();
        let why = || self.why_none(matches!(ended, Ok(Ok(()))), now);
        self.known(now).unwrap_or_else(|| Err(why()))
    }

    /// Why there is no token. While a log-in is out, the fault of the one before is no evidence
    /// about etcd any more; trouble of our own is likely to be the same still.
    fn why_none(&self, ended: bool, now: Instant) -> Fault {
        match &*lock(&self.state) {
            // These come from a log-in without a quorum, or one that a busy member turned down. A log-in
            // is a proposal: that it fails is no evidence against a member that may well read.
            State::Failed(
                Fault::Silent
                | Fault::TimedOut(_)
                | Fault::NoLeader
                | Fault::LeaderChanged
                | Fault::Server(_),
                _,
            ) => Fault::NoToken,
            State::Failed(fault, at)
                if ended || fault.is_own() && now.saturating_duration_since(*at) < AGAIN_AFTER =>
            {
                fault.clone()
            }
            _ => Fault::NoToken,
        }
    }

    /// The server no longer takes this token. Who comes second finds it replaced already.
    pub(crate) fn discard(&self, token: Option<&Arc<SecretString>>) {
        let mut state = lock(&self.state);
        let current = match (&*state, token) {
            (State::Held(held), Some(token)) => Arc::ptr_eq(held, token),
            (State::NotEnabled, None) => true,
            _ => false,
        };
        if current {
            *state = State::Wanted;
        }
    }

    fn known(&self, now: Instant) -> Option<Result<Option<Arc<SecretString>>, Fault>> {
        match &*lock(&self.state) {
            State::Wanted | State::Failed(..) => None,
            State::Held(token) => Some(Ok(Some(Arc::clone(token)))),
            State::NotEnabled => Some(Ok(None)),
            State::Refused(_, at) if now.saturating_duration_since(*at) >= AGAIN_AFTER => None,
            State::Refused(fault, _) => Some(Err(fault.clone())),
        }
    }
}

async fn log_in(line: &Line, user: &User) -> State {
    let request = AuthenticateRequest {
        name: user.name.clone(),
        password: user.password.expose_secret().to_owned(),
    };
    let path = "/etcdserverpb.Auth/Authenticate";
    let answer = line.call(path, request, Leader::NotNeeded, None).await;
    match answer {
        Ok(AuthenticateResponse { token }) => State::Held(Arc::new(SecretString::from(token))),
        Err(Fault::Server(said)) if said.contains("authentication is not enabled") => {
            State::NotEnabled
        }
        Err(Fault::Denied(said)) => State::Refused(
            Fault::Own(format!(
                "etcd refuses the log-in of user {} ({said}): check --user and --password",
                user.name
            )),
            Instant::now(),
        ),
        // A learner knows no users and serves what it serves to anybody.
        Err(Fault::Learner) => State::NotEnabled,
        Err(fault) => State::Failed(fault, Instant::now()),
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::access::{Access, Address};

    /// Of a user whose etcd nobody can reach.
    fn tokens() -> Tokens {
        tokens_at("127.0.0.1:1")
    }

    fn tokens_at(address: &str) -> Tokens {
        let user = User {
            name: "probe".to_owned(),
            password: SecretString::from("hunter2"),
        };
        assert!(!format!("{user:?}").contains("hunter2"));
        let address = Address::parse(&format!("http://{address}"), false).unwrap();
        let access = Access::new(kelpie_net::FilePaths::default());
        let line = Line::new(&access, &address);
        Tokens::new(user, line, Duration::from_millis(100))
    }

    fn held() -> Arc<SecretString> {
        Arc::new(SecretString::from("token"))
    }

    #[tokio::test]
    async fn the_fault_of_the_log_in_is_told() {
        assert_eq!(tokens().get().await.unwrap_err(), Fault::Refused);

        let closing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tokens = tokens_at(&closing.local_addr().unwrap().to_string());
        tokio::spawn(async move { while closing.accept().await.is_ok() {} });
        let told = tokens.get().await.unwrap_err();
        assert!(told.is_own(), "{told:?}");
        assert!(told.to_string().contains("https://"), "{told}");
    }

    #[tokio::test]
    async fn without_an_answer_there_is_no_token() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tokens = tokens_at(&silent.local_addr().unwrap().to_string());
        // What the log-in before said is no evidence about this one, which is still out.
        *lock(&tokens.state) = State::Failed(Fault::Refused, Instant::now());
        assert_eq!(tokens.get().await.unwrap_err(), Fault::NoToken);
    }

    #[tokio::test]
    async fn only_what_is_no_evidence_against_the_member_is_told_as_a_missing_token() {
        let tokens = tokens();
        let now = Instant::now();
        let why = |fault: &Fault, ended, at| {
            *lock(&tokens.state) = State::Failed(fault.clone(), at);
            tokens.why_none(ended, now)
        };
        let text = || "etcdserver: request timed out".to_owned();
        for fault in [
            Fault::Silent,
            Fault::TimedOut(text()),
            Fault::NoLeader,
            Fault::LeaderChanged,
            Fault::Server("etcdserver: too many requests".to_owned()),
        ] {
            assert_eq!(why(&fault, true, now), Fault::NoToken, "{fault:?}");
        }
        let own = Fault::Own("the certificate has expired".to_owned());
        for fault in [&own, &Fault::Refused, &Fault::Broken(text())] {
            assert_eq!(why(fault, true, now), *fault);
        }
        assert_eq!(why(&own, false, now), own);
        assert_eq!(why(&own, false, now - AGAIN_AFTER), Fault::NoToken, "old");
    }

    #[tokio::test]
    async fn a_token_is_kept_until_etcd_no_longer_takes_it() {
        let tokens = tokens();
        let token = held();
        *lock(&tokens.state) = State::Held(Arc::clone(&token));
        let got = tokens.get().await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&got, &token));

        tokens.discard(Some(&held()));
        assert!(tokens.known(Instant::now()).is_some(), "another was meant");
        tokens.discard(Some(&token));
        assert!(tokens.known(Instant::now()).is_none());
    }

    #[tokio::test]
    async fn where_nobody_is_asked_who_he_is_no_token_is_sent() {
        let tokens = tokens();
        *lock(&tokens.state) = State::NotEnabled;
        assert!(tokens.get().await.unwrap().is_none());
        // Authentication was switched on.
        tokens.discard(None);
        assert!(tokens.known(Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_log_in_is_not_repeated_at_once() {
        let tokens = tokens();
        let fault = Fault::Own("wrong password".to_owned());
        *lock(&tokens.state) = State::Refused(fault.clone(), Instant::now());
        assert_eq!(tokens.get().await.unwrap_err(), fault);
        tokio::time::advance(AGAIN_AFTER).await;
        assert!(tokens.known(Instant::now()).is_none());
    }
}
