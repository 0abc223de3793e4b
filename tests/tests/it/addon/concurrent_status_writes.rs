//! Concurrent writers of one status lose no update.

use futures_util::future::{LocalBoxFuture, join_all};
use kelpie_addon::{CollectorReporter, StatusWriter, WriteError, WriteOutcome};
use kelpie_core::addon::{
    AddonComponent, AddonStatus, CollectorReport, ConditionReason, ForwardOutcome, OperatorUpdate,
};

use super::fixture::status_history::assert_valid;
use super::fixture::{
    NAMESPACE, PLATFORM_STATUS, SpokeFixture, UWL_STATUS, condition, status_writer,
};

/// Repeats a write that could not be delivered, for example because the machine stalled. Every
/// writer has to do so.
async fn retry(
    mut attempt: impl AsyncFnMut() -> Result<WriteOutcome, WriteError>,
) -> Result<WriteOutcome, WriteError> {
    let mut written = attempt().await;
    for _ in 0..5 {
        if !matches!(written, Err(WriteError::Call(_))) {
            break;
        }
        written = attempt().await;
    }
    written
}

async fn reconcile(writer: &StatusWriter) {
    let aggregate = |status: &mut AddonStatus, now| {
        status.set_standard_conditions(now);
        Ok(())
    };
    retry(async || writer.write(None, aggregate).await)
        .await
        .unwrap();
}

fn report(component: AddonComponent, forward: ForwardOutcome, message: String) -> CollectorReport {
    CollectorReport {
        component,
        forward,
        message,
        rollout: None,
    }
}

#[tokio::test]
async fn concurrent_writers_lose_no_update() {
    write_concurrently(300).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn ten_thousand_concurrent_writes_lose_no_update() {
    write_concurrently(10_000).await;
}

/// Three writers and the aggregation each write this often to one object at the same time. The last
/// report of each writer is kept, and every intermediate state is valid.
async fn write_concurrently(writes: usize) {
    let fixture = SpokeFixture::start().await;
    let history = fixture.spoke.status_history().await;
    let mut tasks: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
    for component in AddonComponent::ALL {
        let mut reporter =
            CollectorReporter::new(status_writer(&fixture.spoke, NAMESPACE).await, None);
        tasks.push(Box::pin(async move {
            for round in 0..writes {
                let forward = if round % 3 == 0 {
                    ForwardOutcome::Failure
                } else {
                    ForwardOutcome::Successful
                };
                let report = report(component, forward, round.to_string());
                let written = retry(async || reporter.report(report.clone()).await).await;
                assert!(
                    matches!(written, Ok(_) | Err(WriteError::Refused(_))),
                    "{written:?}"
                );
            }
        }));
    }
    let operator = status_writer(&fixture.spoke, NAMESPACE).await;
    tasks.push(Box::pin(async move {
        for round in 0..writes {
            let component = AddonComponent::ALL[round % 2];
            let reason = match round % 5 {
                0 => ConditionReason::UpdateFailure,
                _ => ConditionReason::UpdateSuccessful,
            };
            let update = OperatorUpdate {
                component,
                reason,
                message: round.to_string(),
                rollout: Some((round / 7).to_string()),
                replaced: false,
            };
            let change = |status: &mut AddonStatus, now| status.apply_update(&update, now);
            let written = retry(async || operator.write(None, change).await).await;
            assert!(
                matches!(written, Ok(_) | Err(WriteError::Refused(_))),
                "{written:?}"
            );
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
            retry(async || operator.write(None, change).await)
                .await
                .unwrap();
        }
    }));
    let aggregator = status_writer(&fixture.spoke, NAMESPACE).await;
    tasks.push(Box::pin(async move {
        for _ in 0..writes {
            reconcile(&aggregator).await;
        }
    }));
    join_all(tasks).await;

    // The collectors report last, and the status has to end in the aggregate of their reports.
    let end = status_writer(&fixture.spoke, NAMESPACE).await;
    for component in AddonComponent::ALL {
        let mut reporter = CollectorReporter::new(end.clone(), None);
        let report = report(component, ForwardOutcome::Successful, "end".into());
        retry(async || reporter.report(report.clone()).await)
            .await
            .unwrap();
    }
    reconcile(&end).await;
    let last = fixture.spoke.until_condition("Available").await;
    history.until_recorded(&last).await;
    for kind in [PLATFORM_STATUS, UWL_STATUS] {
        assert_eq!(condition(&last, kind)["message"], "end");
    }
    for state in history.states() {
        assert_valid(&state);
    }
    println!("{} states were recorded", history.states().len());
}
