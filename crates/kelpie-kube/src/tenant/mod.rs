//! A tenant's API server, asked over as few connections as will do.
//!
//! A kept connection saves the handshake, which costs ten times the request, but it never decides: it
//! may have died unnoticed. What fails on it is asked again at once over a fresh one, and only that
//! failure counts. Nothing else is ever repeated. Reading order: `question` is what is asked,
//! `attempt` how, [`Tenant`] over which connection.

mod attempt;
mod error;
mod question;
mod traffic;

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use kelpie_core::Node;
use tokio::time::Instant;

use attempt::{Kept, Line, Said};
pub use error::TenantError;
use question::{Leases, Nodes, Question, Version};
use traffic::Meter;
pub use traffic::Traffic;

use crate::kubeconfig::Access;
use crate::wire::{self, LeaseList};

/// A connection of this age is renewed, so that name resolution and the way are really tested.
const OLDEST: Duration = Duration::from_mins(5);

/// A tenant's API server and the one connection to it that is kept between rounds.
#[derive(Debug)]
pub struct Tenant {
    access: Access,
    headers: HeaderMap,
    kept: Option<Kept>,
    keeping: Keeping,
    /// When the round began.
    round: Instant,
    meter: Meter,
}

/// Whether connections live longer than a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Up to five minutes.
    Kept,
    /// Each round makes its own.
    FreshEachRound,
}

/// How much a round is in a hurry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// One question after the other.
    Routine,
    /// The round may find that the cluster trips: both questions together, and a fresh connection
    /// races for each that has no answer after 300 ms.
    Urgent,
}

/// What a round learnt of the API server and the leases.
#[derive(Debug)]
pub struct Probed {
    /// Whether the API server answered `/version`.
    pub version: Result<(), TenantError>,
    /// The leases; `None` if they were not asked for because the API server did not answer.
    pub leases: Option<Result<Listed, TenantError>>,
}

/// The leases, and when they were listed.
#[derive(Debug)]
pub struct Listed {
    /// The leases.
    pub leases: LeaseList,
    /// Right before the request that was answered was sent.
    pub start: Instant,
    /// Right after the answer was read.
    pub end: Instant,
}

impl Tenant {
    /// A tenant's API server. Nothing is connected yet.
    pub fn new(access: Access, keeping: Keeping) -> Self {
        let mut headers = HeaderMap::with_capacity(3);
        let agent = concat!("kelpie/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static(wire::ACCEPT));
        if let Some(authorization) = access.authorization() {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Self {
            access,
            headers,
            kept: None,
            keeping,
            round: Instant::now(),
            meter: Meter::default(),
        }
    }

    /// Begins a round: `/version`, and the leases if that answered. All of it before `deadline`.
    pub async fn probe(&mut self, haste: Haste, deadline: Instant) -> Probed {
        self.begin_round();
        match haste {
            Haste::Routine => {
                let version = self.ask::<Version>(deadline).await.map(|_| ());
                let leases = match &version {
                    Ok(()) => Some(self.ask::<Leases>(deadline).await.map(Listed::new)),
                    Err(_) => None,
                };
                Probed { version, leases }
            }
            Haste::Urgent => self.probe_urgently(deadline).await,
        }
    }

    /// Begins a round that only wants to know whether the API server answers `/version`.
    pub async fn version(&mut self, deadline: Instant) -> Result<(), TenantError> {
        self.begin_round();
        self.ask::<Version>(deadline).await.map(|_| ())
    }

    /// The nodes, within a round that was begun.
    pub async fn nodes(&mut self, deadline: Instant) -> Result<Vec<Node>, TenantError> {
        let (nodes, _) = self.ask::<Nodes>(deadline).await?;
        Ok(nodes.0)
    }

    /// What was asked and answered since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        self.meter.take()
    }

    fn begin_round(&mut self) {
        self.round = Instant::now();
        let keeping = self.keeping;
        self.kept
            .take_if(|kept| keeping == Keeping::FreshEachRound || kept.born.elapsed() >= OLDEST);
    }

    async fn probe_urgently(&mut self, deadline: Instant) -> Probed {
        // The kept connection is for the leases: theirs is the larger answer.
        let kept = self.take_kept();
        let line = self.line(deadline);
        let (version, leases) = tokio::join!(
            Box::pin(line.ask_urgently::<Version>(None)),
            Box::pin(line.ask_urgently::<Leases>(kept)),
        );
        Probed {
            version: self.heard(version).map(|_| ()),
            leases: Some(self.heard(leases).map(Listed::new)),
        }
    }

    async fn ask<Q: Question>(&mut self, deadline: Instant) -> Heard<Q::Answer> {
        let kept = self.take_kept();
        // On the heap: a task keeps room for all it ever awaits, and an attempt is large.
        let said = Box::pin(self.line(deadline).ask::<Q>(kept)).await;
        self.heard(said)
    }

    fn take_kept(&mut self) -> Option<Kept> {
        let kept = self.kept.take()?;
        let mut usable = Some(kept);
        usable.take_if(|kept| !kept.connection.is_usable());
        usable
    }

    fn line(&self, deadline: Instant) -> Line<'_> {
        Line {
            endpoint: self.access.endpoint(),
            headers: &self.headers,
            meter: &self.meter,
            deadline,
            round: self.round,
        }
    }

    /// Keeps the connection.
    fn heard<A>(&mut self, said: Result<Said<A>, TenantError>) -> Heard<A> {
        let said = said?;
        self.kept = said.connection.or(self.kept.take());
        Ok((said.answer?, said.asked))
    }
}

/// An answer with the instants around its request.
type Heard<A> = Result<(A, (Instant, Instant)), TenantError>;

impl Listed {
    fn new((leases, (start, end)): (LeaseList, (Instant, Instant))) -> Self {
        Self { leases, start, end }
    }
}
