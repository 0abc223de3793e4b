//! Concurrent writers of one status lose no update.

use futures_util::future::{LocalBoxFuture, join_all};
use kelpie_addon::{StatusWriter, WriteError};
use kelpie_core::addon::{AddonComponent, AddonStatus, ConditionReason, OperatorUpdate};

use crate::fixture::*;

/// The number of writes of each writer.
const WRITES: usize = 300;

async fn reconcile(writer: &StatusWriter) {
    let aggregate = |status: &mut AddonStatus, now| {
        status.set_standard_conditions(now);
        Ok(())
    };
    writer.write(None, aggregate).await.unwrap();
}

async fn report_repeatedly(spoke: &ApiServer, component: AddonComponent) {
    let writer = spoke.status_writer();
    for round in 0..WRITES {
        let forward = if round % 3 == 0 { FAILURE } else { SUCCESS };
        let report = collector_report(component, forward, &round.to_string());
        let written = writer.report(None, &report).await;
        assert!(matches!(written, Ok(_) | Err(WriteError::Refused(_))));
    }
}

async fn update_repeatedly(spoke: &ApiServer) {
    let writer = spoke.status_writer();
    for round in 0..WRITES {
        let update = OperatorUpdate {
            component: AddonComponent::ALL[round % 2],
            reason: match round % 5 {
                0 => ConditionReason::UpdateFailure,
                _ => ConditionReason::UpdateSuccessful,
            },
            message: round.to_string(),
            rollout: Some((round / 7).to_string()),
            replaced: false,
        };
        let change = |status: &mut AddonStatus, now| status.apply_update(&update, now);
        let written = writer.write(None, change).await;
        assert!(matches!(written, Ok(_) | Err(WriteError::Refused(_))));
    }
    for component in AddonComponent::ALL {
        let last = OperatorUpdate {
            component,
            reason: ConditionReason::UpdateSuccessful,
            message: "the last".into(),
            rollout: Some("last".into()),
            replaced: true,
        };
        let change = |status: &mut AddonStatus, now| status.apply_update(&last, now);
        writer.write(None, change).await.unwrap();
    }
}

/// Three writers and the aggregation write to one object at the same time. The last report of each
/// writer is kept, and every intermediate state is valid.
#[tokio::test(start_paused = true)]
async fn concurrent_writers_lose_no_update() {
    let Fixture { spoke, .. } = Fixture::start();
    let mut history = spoke.history();
    let mut tasks: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
    for component in AddonComponent::ALL {
        tasks.push(Box::pin(report_repeatedly(&spoke, component)));
    }
    tasks.push(Box::pin(update_repeatedly(&spoke)));
    tasks.push(Box::pin(async {
        let aggregator = spoke.status_writer();
        for _ in 0..WRITES {
            reconcile(&aggregator).await;
        }
    }));
    join_all(tasks).await;
    let writes = spoke.requests_since(0).into_iter().filter(is_write).count();
    let states = history.states().len();
    assert!(writes > states + WRITES, "{writes} writes, {states} states");

    // The collectors report last, and the status has to end in the aggregate of their reports.
    for component in AddonComponent::ALL {
        spoke.report(component, SUCCESS, "end").await.unwrap();
    }
    reconcile(&spoke.status_writer()).await;
    let last = spoke.until_condition("Available").await;
    for kind in [PLATFORM_STATUS, UWL_STATUS] {
        assert_eq!(message(&last, kind), "end");
    }
    history.states().iter().for_each(assert_valid);
}
