//! Registration: one line per check.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{BuildError, Group, Health, Verdict};
use prometheus_client::registry::Registry;

use crate::calls::Calls;
use crate::check::defragmentation::Defragmentation;
use crate::check::from_status::{FromStatus, data_corruption, non_learner};
use crate::check::linearizable_read::LinearizableRead;
use crate::check::raft_loop::RaftLoop;
use crate::check::raft_propose::RaftPropose;
use crate::check::serializable_read::{Alive, Readable};
use crate::read_index;
use crate::trouble::Trouble;
use crate::{Member, Options, Status};

/// The checks of a member. Must be asked inside a runtime.
pub fn checks(
    member: &Arc<dyn Member>,
    options: &Options,
    registry: &mut Registry,
) -> Result<Health, BuildError> {
    let mut builder = Health::builder(options.health.clone(), registry);
    let trouble = Trouble::new(&options.health.prefix, registry);
    let calls = Calls::new(member, options, &trouble, &mut builder);
    let on = |name, group| options.checks.has(name, group);
    let within = |group| patience(options.health.deadline(group));

    let alive = Alive {
        calls: Arc::clone(&calls),
        patience: within(Group::Livez),
        boot_grace: options.boot_grace,
    };
    let raft_loop = |group| RaftLoop {
        calls: Arc::clone(&calls),
        election_timeout: options.election_timeout,
        patience: within(group),
    };
    let from_status = |judge: fn(&Status) -> Verdict| FromStatus {
        calls: Arc::clone(&calls),
        judge,
    };

    if on("serializable_read", Group::Livez) {
        builder.livez("serializable_read", alive);
    }
    if on("raft_loop", Group::Livez) {
        builder.livez("raft_loop", raft_loop(Group::Livez));
    }
    if on("serializable_read", Group::Readyz) {
        builder.readyz("serializable_read", Readable(Arc::clone(&calls)));
    }
    if on("data_corruption", Group::Readyz) {
        builder.readyz("data_corruption", from_status(data_corruption));
    }
    if on("read_index", Group::Readyz) {
        let check = calls.read_index.check(calls.fresh, read_index::judge);
        builder.readyz("read_index", check);
    }
    if on("defragmentation", Group::Readyz) && options.defrag_detection {
        builder.readyz("defragmentation", Defragmentation(Arc::clone(&calls)));
    }
    if on("non_learner", Group::Readyz) {
        builder.readyz("non_learner", from_status(non_learner));
    }
    if on("raft_loop", Group::Readyz) {
        builder.readyz("raft_loop", raft_loop(Group::Readyz));
    }
    if on("linearizable_read", Group::Readyz) {
        let asked = Arc::clone(member);
        let check = LinearizableRead {
            read: builder.shared("call-linearizable-range", move || asked.linearizable_read()),
            fresh: calls.fresh,
        };
        builder.readyz("linearizable_read", check);
    }
    if on("raft_propose", Group::Readyz) {
        let asked = Arc::clone(member);
        let proposals = builder.shared("call-alarm", move || asked.propose());
        builder.readyz("raft_propose", RaftPropose(proposals));
    }
    builder.build()
}

/// When a run gives up so that its verdict is there before the answer is due.
fn patience(deadline: Duration) -> Duration {
    let margin = (deadline / 10).clamp(Duration::from_millis(20), Duration::from_millis(200));
    deadline.saturating_sub(margin)
}
