//! The log has changes and summaries, and never a line per probe.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use kelpie_health::{CheckGroup, FailureReason};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::fixture::{ScriptedCheck, failed, get, health, millis, serve};

/// Collects the events of this crate as strings.
#[derive(Clone, Default)]
struct EventCollector(Arc<Mutex<Vec<String>>>);

struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for EventCollector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("kelpie_health")
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = EventText(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl EventCollector {
    /// Collects the events of this thread until the guard is dropped.
    ///
    /// A global subscriber is set as well. Without one, tracing would disable a callsite for good
    /// if another test reached it first on a thread without a subscriber.
    fn of_this_thread() -> (Self, DefaultGuard) {
        let _ = tracing::subscriber::set_global_default(Self::default());
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn failing_minute_logs_three_lines() {
    let (log, _guard) = EventCollector::of_this_thread();
    let failures = std::iter::repeat_n((millis(0), failed("no leader")), 65);
    let check = ScriptedCheck::new(failures.chain([(millis(0), Ok(()))]));
    let (health, _) = health(|checks| {
        checks.readyz("read_index", check);
        checks.readyz("other", ScriptedCheck::returning(Ok(())));
    });
    for _ in 0..70 {
        health.probe(CheckGroup::Readyz).await;
        sleep(millis(1_000)).await;
    }
    assert_eq!(
        log.take(),
        [
            "WARN message=health check failed group=readyz check=read_index reason=no leader",
            "WARN message=health checks failed in the last minute group=readyz probes=61 failed=61 \
             failing=\"read_index: no leader\" suppressed=0",
            "INFO message=health check recovered group=readyz check=read_index after=65s",
        ]
    );
}

#[tokio::test]
async fn unknown_exclude_logs_one_line() {
    let (log, _guard) = EventCollector::of_this_thread();
    let (health, _) = health(|checks| {
        checks.readyz("a", ScriptedCheck::returning(Ok(())));
    });
    let address = serve(health).await;
    let forged = "/readyz?exclude=x%0AINFO+all+is+well&exclude=&exclude=a&exclude=y";
    assert_eq!(get(address, forged).await.0, 200);
    assert_eq!(
        log.take(),
        [
            "WARN message=probe excludes an unknown check; fix the name in ?exclude= group=readyz \
             name=x INFO all is well suppressed=0"
        ]
    );
    assert_eq!(get(address, "/readyz/a?exclude=nobody").await.0, 200);
    assert_eq!(log.take(), <[&str; 0]>::default());
}

#[test]
fn reasons_are_taken_from_errors() {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(FailureReason::of(error).as_str(), "connection refused");
}
