//! Live updates by server-sent events.
//!
//! One task renders the fleet for all pages together, and only while a page is open. It asks the
//! source whether anything has changed; nothing is ever asked of a probe. A page that does not
//! read its events in time is cut off: it reconnects by itself and begins with the whole fleet.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use kelpie_core::prober::overview::FleetState;
use parking_lot::Mutex;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use crate::FleetSource;
use crate::fleet_change::FleetChange;

/// The most pages that are kept up to date. The server has connections for these and for others.
const MAX_PAGES: usize = 32;
/// Changes of a condition are sent this often at most.
const TICK: Duration = Duration::from_millis(250);
/// Changes that leave the condition alone are sent every so many ticks.
const FULL_TICKS: u32 = 8;
/// A page hears something every so many ticks, by which it knows that it is not stale.
const BEAT_TICKS: u32 = 12;
/// A page that falls behind by this many events is cut off.
const BACKLOG: usize = 16;

/// Keeps pages up to date. Clones share the pages.
#[derive(Clone)]
pub(crate) struct EventHub {
    source: Arc<dyn FleetSource>,
    /// `None` while no page is open.
    running: Arc<Mutex<Option<Running>>>,
}

struct Running {
    sender: Sender<Arc<str>>,
    /// The fleet as the pages know it.
    shown: FleetState,
}

impl EventHub {
    pub(crate) fn new(source: Arc<dyn FleetSource>) -> Self {
        Self {
            source,
            running: Arc::default(),
        }
    }

    /// Responds with the whole fleet, and then with its changes.
    pub(crate) fn subscribe(&self) -> Response {
        let mut running = self.running.lock();
        let running = running.get_or_insert_with(|| {
            tokio::spawn(self.clone().run());
            Running {
                sender: Sender::new(BACKLOG),
                shown: self.source.fleet(),
            }
        });
        if running.sender.receiver_count() >= MAX_PAGES {
            let retry = [(RETRY_AFTER, "10")];
            let text = "too many pages are open; close one\n";
            return (StatusCode::SERVICE_UNAVAILABLE, retry, text).into_response();
        }
        let receiver = running.sender.subscribe();
        let first = json(&running.shown);
        Sse::new(events(first, receiver)).into_response()
    }

    async fn run(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut since_full, mut since_beat) = (0, 0);
        let mut changes = None;
        loop {
            ticks.tick().await;
            (since_full, since_beat) = (since_full + 1, since_beat + 1);
            let newest = Some(self.source.changes());
            if newest == changes && since_full < FULL_TICKS {
                if !self.has_pages() {
                    return;
                }
                continue;
            }
            (changes, since_full) = (newest, 0);
            // Rendered without the lock, so that a new page waits only for the comparison.
            let fleet = self.source.fleet();
            let mut running = self.running.lock();
            let Some(shared) = &mut *running else {
                return;
            };
            if shared.sender.receiver_count() == 0 {
                *running = None;
                return;
            }
            let change = FleetChange::between(&shared.shown, &fleet);
            if !change.is_empty() || since_beat >= BEAT_TICKS {
                since_beat = 0;
                let _ = shared.sender.send(json(&change));
                shared.shown = fleet;
            }
        }
    }

    /// Returns whether a page is open. Otherwise the task that asks has to end.
    fn has_pages(&self) -> bool {
        let mut running = self.running.lock();
        let has_pages = running
            .as_ref()
            .is_some_and(|running| running.sender.receiver_count() > 0);
        if !has_pages {
            *running = None;
        }
        has_pages
    }
}

fn json(value: &impl serde::Serialize) -> Arc<str> {
    // Values with string keys and finite numbers always serialize.
    serde_json::to_string(value).unwrap_or_default().into()
}

/// Returns the events of one page. They end when it falls behind.
fn events(
    first: Arc<str>,
    receiver: Receiver<Arc<str>>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let changes = stream::unfold(receiver, |mut receiver| async move {
        let text = receiver.recv().await.ok()?;
        Some((event("change", &text), receiver))
    });
    let first = stream::once(async move { event("fleet", &first) });
    first.chain(changes).map(Ok)
}

fn event(name: &str, json: &str) -> Event {
    Event::default().event(name).data(json)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use axum::body::{Body, BodyDataStream};
    use kelpie_core::Time;
    use kelpie_core::prober::overview::{
        ClusterCondition, ClusterSummary, FleetDay, ReplicaInfo, ReplicaPart,
    };
    use tokio::time::{sleep, timeout};

    use super::*;

    /// A fleet of healthy clusters.
    pub(crate) fn fleet(count: usize) -> FleetState {
        let at = Time::from_micros(0);
        let clusters = (0..count).map(|number| ClusterSummary {
            id: format!("c{number}"),
            condition: ClusterCondition::Healthy,
            since: at,
            sentence: "All 5 nodes renew their leases.".to_owned(),
            nodes: 5,
            silent: 0,
            not_counted: 0,
            deadline: None,
            margin_seconds: None,
            last_fence: None,
            problem: None,
        });
        let clusters: Vec<_> = clusters.collect();
        FleetState {
            replica: ReplicaInfo {
                at,
                identity: "a".to_owned(),
                version: "0".to_owned(),
                part: ReplicaPart::Leader,
                leader: None,
                pause: kelpie_core::PauseSwitch::Off,
                waiting: None,
                shard: None,
            },
            fleet: clusters.iter().map(|cluster| cluster.condition).collect(),
            shared_causes: Vec::new(),
            day: FleetDay::new(at),
            clusters,
        }
    }

    struct Source {
        fleet: Mutex<FleetState>,
        changes: AtomicU64,
        renderings: AtomicU64,
    }

    impl FleetSource for Source {
        fn fleet(&self) -> FleetState {
            self.renderings.fetch_add(1, Ordering::Relaxed);
            self.fleet.lock().clone()
        }

        fn changes(&self) -> u64 {
            self.changes.load(Ordering::Relaxed)
        }
    }

    impl Source {
        fn fence(&self, cluster: usize) {
            self.fleet.lock().clusters[cluster].condition = ClusterCondition::Fenced;
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn hub() -> (Arc<Source>, EventHub) {
        let source = Arc::new(Source {
            fleet: Mutex::new(fleet(3)),
            changes: AtomicU64::new(0),
            renderings: AtomicU64::new(0),
        });
        (Arc::clone(&source), EventHub::new(source))
    }

    fn open(hub: &EventHub) -> BodyDataStream {
        Body::into_data_stream(hub.subscribe().into_body())
    }

    async fn next(page: &mut BodyDataStream) -> Option<String> {
        let chunk = timeout(Duration::from_secs(10), page.next())
            .await
            .unwrap()?;
        Some(String::from_utf8(chunk.unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn page_gets_the_fleet_and_then_its_changes() {
        let (source, hub) = hub();
        let mut page = open(&hub);
        let first = next(&mut page).await.unwrap();
        assert!(first.starts_with("event: fleet\ndata: {"), "{first}");
        assert!(first.contains("\"c2\""));
        source.fence(1);
        let started = tokio::time::Instant::now();
        let change = next(&mut page).await.unwrap();
        assert!(started.elapsed() <= 2 * TICK);
        assert!(change.starts_with("event: change\n"), "{change}");
        assert!(
            change.contains("\"id\":\"c1\",\"condition\":\"fenced\""),
            "{change}"
        );
        assert!(!change.contains("\"c2\""), "{change}");
        let beat = next(&mut page).await.unwrap();
        assert!(beat.contains("\"changed\":[]"), "{beat}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_pages_cost_one_rendering() {
        let (source, hub) = hub();
        let mut pages: Vec<_> = (0..20).map(|_| open(&hub)).collect();
        for page in &mut pages {
            next(page).await.unwrap();
        }
        sleep(TICK * 2).await;
        let before = source.renderings.load(Ordering::Relaxed);
        source.fence(0);
        for page in &mut pages {
            next(page).await.unwrap();
        }
        assert_eq!(source.renderings.load(Ordering::Relaxed), before + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_rendered_without_a_page() {
        let (source, hub) = hub();
        let mut page = open(&hub);
        next(&mut page).await.unwrap();
        drop(page);
        sleep(Duration::from_secs(5)).await;
        let before = source.renderings.load(Ordering::Relaxed);
        sleep(Duration::from_mins(1)).await;
        assert_eq!(source.renderings.load(Ordering::Relaxed), before);
        assert!(hub.running.lock().is_none());
        // The next page starts over.
        source.fence(2);
        let first = next(&mut open(&hub)).await.unwrap();
        assert!(
            first.contains("\"id\":\"c2\",\"condition\":\"fenced\""),
            "{first}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_page_is_cut_off_and_others_go_on() {
        let (source, hub) = hub();
        let (mut slow, mut other) = (open(&hub), open(&hub));
        next(&mut other).await.unwrap();
        for round in 0..u64::try_from(BACKLOG).unwrap() + 5 {
            source.fleet.lock().clusters[0].sentence = format!("round {round}");
            source.changes.fetch_add(1, Ordering::Relaxed);
            next(&mut other).await.unwrap();
        }
        assert!(next(&mut slow).await.unwrap().starts_with("event: fleet"));
        assert_eq!(next(&mut slow).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_limited() {
        let (_, hub) = hub();
        let pages: Vec<_> = (0..MAX_PAGES).map(|_| open(&hub)).collect();
        assert_eq!(hub.subscribe().status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(pages);
        assert_eq!(hub.subscribe().status(), StatusCode::OK);
    }
}
