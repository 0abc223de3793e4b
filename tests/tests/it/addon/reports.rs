//! Reports by the product, as a collector or a script would make them.

use futures_util::future::{LocalBoxFuture, join_all};
use kelpie_addon::{AddonRef, Reporter, StatusWriter, WriteError, Written};
use kelpie_core::addon::{Component, Forward, Reason, Report, Status, Update};
use kelpie_kube::seed::{Seed, SeedOptions};
use serde_json::{Value, json};

use super::history::assert_valid;
use super::stage::{Alone, Cluster, M, NAME, NAMESPACE, U, component, condition, report, run};

fn version(addon: &Value) -> &Value {
    &addon["metadata"]["resourceVersion"]
}

#[tokio::test]
async fn a_report_is_written_once_and_refused_with_a_reason_where_the_operator_holds() {
    let stage = Alone::start().await;
    let spoke = &stage.spoke;

    let (code, said) = report(spoke, "platform", "ForwardSuccessful", &["--message=sent"]).await;
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "the platform collector is ForwardSuccessful now\n")
    );
    let first = spoke.addon().await;
    assert_eq!(condition(&first, M)["reason"], "ForwardSuccessful");
    assert_eq!(condition(&first, M)["message"], "sent");

    let (code, said) = report(spoke, "platform", "ForwardSuccessful", &["--message=sent"]).await;
    assert_eq!(
        (code, said.as_str()),
        (
            Some(0),
            "the platform collector was ForwardSuccessful before\n"
        )
    );
    assert_eq!(
        version(&spoke.addon().await),
        version(&first),
        "nothing was written"
    );

    for held in [
        "UpdateFailure",
        "UpdateFailed",
        "DisabledMetrics",
        "NotSupported",
        "Foo",
    ] {
        let held_at = spoke
            .merge_status(&json!({ "conditions": [component(M, held)] }))
            .await;
        let (code, said) = report(spoke, "platform", "ForwardSuccessful", &[]).await;
        assert_eq!(code, Some(3), "{said}");
        assert_eq!(
            said,
            format!(
                "refused: the platform collector is held at {held}: the operator has to announce \
                 an update first\n"
            )
        );
        assert_eq!(version(&spoke.addon().await), version(&held_at));
    }

    spoke
        .merge_status(&json!({
            "conditions": [component(M, "UpdateSuccesful")],
            "rollouts": { "platform": "new" },
        }))
        .await;
    let (code, said) = report(spoke, "platform", "ForwardFailure", &["--rollout=old"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("rollout old"), "{said}");
    let (code, said) = report(spoke, "platform", "ForwardFailure", &["--uid=another"]).await;
    assert_eq!(code, Some(3), "{said}");
    let (code, said) = report(spoke, "platform", "ForwardFailure", &["--rollout=new"]).await;
    assert_eq!(code, Some(0), "{said}");

    let shown = run(spoke, &["show"]).await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("it should be Degraded"), "{shown}");
    assert!(
        shown.contains("ForwardFailure for 0s, which decides") || shown.contains("which decides"),
        "{shown}"
    );

    let (code, said) = report(spoke, "platform", "UpdateSuccessful", &[]).await;
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = report(spoke, "uwl", "ForwardSuccessful", &["--name=other"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("there is no ObservabilityAddon other"),
        "{said}"
    );
}

async fn writer(cluster: &Cluster) -> StatusWriter {
    let options = SeedOptions {
        kubeconfig: Some(cluster.kubeconfig()),
        // No limit.
        qps: -1.0,
        burst: 0,
        user_agent: "test".into(),
    };
    let seed = Seed::connect_as("spoke", &options).await.unwrap();
    let addon = AddonRef {
        namespace: NAMESPACE.into(),
        name: NAME.into(),
    };
    StatusWriter::new(seed.objects(), addon)
}

/// What could not be delivered, as on a machine that stands still for a while, is made again: that is
/// the rule for whoever writes.
async fn persist(
    mut attempt: impl AsyncFnMut() -> Result<Written, WriteError>,
) -> Result<Written, WriteError> {
    let mut written = attempt().await;
    for _ in 0..5 {
        if !matches!(written, Err(WriteError::Call(_))) {
            break;
        }
        written = attempt().await;
    }
    written
}

async fn settle(writer: &StatusWriter) {
    let settle = |status: &mut Status, now| {
        status.settle(now);
        Ok(())
    };
    persist(async || writer.write(None, settle).await)
        .await
        .unwrap();
}

fn word(component: Component, forward: Forward, message: String) -> Report {
    Report {
        component,
        forward,
        message,
        rollout: None,
    }
}

#[tokio::test]
async fn three_writers_on_one_status_lose_nothing_and_never_write_nonsense() {
    hammer(300).await;
}

#[tokio::test]
#[ignore = "minutes of hammering"]
async fn three_writers_who_write_ten_thousand_times_each_lose_nothing_either() {
    hammer(10_000).await;
}

/// Three writers and the aggregation, all at once, on one object, each so often: nobody's last word is
/// lost, and no state in between is wrong.
async fn hammer(writes: usize) {
    let stage = Alone::start().await;
    let history = stage.spoke.history().await;
    let mut tasks: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
    for component in Component::ALL {
        let mut reporter = Reporter::new(writer(&stage.spoke).await, None);
        tasks.push(Box::pin(async move {
            for round in 0..writes {
                let forward = if round % 3 == 0 {
                    Forward::Failure
                } else {
                    Forward::Successful
                };
                let word = word(component, forward, round.to_string());
                let said = persist(async || reporter.report(word.clone()).await).await;
                assert!(
                    matches!(said, Ok(_) | Err(WriteError::Refused(_))),
                    "{said:?}"
                );
            }
        }));
    }
    let operator = writer(&stage.spoke).await;
    tasks.push(Box::pin(async move {
        for round in 0..writes {
            let component = Component::ALL[round % 2];
            let reason = match round % 5 {
                0 => Reason::UpdateFailure,
                _ => Reason::UpdateSuccessful,
            };
            let update = Update {
                component,
                reason,
                message: round.to_string(),
                rollout: Some((round / 7).to_string()),
                replaced: false,
            };
            let change = |status: &mut Status, now| status.update(&update, now);
            let written = persist(async || operator.write(None, change).await).await;
            assert!(
                matches!(written, Ok(_) | Err(WriteError::Refused(_))),
                "{written:?}"
            );
        }
        for component in Component::ALL {
            let last = Update {
                component,
                reason: Reason::UpdateSuccessful,
                message: "the last".into(),
                rollout: Some("last".into()),
                replaced: true,
            };
            let change = |status: &mut Status, now| status.update(&last, now);
            persist(async || operator.write(None, change).await)
                .await
                .unwrap();
        }
    }));
    let settler = writer(&stage.spoke).await;
    tasks.push(Box::pin(async move {
        for _ in 0..writes {
            settle(&settler).await;
        }
    }));
    join_all(tasks).await;

    // The collectors speak last, and it ends in the aggregate of that.
    let end = writer(&stage.spoke).await;
    for component in Component::ALL {
        let mut reporter = Reporter::new(end.clone(), None);
        let word = word(component, Forward::Successful, "end".into());
        persist(async || reporter.report(word.clone()).await)
            .await
            .unwrap();
    }
    settle(&end).await;
    let last = stage.spoke.until("Available").await;
    history.until_seen(&last).await;
    for kind in [M, U] {
        assert_eq!(condition(&last, kind)["message"], "end");
    }
    for state in history.states() {
        assert_valid(&state);
    }
    println!("{} states were seen", history.states().len());
}

#[tokio::test]
async fn what_could_not_be_delivered_is_kept_and_only_the_newest_word_counts() {
    let mut stage = Alone::start().await;
    let mut reporter = Reporter::new(writer(&stage.spoke).await, None);
    stage.spoke.api.go_down();
    for message in ["first", "second"] {
        let said = reporter
            .report(word(Component::Platform, Forward::Failure, message.into()))
            .await;
        assert!(matches!(said, Err(WriteError::Call(_))), "{said:?}");
    }
    assert_eq!(reporter.undelivered().unwrap().message, "second");
    stage.spoke.api.come_back().await.unwrap();
    assert_eq!(reporter.deliver().await, Ok(Written::Changed));
    assert_eq!(reporter.undelivered(), None);
    assert_eq!(reporter.deliver().await, Ok(Written::Unchanged));
    let addon = stage.spoke.addon().await;
    assert_eq!(condition(&addon, M)["message"], "second");
}
