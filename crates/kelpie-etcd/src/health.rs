//! Registers the checks of a member, one line each.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{BuildError, CheckGroup, CheckResult, Health};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::checks::defragmentation::Defragmentation;
use crate::checks::from_status::{StatusCheck, data_corruption, non_learner};
use crate::checks::linearizable_read;
use crate::checks::raft_loop::RaftLoop;
use crate::checks::raft_propose::RaftPropose;
use crate::checks::serializable_read::{LivezRead, ReadyzRead};
use crate::probe_problems::ProbeProblems;
use crate::read_index;
use crate::shared_calls::SharedCalls;
use crate::{EtcdOptions, Member, MemberStatus};

/// Creates the livez and readyz checks of a member. They must be run inside a Tokio runtime.
pub fn member_health(
    member: &Arc<dyn Member>,
    options: &EtcdOptions,
    registry: &mut Registry,
) -> Result<Health, BuildError> {
    let mut builder = Health::builder(options.health.clone(), registry);
    let problems = ProbeProblems::new(&options.health.metric_prefix, registry);
    let corrupt_alarm = Gauge::default();
    registry.register(
        format!("{}corrupt_alarm", options.health.metric_prefix),
        "1 if a CORRUPT alarm was active when the member last answered: members' data differ",
        corrupt_alarm.clone(),
    );
    let calls = SharedCalls::new(member, options, &problems, &corrupt_alarm, &mut builder);
    let enabled = |name, group| options.checks.has(name, group);
    let timeout = |group| check_timeout(options.health.deadline(group));

    let livez_read = LivezRead {
        calls: Arc::clone(&calls),
        timeout: timeout(CheckGroup::Livez),
        boot_grace: options.boot_grace,
    };
    let raft_loop = |group| RaftLoop {
        calls: Arc::clone(&calls),
        election_timeout: options.election_timeout,
        timeout: timeout(group),
    };
    let status_check = |judge: fn(&MemberStatus) -> CheckResult| StatusCheck {
        calls: Arc::clone(&calls),
        judge,
    };

    if enabled("serializable_read", CheckGroup::Livez) {
        builder.livez("serializable_read", livez_read);
    }
    if enabled("raft_loop", CheckGroup::Livez) {
        builder.livez("raft_loop", raft_loop(CheckGroup::Livez));
    }
    if enabled("serializable_read", CheckGroup::Readyz) {
        builder.readyz("serializable_read", ReadyzRead(Arc::clone(&calls)));
    }
    if enabled("data_corruption", CheckGroup::Readyz) {
        builder.readyz("data_corruption", status_check(data_corruption));
    }
    if enabled("read_index", CheckGroup::Readyz) {
        let check = calls.read_index.check(calls.max_age, read_index::judge);
        builder.readyz("read_index", check);
    }
    if enabled("defragmentation", CheckGroup::Readyz) && options.defrag_detection {
        builder.readyz("defragmentation", Defragmentation(Arc::clone(&calls)));
    }
    if enabled("non_learner", CheckGroup::Readyz) {
        builder.readyz("non_learner", status_check(non_learner));
    }
    if enabled("raft_loop", CheckGroup::Readyz) {
        builder.readyz("raft_loop", raft_loop(CheckGroup::Readyz));
    }
    if enabled("linearizable_read", CheckGroup::Readyz) {
        let callee = Arc::clone(member);
        let call = move || callee.linearizable_read();
        let read = builder.shared_call("call-linearizable-range", call);
        let check = read.check(calls.max_age, linearizable_read::judge);
        builder.readyz("linearizable_read", check);
    }
    if enabled("raft_propose", CheckGroup::Readyz) {
        let callee = Arc::clone(member);
        let proposals = builder.shared_call("call-alarm", move || callee.propose());
        builder.readyz("raft_propose", RaftPropose(proposals));
    }
    builder.build()
}

/// Returns the time limit of a run whose result must be ready before the response is due.
fn check_timeout(deadline: Duration) -> Duration {
    let margin = (deadline / 10).clamp(Duration::from_millis(20), Duration::from_millis(200));
    deadline.saturating_sub(margin)
}
