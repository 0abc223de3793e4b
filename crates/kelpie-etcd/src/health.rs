//! Registers the checks of a member, one line each.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{BuildError, CheckGroup, CheckResult, Health, HealthBuilder, SharedCall};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::checks::defragmentation::Defragmentation;
use crate::checks::from_status::{StatusCheck, data_corruption, non_learner};
use crate::checks::linearizable_read;
use crate::checks::performance::Performance;
use crate::checks::raft_loop::{RaftLoop, RaftLoopScope};
use crate::checks::raft_propose::RaftPropose;
use crate::checks::serializable_read::{LivezRead, ReadyzRead};
use crate::checks::watch::{self, Watch};
use crate::health_endpoint::HealthEndpoint;
use crate::performance::PerformanceHistory;
use crate::probe_problems::ProbeProblems;
use crate::read_index;
use crate::shared_calls::SharedCalls;
use crate::{EtcdError, EtcdOptions, Member, MemberStatus};

/// The health of a member.
pub struct MemberHealth {
    /// The checks of livez and readyz.
    pub checks: Health,
    /// The older `/health`.
    pub endpoint: HealthEndpoint,
}

/// Creates the checks of a member. They must be run inside a Tokio runtime.
pub fn member_health(
    member: &Arc<dyn Member>,
    options: &EtcdOptions,
    registry: &mut Registry,
) -> Result<MemberHealth, BuildError> {
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

    let livez_read = || LivezRead {
        calls: Arc::clone(&calls),
        timeout: timeout(CheckGroup::Livez),
        boot_grace: options.boot_grace,
    };
    let raft_loop = |group, scope| RaftLoop {
        calls: Arc::clone(&calls),
        election_timeout: options.election_timeout,
        scope,
        timeout: timeout(group),
    };
    let status_check = |judge: fn(&MemberStatus) -> CheckResult| StatusCheck {
        calls: Arc::clone(&calls),
        judge,
    };

    if enabled("serializable_read", CheckGroup::Livez) {
        builder.livez("serializable_read", livez_read());
    }
    if enabled("raft_loop", CheckGroup::Livez) {
        let scope = if options.checks.was_named("raft_loop", CheckGroup::Livez) {
            RaftLoopScope::AnyCluster
        } else {
            let callee = Arc::clone(member);
            let count = builder.shared_call("call-members", move || callee.member_count());
            RaftLoopScope::SingleMember(count)
        };
        builder.livez("raft_loop", raft_loop(CheckGroup::Livez, scope));
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
        builder.readyz(
            "raft_loop",
            raft_loop(CheckGroup::Readyz, RaftLoopScope::AnyCluster),
        );
    }
    if enabled("watch", CheckGroup::Readyz) {
        let callee = Arc::clone(member);
        let progress = builder.shared_call("call-watch", move || watch::ask(Arc::clone(&callee)));
        let watch = Watch {
            calls: Arc::clone(&calls),
            progress,
            timeout: timeout(CheckGroup::Readyz),
            max_silence: options.health.max_reuse_age,
        };
        builder.readyz("watch", watch);
    }
    let callee = Arc::clone(member);
    let call = move || callee.linearizable_read();
    let linearizable_read = builder.shared_call("call-linearizable-range", call);
    register_opt_ins(&mut builder, options, &calls, &linearizable_read);
    let endpoint = HealthEndpoint {
        livez_read: Arc::new(livez_read()),
        linearizable_read,
        timeout: timeout(CheckGroup::Livez),
        allow_head: options.health.allow_head,
        calls,
    };
    Ok(MemberHealth {
        checks: builder.build()?,
        endpoint,
    })
}

/// Registers the checks of readyz that are off by default.
fn register_opt_ins(
    builder: &mut HealthBuilder,
    options: &EtcdOptions,
    calls: &Arc<SharedCalls>,
    linearizable_read: &SharedCall<Result<(), EtcdError>>,
) {
    let enabled = |name| options.checks.has(name, CheckGroup::Readyz);
    let check = linearizable_read.check(calls.max_age, linearizable_read::judge);
    if enabled("linearizable_read") {
        builder.readyz("linearizable_read", check);
    } else if !options
        .checks
        .was_disabled("linearizable_read", CheckGroup::Readyz)
    {
        // etcd has it in readyz, so probes of it alone exist.
        builder.readyz_by_name("linearizable_read", check);
    }
    if enabled("raft_propose") {
        let callee = Arc::clone(&calls.member);
        let proposals = builder.shared_call("call-alarm", move || callee.propose());
        let propose = RaftPropose {
            calls: Arc::clone(calls),
            proposals,
            timeout: check_timeout(options.health.readyz_deadline),
        };
        builder.readyz("raft_propose", propose);
    }
    if enabled("performance") {
        let performance = Performance {
            calls: Arc::clone(calls),
            history: Mutex::new(PerformanceHistory::new(options.performance)),
        };
        builder.readyz("performance", performance);
    }
}

/// Returns the time limit of a run whose result must be ready before the response is due.
fn check_timeout(deadline: Duration) -> Duration {
    let margin = (deadline / 10).clamp(Duration::from_millis(20), Duration::from_millis(200));
    deadline.saturating_sub(margin)
}
