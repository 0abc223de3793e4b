//! One question over one connection, and over two that race.

use std::time::Duration;

use http::{HeaderMap, header};
use kelpie_net::{Connection, Endpoint, Response};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::TenantError;
use super::question::{Question, SMALL};
use super::traffic::Meter;

/// What a connection of an earlier round is given to answer: it may be dead without anybody knowing.
const KEPT_PATIENCE: Duration = Duration::from_secs(2);

/// In a hurry, a fresh connection starts when there is no answer after this long.
const HEAD_START: Duration = Duration::from_millis(300);

/// The rest of an answer that nobody needs is read for so long, to keep its connection.
const DRAIN_PATIENCE: Duration = Duration::from_millis(250);

/// A connection and when it was made.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) connection: Connection,
    pub(super) born: Instant,
}

/// What a server said to a question: an answer, or no but by HTTP.
pub(super) struct Said<A> {
    pub(super) answer: Result<A, TenantError>,
    /// Right before the request was sent, and right after the answer was read.
    pub(super) asked: (Instant, Instant),
    /// Still there, if it can be used again.
    pub(super) connection: Option<Kept>,
}

impl<A> Said<A> {
    /// Neither an answer nor a refusal that says nothing about the server's health.
    fn is_failure(&self) -> bool {
        self.answer
            .as_ref()
            .is_err_and(|error| !error.is_transient())
    }
}

/// All that an attempt needs to know. Shared by those that race.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) headers: &'a HeaderMap,
    pub(super) meter: &'a Meter,
    pub(super) deadline: Instant,
    /// When the round began: a connection made since then is as good as fresh.
    pub(super) round: Instant,
}

impl Line<'_> {
    /// Over the kept connection, if there is one; if that fails, at once over a fresh one, whose
    /// failure counts.
    pub(super) async fn ask<Q: Question>(
        self,
        kept: Option<Kept>,
    ) -> Result<Said<Q::Answer>, TenantError> {
        let Some(kept) = kept else {
            return self.over_fresh::<Q>().await;
        };
        let is_old = kept.born < self.round;
        match self.over_kept::<Q>(kept).await {
            // Behind a balancer, an old connection may be tied to the one server that is ill.
            Ok(said) if is_old && said.is_failure() => self.over_fresh::<Q>().await,
            Ok(said) => Ok(said),
            Err(_) => self.over_fresh::<Q>().await,
        }
    }

    /// The same in a hurry: when there is no answer soon, a fresh connection races for it.
    pub(super) async fn ask_urgently<Q: Question>(
        self,
        kept: Option<Kept>,
    ) -> Result<Said<Q::Answer>, TenantError> {
        let head_start = Instant::now() + HEAD_START;
        let first = self.ask::<Q>(kept);
        let second = async {
            sleep_until(head_start).await;
            self.over_fresh::<Q>().await
        };
        tokio::pin!(first, second);
        tokio::select! {
            biased;
            said = &mut first => match said {
                Err(_) if Instant::now() >= head_start => second.await,
                // Also a failure: it is a fresh connection's, and there is no other under way.
                said => said,
            },
            said = &mut second => match said {
                Ok(said) => Ok(said),
                Err(_) => first.await,
            },
        }
    }

    /// An error proves nothing about the server.
    async fn over_kept<Q: Question>(self, kept: Kept) -> Result<Said<Q::Answer>, TenantError> {
        let mut line = self;
        if kept.born < self.round {
            line.deadline = self.deadline.min(Instant::now() + KEPT_PATIENCE);
        }
        line.within(line.exchange::<Q>(kept)).await
    }

    async fn over_fresh<Q: Question>(self) -> Result<Said<Q::Answer>, TenantError> {
        self.within(async {
            let connection = Connection::open(self.endpoint).await?;
            self.meter.count(|traffic| traffic.connections += 1);
            let born = Instant::now();
            self.exchange::<Q>(Kept { connection, born }).await
        })
        .await
    }

    /// `attempt` before the deadline; counted if it gets no answer.
    async fn within<T>(
        self,
        attempt: impl Future<Output = Result<T, TenantError>>,
    ) -> Result<T, TenantError> {
        let done = timeout_at(self.deadline, attempt).await;
        let done = done.unwrap_or(Err(TenantError::TimedOut));
        if done.is_err() {
            self.meter.count(|traffic| traffic.unanswered += 1);
        }
        done
    }

    /// One request and its answer. An error is the connection's; what the server says is not.
    async fn exchange<Q: Question>(self, mut kept: Kept) -> Result<Said<Q::Answer>, TenantError> {
        let begun = Instant::now();
        let response = kept.connection.get(Q::PATH, self.headers).await?;
        let status = response.status.as_u16();
        self.meter.count(|traffic| traffic.statuses.push(status));
        let retry_after = response.header(&header::RETRY_AFTER);
        let answer = match TenantError::from_status(status, retry_after) {
            None => Q::read(response, self.meter).await,
            Some(refused) => {
                drain(response).await;
                Err(refused)
            }
        };
        match answer {
            Err(error) if error.is_transport() => Err(error),
            answer => Ok(Said {
                answer,
                asked: (begun, Instant::now()),
                connection: kept.connection.is_usable().then_some(kept),
            }),
        }
    }
}

/// Reads what is left, if that is little and comes soon; else the connection is lost.
async fn drain(response: Response<'_>) {
    let _ = timeout(DRAIN_PATIENCE, response.collect(SMALL)).await;
}
