//! One run of chaos, from the first second to the last.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::LEASES;
use kelpie_sim::{Clock, Damage, Happening, Landscape, Order, Process, What};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::auditor::Auditor;
use crate::chaos::Chaos;
use crate::crew::prober;

/// Everything has to be as before by then.
const QUIET: Duration = Duration::from_mins(8);

/// Probes of clusters that are gone have ended by then.
const FAREWELL: Duration = Duration::from_mins(1);

/// What came of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The last lines of the trace.
    pub(crate) trace: Vec<String>,
    /// Of all of them.
    pub(crate) digest: u64,
    pub(crate) lines: usize,
    /// What must not be so, in the order it was found.
    pub(crate) wrong: Vec<String>,
    /// Partitions that were held against their deadline, and fences.
    pub(crate) held: usize,
    pub(crate) fences: usize,
    /// Of them those of kube-controller-manager.
    pub(crate) stops: usize,
    pub(crate) damage: Damage,
}

/// All that happened, as lines.
#[derive(Default)]
struct Trace {
    last: VecDeque<String>,
    digest: DefaultHasher,
    lines: usize,
}

impl Trace {
    fn add(&mut self, line: String) {
        const KEPT: usize = 5_000;
        line.hash(&mut self.digest);
        self.lines += 1;
        self.last.push_back(line);
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }
}

/// Runs it in virtual time, on this thread.
pub(crate) fn run(chaos: &Chaos) -> Outcome {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play(chaos))
}

async fn play(chaos: &Chaos) -> Outcome {
    fastrand::seed(chaos.plan.seed);
    let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::inside(&chaos.plan, &clock).unwrap();
    let trace = Arc::new(Mutex::new(Trace::default()));
    let auditor = Arc::new(Mutex::new(Auditor::new(&landscape, chaos)));
    let called = Arc::new(Notify::new());
    let is_shown = std::env::var_os("KELPIE_SIM_TRACE").is_some();
    landscape.observe({
        let (trace, auditor, called) = (trace.clone(), auditor.clone(), called.clone());
        move |happening: &Happening| {
            if is_shown {
                println!("{happening}");
            }
            trace.lock().unwrap().add(happening.to_string());
            auditor.lock().unwrap().see(happening);
            if !matches!(happening.what, What::Call { .. }) {
                called.notify_one();
            }
        }
    });
    let driving = landscape.clone();
    let driver = tokio::spawn(async move { driving.run().await });
    let mut crew = Crew::new(&landscape, chaos.watchdogs);
    landscape.play(&chaos.scenario);
    let end = sleep(chaos.scenario.length + QUIET);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = called.notified() => crew.follow(&landscape),
            () = &mut end => break,
        }
    }
    auditor.lock().unwrap().close();
    let damage = landscape.damage();
    crew.check_memory(&landscape, &auditor).await;
    crew.end().await;
    driver.abort();
    // The observer holds the landscape through the auditor.
    landscape.observe(|_| {});
    let trace = std::mem::take(&mut *trace.lock().unwrap());
    let auditor = auditor.lock().unwrap();
    Outcome {
        digest: trace.digest.finish(),
        lines: trace.lines,
        trace: trace.last.into(),
        wrong: auditor.wrong.clone(),
        held: auditor.held,
        fences: auditor.fences,
        stops: auditor.stops,
        damage,
    }
}

/// The replicas of the watchdog, and who looks after them.
struct Crew {
    watchdogs: Vec<Process<Registry>>,
    /// How many there should be.
    count: usize,
    /// Names, the first that was paused first.
    paused: VecDeque<String>,
    started: usize,
    elected: bool,
}

impl Crew {
    fn new(landscape: &Landscape, count: usize) -> Self {
        let mut crew = Self {
            watchdogs: Vec::new(),
            count,
            paused: VecDeque::new(),
            started: 0,
            elected: count > 1,
        };
        (0..count).for_each(|_| crew.start(landscape));
        crew
    }

    fn start(&mut self, landscape: &Landscape) {
        // One that was to crash may not have been there.
        if self.watchdogs.len() >= self.count {
            return;
        }
        let name = format!("kelpie-{}", self.started);
        self.started += 1;
        let watchdog = prober(landscape, &name, self.elected);
        self.watchdogs.push(watchdog);
    }

    /// Does what the script says.
    fn follow(&mut self, landscape: &Landscape) {
        for order in landscape.take_orders() {
            match order {
                Order::Start => self.start(landscape),
                Order::Crash => {
                    if let Some(leader) = self.leader(landscape) {
                        self.watchdogs.remove(leader).crash();
                    }
                }
                Order::Pause => {
                    if let Some(leader) = self.leader(landscape) {
                        let leader = &self.watchdogs[leader];
                        leader.pause();
                        self.paused.push_back(leader.name().to_owned());
                    }
                }
                Order::Resume => {
                    let paused = self.paused.pop_front();
                    for watchdog in &self.watchdogs {
                        if Some(watchdog.name()) == paused.as_deref() {
                            watchdog.resume();
                        }
                    }
                }
            }
        }
    }

    /// Who leads, by the Lease; else the first.
    fn leader(&self, landscape: &Landscape) -> Option<usize> {
        let holder = holder(landscape);
        let is_it = |watchdog: &Process<_>| Some(watchdog.name()) == holder.as_deref();
        let leader = self.watchdogs.iter().position(is_it);
        leader.or_else(|| (!self.watchdogs.is_empty()).then_some(0))
    }

    /// Nothing is left of clusters that are gone.
    async fn check_memory(&self, landscape: &Landscape, auditor: &Mutex<Auditor>) {
        for row in landscape.fleet() {
            landscape.forget(&row.cluster);
        }
        sleep(FAREWELL).await;
        for watchdog in &self.watchdogs {
            let mut text = String::new();
            encode(&mut text, &watchdog.shows).unwrap();
            let left = text.lines().filter(|line| {
                line.contains("shoot--")
                    || line.starts_with("kelpie_prober_active_probes ") && !line.ends_with(" 0")
            });
            for line in left {
                let wrong = format!("left of clusters that are gone: {line}");
                auditor.lock().unwrap().wrong.push(wrong);
            }
        }
    }

    async fn end(self) {
        for watchdog in self.watchdogs {
            watchdog.end().await.unwrap();
        }
    }
}

/// Who leads, by the Lease.
pub(crate) fn holder(landscape: &Landscape) -> Option<String> {
    let seed = landscape.seed();
    let lease = seed
        .store()
        .get(&LEASES, "garden", "dwd-prober-leader-election");
    Some(lease.ok()?["spec"]["holderIdentity"].as_str()?.to_owned())
}
