//! What a check is.

use std::time::Duration;

use crate::{Reason, Shared};

/// What one run of a check found.
pub type Verdict = Result<(), Reason>;

/// One thing that must hold. A closure that returns a future of a [`Verdict`] is one too.
pub trait Check: Send + Sync + 'static {
    /// Looks once. It must not block its thread. It needs no deadline of its own: whoever waits
    /// leaves at theirs, and the run is dropped after [`crate::Settings::run_limit`].
    fn run(&self) -> impl Future<Output = Verdict> + Send;

    /// True while the last result stays good however old it is: the check knows why its run cannot
    /// end, and that this says nothing new. Asked when a readyz answer is due and the run is out.
    fn holds(&self) -> bool {
        false
    }

    /// Ends when it is seen that the run cannot end for now and its last result [holds](Check::holds):
    /// a readyz answer does not wait for the deadline then. Asked while a run is out.
    fn held(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// The same check, which [holds](Check::holds) while this is true.
    fn held_while<H>(self, holds: H) -> Held<Self, H>
    where
        Self: Sized,
        H: Fn() -> bool + Send + Sync + 'static,
    {
        Held { check: self, holds }
    }
}

impl<F, Looking> Check for F
where
    F: Fn() -> Looking + Send + Sync + 'static,
    Looking: Future<Output = Verdict> + Send,
{
    fn run(&self) -> impl Future<Output = Verdict> + Send {
        self()
    }
}

/// A check that says when its last result stays good; see [`Check::held_while`].
#[derive(Clone, Debug)]
pub struct Held<C, H> {
    check: C,
    holds: H,
}

impl<C: Check, H: Fn() -> bool + Send + Sync + 'static> Check for Held<C, H> {
    async fn run(&self) -> Verdict {
        self.check.run().await
    }

    fn holds(&self) -> bool {
        (self.holds)()
    }

    async fn held(&self) {
        self.check.held().await;
    }
}

/// A check that judges the result of a shared call; see [`Shared::check`].
pub struct Judged<T, J> {
    pub(crate) call: Shared<T>,
    pub(crate) fresh: Duration,
    pub(crate) judge: J,
}

impl<T, J> Check for Judged<T, J>
where
    T: Clone + Send + Sync + 'static,
    J: Fn(&T) -> Verdict + Send + Sync + 'static,
{
    async fn run(&self) -> Verdict {
        let result = self.call.get(self.fresh).await;
        (self.judge)(&result.map_err(Reason::of)?)
    }
}
