//! The log: changes and summaries, never a line per probe.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use kelpie_health::{Group, Reason};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::stage::{Actor, bad, get, health, millis, serve};

/// Keeps what is logged, one string an event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("kelpie_health")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Log {
    /// What this thread says, until the guard is dropped. Somebody listens to the others as well: a
    /// line that a test beside this one says first would else be taken for one that nobody wants.
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
async fn a_minute_of_trouble_is_three_lines() {
    let (log, _guard) = Log::of_this_thread();
    let failures = std::iter::repeat_n((millis(0), bad("no leader")), 65);
    let actor = Actor::new(failures.chain([(millis(0), Ok(()))]));
    let (health, _) = health(|checks| {
        checks.readyz("read_index", actor);
        checks.readyz("other", Actor::says(Ok(())));
    });
    for _ in 0..70 {
        health.probe(Group::Readyz).await;
        sleep(millis(1_000)).await;
    }
    assert_eq!(
        log.take(),
        [
            "WARN message=health check failed group=readyz check=read_index reason=no leader",
            "WARN message=health checks failed group=readyz answers=61 failed=61 \
             failing=\"read_index: no leader\" untold=0",
            "INFO message=health check is ok again group=readyz check=read_index after=65s",
        ]
    );
}

#[tokio::test]
async fn an_unknown_exclude_is_told_in_one_line_whatever_its_name() {
    let (log, _guard) = Log::of_this_thread();
    let (health, _) = health(|checks| {
        checks.readyz("a", Actor::says(Ok(())));
    });
    let address = serve(health).await;
    let forged = "/readyz?exclude=x%0AINFO+all+is+well&exclude=&exclude=a&exclude=y";
    assert_eq!(get(address, forged).await.0, 200);
    assert_eq!(
        log.take(),
        [
            "WARN message=a probe excludes a check that is unknown group=readyz \
             name=x INFO all is well untold=0"
        ]
    );
    assert_eq!(get(address, "/readyz/a?exclude=nobody").await.0, 200);
    assert_eq!(log.take(), <[&str; 0]>::default());
}

#[test]
fn reasons_are_taken_from_errors() {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(Reason::of(error).as_str(), "connection refused");
}
