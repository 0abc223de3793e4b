//! The seed: the cluster whose API server holds the control planes that are watched over.
//!
//! [`Seed`] has two clients. Watches, questions and Events go through one with a limit in front of
//! it; fencing ([`Targets`]), weeding and the election go through another, so that they wait for
//! nobody.
//! What is watched arrives as [`Change`]s of small facts, whatever the objects look like; a request
//! that fails is sorted by what can be done about it, and only then told.

mod access;
mod bucket;
mod cluster;
mod connect;
mod event;
mod fault;
mod field;
mod inside;
mod machine;
mod need;
mod numbers;
mod pod;
mod quiet;
mod secret;
mod shoot;
mod sieve;
mod slice;
mod tally;
mod target;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::Stream;
use kelpie_net::{Endpoint, Network};
use kube::Client;
use thiserror::Error;
use tokio::time::timeout;

pub use access::{Answer, Permission};
pub use cluster::ClusterFacts;
pub use event::{Events, Note, NoteKind, ObjectRef};
pub use machine::{MachineChange, MachineFacts};
pub use need::{FOLLOW, Need};
pub use numbers::{LostEvents, SeedNumbers};
pub use pod::{DeleteError, PodFacts};
pub use secret::KubeconfigSecret;
pub use slice::SliceFacts;
pub use target::{ScaleKind, Survey, TargetError, Targets};
pub use watch::{Change, WatchError};

pub(crate) use fault::{Fault, root_cause, shortened};
pub(crate) use quiet::call as quietly;
pub(crate) use watch::{ROUND, follow};

use crate::objects::Objects;
use crate::wall::WallClock;
use inside::Inside;
use tally::Tally;
use watch::Selection;

/// What messages call a cluster that is nothing else.
const SEED: &str = "seed";
/// For questions that nobody is in a hurry about.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to reach the seed.
#[derive(Debug, Clone)]
pub struct SeedOptions {
    /// Where its kubeconfig is. `None`: `$KUBECONFIG`, else the pod's service account, else
    /// `~/.kube/config`. It is our own and trusted: exec plugins run, files are read.
    pub kubeconfig: Option<PathBuf>,
    /// Routine requests per second; 0: 5 of them, as in client-go; below: no limit.
    pub qps: f32,
    /// Routine requests that may come at once; 0: 10 of them, as in client-go.
    pub burst: u32,
    /// How we introduce ourselves.
    pub user_agent: String,
}

/// Why the seed could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SeedError {
    /// The kubeconfig has to be mended.
    #[error(
        "no usable kubeconfig for the {role} in {origin}: {reason}; name one with --kubeconfig"
    )]
    Kubeconfig {
        /// What the cluster is to us.
        role: &'static str,
        /// Where it was looked for.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The settings do not make a client.
    #[error("cannot make a client for the {role}: {reason}")]
    Setup {
        /// What the cluster is to us.
        role: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Somebody has to grant the permission.
    #[error("the {role}'s API server refused to {verb}: {reason}; check the credentials and RBAC")]
    Denied {
        /// What the cluster is to us.
        role: &'static str,
        /// What was asked for.
        verb: &'static str,
        /// What the API server said.
        reason: String,
    },
    /// Later it may work.
    #[error("the {role}'s API server did not {verb}: {reason}; is it up?")]
    Unavailable {
        /// What the cluster is to us.
        role: &'static str,
        /// What was asked for.
        verb: &'static str,
        /// What went wrong.
        reason: String,
    },
}

/// The seed's API server. Clones share their connections and limits.
#[derive(Clone)]
pub struct Seed {
    routine: Client,
    fencing: Client,
    targets: Targets,
    tally: Tally,
    network: Network,
    wall: WallClock,
    /// What messages call it.
    role: &'static str,
}

impl Seed {
    /// Prepares the clients. No request is made yet: a seed whose API server is down is no error.
    pub async fn connect(options: &SeedOptions) -> Result<Self, SeedError> {
        Self::connect_as(SEED, options).await
    }

    /// The same for a cluster that is no seed: messages call it by its `role`, as in `hub`.
    pub async fn connect_as(role: &'static str, options: &SeedOptions) -> Result<Self, SeedError> {
        let tally = Tally::default();
        let clients = connect::connect(role, options, &tally).await?;
        let world = (Network::default(), WallClock::default());
        Ok(Self::of(role, clients, tally, world))
    }

    /// A seed that is reached through `network`, in a world where `wall` tells the time. `server` is its
    /// URL; it knows us by our `name`, which is the token too.
    pub fn inside(
        network: &Network,
        wall: WallClock,
        server: &str,
        name: &str,
    ) -> Result<Self, SeedError> {
        let role = SEED;
        let setup = |reason: String| SeedError::Setup { role, reason };
        let endpoint = Endpoint::new(server, None).map_err(|error| setup(error.to_string()))?;
        let server = Inside::new(endpoint.through(network), name);
        let server = server.map_err(|error| setup(error.to_string()))?;
        let tally = Tally::default();
        let clients = connect::inside(&server, &tally);
        Ok(Self::of(role, clients, tally, (network.clone(), wall)))
    }

    fn of(
        role: &'static str,
        (routine, fencing): (Client, Client),
        tally: Tally,
        (network, wall): (Network, WallClock),
    ) -> Self {
        Self {
            routine,
            targets: Targets::new(fencing.clone()),
            fencing,
            tally,
            network,
            wall,
            role,
        }
    }

    /// How the clusters of this seed are reached.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What the time is there.
    pub fn wall_clock(&self) -> &WallClock {
        &self.wall
    }

    /// What it is to us, as in `hub`.
    pub fn role(&self) -> &'static str {
        self.role
    }

    /// All Clusters, or only the one of that name. The stream has no end.
    pub fn clusters(
        &self,
        only: Option<&str>,
    ) -> impl Stream<Item = Change<ClusterFacts>> + Send + use<> {
        let selection = Selection {
            name: only,
            ..Selection::all(cluster::PAGE)
        };
        watch::watch(&self.routine, selection)
    }

    /// The Secrets of this name, in all namespaces or in one. No other Secret is ever asked for. The
    /// stream has no end.
    pub fn secrets(
        &self,
        name: &str,
        namespace: Option<&str>,
    ) -> impl Stream<Item = Change<KubeconfigSecret>> + Send + use<> {
        let selection = Selection {
            namespace,
            name: Some(name),
            ..Selection::all(secret::PAGE)
        };
        watch::watch(&self.routine, selection)
    }

    /// The Machines in all namespaces or in one, and whether there is such a kind. The stream has no
    /// end.
    pub fn machines(
        &self,
        namespace: Option<&str>,
    ) -> impl Stream<Item = MachineChange> + Send + use<> {
        machine::watch_machines(&self.routine, namespace)
    }

    /// Any objects, as they are: behind the limit on routine calls.
    pub fn objects(&self) -> Objects {
        Objects::new(self.routine.clone(), self.wall.clone(), self.role)
    }

    /// The EndpointSlices of these services, in all namespaces or in one. The stream has no end. It
    /// waits for nobody, and notices a dead connection within half a minute.
    pub fn slices(
        &self,
        services: &[&str],
        namespace: Option<&str>,
    ) -> impl Stream<Item = Change<SliceFacts>> + Send + use<> {
        let labels = slice::labels(services);
        let selection = Selection {
            namespace,
            labels: Some(&labels),
            round: watch::SHORT_ROUND,
            ..Selection::all(slice::PAGE)
        };
        watch::watch(&self.fencing, selection)
    }

    /// The pods of a namespace that a label selector selects. The first list is as new as the call;
    /// otherwise it is as [`Seed::slices`].
    pub fn pods(
        &self,
        namespace: &str,
        selector: &str,
    ) -> impl Stream<Item = Change<PodFacts>> + Send + use<> {
        let selection = Selection {
            namespace: Some(namespace),
            labels: Some(selector),
            round: watch::SHORT_ROUND,
            ..Selection::all(pod::PAGE)
        };
        watch::watch(&self.fencing, selection)
    }

    /// Deletes a pod, if it still has this uid and this version. Waits for nobody.
    pub async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        version: &str,
    ) -> Result<(), DeleteError> {
        pod::delete(&self.fencing, namespace, name, uid, version).await
    }

    /// The controllers to fence. Their calls do not queue behind anything else.
    pub fn targets(&self) -> Targets {
        self.targets.clone()
    }

    /// The same controllers behind the limit on routine calls. Waiting for one's turn there says
    /// nothing about the API server: only its own silence ends a call.
    pub fn routine_targets(&self) -> Targets {
        self.targets.by(self.routine.clone()).within(Duration::MAX)
    }

    /// Looks at controllers that may wait, and what answers them, to be spawned once.
    pub fn survey(&self) -> (Survey, impl Future<Output = ()> + Send + use<>) {
        Survey::new(self.routine_targets())
    }

    /// Events that say `component` and `instance` made them. They are posted by [`Events::run`].
    pub fn events(&self, component: &str, instance: &str) -> Events {
        Events::new(self.routine.clone(), self.wall.clone(), component, instance)
    }

    /// The same without a limit in front of them, for Events that somebody waits for.
    pub fn urgent_events(&self, component: &str, instance: &str) -> Events {
        Events::new(self.fencing.clone(), self.wall.clone(), component, instance)
    }

    /// Asks for each permission whether we have it.
    pub async fn may(
        &self,
        questions: &[Permission],
    ) -> Result<Vec<(Permission, Answer)>, SeedError> {
        let mut answers = Vec::with_capacity(questions.len());
        for question in questions {
            let verb = "say what we may do";
            let answer = self.ask(verb, access::ask(&self.routine, question)).await?;
            answers.push((question.clone(), answer));
        }
        Ok(answers)
    }

    /// The API server's version, such as `v1.36.4`.
    pub async fn version(&self) -> Result<String, SeedError> {
        let verb = "say its version";
        let version = self.ask(verb, self.routine.apiserver_version()).await?;
        Ok(version.git_version)
    }

    /// Answers of the API server so far, by HTTP status; 0 counts the requests that got none.
    pub fn answers(&self) -> BTreeMap<u16, u64> {
        self.tally.read()
    }

    /// Without a limit in front of it, for what must not wait.
    pub(crate) fn urgent(&self) -> Client {
        self.fencing.clone()
    }

    async fn ask<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, SeedError> {
        let fault = match timeout(PATIENCE, quietly(call)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Fault::from(&error),
            Err(_) => Fault::TimedOut,
        };
        let role = self.role;
        Err(match fault {
            Fault::Unknown(reason) | Fault::Denied(reason) => {
                SeedError::Denied { role, verb, reason }
            }
            other => SeedError::Unavailable {
                role,
                verb,
                reason: other.to_string(),
            },
        })
    }
}
