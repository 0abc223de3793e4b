//! The calls behind the checks: each is made once for all who need it at the moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kelpie_health::{Builder, Shared};
use tokio::time::{Instant, sleep, timeout};

use crate::defrag::{Defrag, Watch};
use crate::freeze::Freeze;
use crate::read_index::{self, Reading};
use crate::trouble::Trouble;
use crate::{Fault, Member, Options, Sample, Serving, Status};

/// The longest [`Calls::glance`].
const GLANCE: Duration = Duration::from_millis(100);

/// Between two looks at the metrics while a call is out.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A look that is no older answers for now.
const FRESH_LOOK: Duration = Duration::from_millis(100);

/// What a look says of the present is forgotten after this.
const LOOK_LASTS: Duration = Duration::from_secs(2);

type Outcome<T> = Shared<Result<T, Fault>>;

/// The shared calls to one member, and what their answers say over time.
pub(crate) struct Calls {
    pub(crate) member: Arc<dyn Member>,
    pub(crate) read: Outcome<()>,
    pub(crate) status: Outcome<Status>,
    pub(crate) ping: Outcome<Serving>,
    pub(crate) metrics: Outcome<Sample>,
    pub(crate) read_index: Shared<Reading>,
    pub(crate) freeze: Arc<Mutex<Freeze>>,
    /// The readyz deadline: whoever gets a run of its own gets calls of its own.
    pub(crate) fresh: Duration,
    /// Nearly every call is over in this time; only what takes longer is looked into.
    pub(crate) glance: Duration,
    detects_defrag: bool,
    trouble: Trouble,
}

impl Calls {
    pub(crate) fn new(
        member: &Arc<dyn Member>,
        options: &Options,
        trouble: &Trouble,
        builder: &mut Builder,
    ) -> Arc<Self> {
        let freeze: Arc<Mutex<Freeze>> = Arc::default();
        let deadlines = &options.health;
        let (readyz, livez) = (deadlines.readyz_deadline, deadlines.livez_deadline);

        let call = Arc::clone(member);
        let noted = trouble.clone();
        let read = builder.shared("call-range", move || {
            let (reading, noted) = (call.serializable_read(), noted.clone());
            async move {
                let read = reading.await;
                noted.note("range", &read);
                read
            }
        });

        let call = Arc::clone(member);
        let (noted, seen) = (trouble.clone(), Arc::clone(&freeze));
        let status = builder.shared("call-status", move || {
            let (asking, noted, seen) = (call.status(), noted.clone(), Arc::clone(&seen));
            async move {
                let status = asking.await;
                noted.note("status", &status);
                match &status {
                    Ok(status) => locked(&seen).status(Instant::now(), status),
                    Err(Fault::Refused | Fault::Broken(_)) => locked(&seen).forget(),
                    Err(_) => {}
                }
                status
            }
        });

        let call = Arc::clone(member);
        let ping = builder.shared("call-health", move || call.ping());

        let call = Arc::clone(member);
        let noted = trouble.clone();
        // Late for a readyz answer is too late.
        let limit = readyz.min(livez) * 2 / 3;
        let metrics = builder.shared("call-metrics", move || {
            let (asking, noted) = (call.metrics(), noted.clone());
            async move {
                let page = timeout(limit, asking).await.unwrap_or(Err(Fault::Silent));
                noted.note("metrics", &page);
                if page.is_ok() {
                    noted.listener_answered();
                }
                page
            }
        });

        let asked = read_index::Call {
            member: Arc::clone(member),
            status: status.clone(),
            metrics: metrics.clone(),
            freeze: Arc::clone(&freeze),
            memory: Arc::default(),
            fresh: readyz,
            detects_defrag: options.defrag_detection,
        };
        let read_index = builder.shared("call-read-index", move || asked.clone().make());

        Arc::new(Self {
            member: Arc::clone(member),
            read,
            status,
            ping,
            metrics,
            read_index,
            freeze,
            fresh: readyz,
            // A short deadline leaves less time to wonder.
            glance: GLANCE.min(readyz.min(livez) / 5),
            detects_defrag: options.defrag_detection,
            trouble: trouble.clone(),
        })
    }

    /// The result of a call, or none once a defragmentation is seen to run meanwhile.
    pub(crate) async fn unless_defrag<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut watch = self.watch();
        tokio::select! {
            biased;
            result = call => Some(result),
            () = self.look_until_defrag(&mut watch) => None,
        }
    }

    /// Ends when a defragmentation is seen; the first look is after a glance, since nearly every
    /// call is over before.
    pub(crate) async fn look_until_defrag(&self, watch: &mut Watch) {
        sleep(self.glance).await;
        while self.look(watch).await != Defrag::Running {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Looks once.
    pub(crate) async fn look(&self, watch: &mut Watch) -> Defrag {
        if !self.detects_defrag {
            let nothing = Sample {
                defrag_inflight: Some(false),
                ..Sample::default()
            };
            watch.look(Some(&nothing), None);
            return Defrag::Idle;
        }
        let page = self.page(FRESH_LOOK).await;
        let told = page.as_ref().and_then(|page| page.defrag_inflight);
        // Where the metrics tell, nobody else needs to be asked.
        let ping = match told {
            Some(_) => None,
            None => self.ping.get(FRESH_LOOK).await.ok(),
        };
        self.note_listener(ping.as_ref());
        watch.look(page.as_ref(), ping.as_ref());
        watch.verdict()
    }

    /// The page was just wanted, and etcd asked because the page did not tell: a listener named by
    /// flag that alone is silent is trouble of our own.
    pub(crate) fn note_listener(&self, ping: Option<&Result<Serving, Fault>>) {
        let answers =
            |ping: &Result<_, Fault>| ping.as_ref().map_or_else(Fault::is_answer, |_| true);
        if self.member.has_own_metrics_listener()
            && let Some((Ok(page), _)) = self.metrics.last()
        {
            self.trouble.note_listener(&page, ping.is_some_and(answers));
        }
    }

    /// The member's metrics page, if it can be had.
    pub(crate) async fn page(&self, fresh: Duration) -> Option<Sample> {
        self.metrics.get(fresh).await.ok()?.ok()
    }

    pub(crate) fn watch(&self) -> Watch {
        let last = self.metrics.last().and_then(|(page, _)| page.ok()?.ok());
        Watch::new(last.as_ref())
    }

    /// From memory: a defragmentation was running a moment ago.
    pub(crate) fn was_defragmenting(&self) -> bool {
        let recent = |age: Duration| age < LOOK_LASTS;
        let page = self.metrics.last().filter(|(_, age)| recent(*age));
        let page = page.and_then(|(page, _)| page.ok()?.ok());
        let ping = self.ping.last().filter(|(_, age)| recent(*age));
        let ping = ping.and_then(|(ping, _)| ping.ok());
        self.detects_defrag && Defrag::seen(page.as_ref(), ping.as_ref()) == Defrag::Running
    }

    pub(crate) fn frozen_for(&self, now: Instant) -> Option<Duration> {
        locked(&self.freeze).frozen_for(now)
    }
}

/// A panic elsewhere leaves it whole: every change is a few assignments.
pub(crate) fn locked<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
