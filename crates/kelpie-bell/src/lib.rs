//! A value, and a bell that rings when it changes.
//!
//! It does what tokio's `watch` does. That one wakes who listens in an order by the roll of dice; this one
//! in the order in which they began to wait, so that the same seed gives the same trace.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Rings. Clones are the same bell.
#[derive(Clone, Debug, Default)]
pub struct Bell<T>(Arc<Tower<T>>);

/// Hears one bell.
#[derive(Clone, Debug)]
pub struct Listener<T> {
    tower: Arc<Tower<T>>,
    /// Rings up to this one were heard.
    heard: u64,
}

#[derive(Debug, Default)]
struct Tower<T> {
    state: Mutex<State<T>>,
    rung: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct State<T> {
    value: T,
    rings: u64,
}

impl<T: Copy> Bell<T> {
    /// A bell that has not rung yet.
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, rings: 0 });
        let rung = Notify::new();
        Self(Arc::new(Tower { state, rung }))
    }

    /// From now on it is this value.
    pub fn ring(&self, value: T) {
        {
            let mut state = self.0.lock();
            state.value = value;
            state.rings += 1;
        }
        self.0.rung.notify_waiters();
    }

    /// The same, but nobody hears of it: who looks, sees it.
    pub fn set(&self, value: T) {
        self.0.lock().value = value;
    }

    /// The value.
    pub fn value(&self) -> T {
        self.0.lock().value
    }

    /// Hears what rings from now on.
    pub fn listen(&self) -> Listener<T> {
        Listener {
            tower: Arc::clone(&self.0),
            heard: self.0.lock().rings,
        }
    }

    /// Whether anybody listens to a bell that has no clones.
    pub fn has_listeners(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T: Copy> Listener<T> {
    /// The value; a ring that was not heard will be.
    pub fn peek(&self) -> T {
        self.tower.lock().value
    }

    /// The value; rings before this are heard.
    pub fn value(&mut self) -> T {
        let State { value, rings } = *self.tower.lock();
        self.heard = rings;
        value
    }

    /// Until it rings, if it has not since this listener last heard.
    pub async fn heard(&mut self) {
        loop {
            let mut rung = pin!(self.tower.rung.notified());
            // Before the look: a ring after it is heard.
            rung.as_mut().enable();
            let rings = self.tower.lock().rings;
            if rings != self.heard {
                self.heard = rings;
                return;
            }
            rung.await;
        }
    }

    /// Until the value is such.
    pub async fn until(&mut self, is_such: impl Fn(T) -> bool) -> T {
        loop {
            let value = self.value();
            if is_such(value) {
                return value;
            }
            self.heard().await;
        }
    }
}

impl<T> Tower<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_in_the_order_in_which_they_began_to() {
        let bell = Bell::new(0);
        let (sender, mut order) = mpsc::unbounded_channel();
        for number in 0..20 {
            let (mut listener, sender) = (bell.listen(), sender.clone());
            tokio::spawn(async move {
                listener.heard().await;
                sender.send((number, listener.value())).unwrap();
            });
        }
        drop(sender);
        tokio::task::yield_now().await;
        bell.ring(7);
        for number in 0..20 {
            assert_eq!(order.recv().await, Some((number, 7)));
        }
    }

    #[tokio::test]
    async fn what_rang_before_somebody_waits_is_heard_once() {
        let bell = Bell::new(1);
        let mut listener = bell.listen();
        bell.ring(2);
        bell.ring(3);
        listener.heard().await;
        assert_eq!(listener.until(|value| value > 1).await, 3);
        let again = tokio::time::timeout(std::time::Duration::ZERO, listener.heard()).await;
        assert!(again.is_err());
        assert!(bell.has_listeners());
        drop(listener);
        assert!(!bell.has_listeners());
    }

    #[tokio::test]
    async fn what_is_set_is_seen_and_not_heard() {
        let bell = Bell::new(1);
        let mut listener = bell.listen();
        bell.set(2);
        assert_eq!((bell.value(), listener.peek()), (2, 2));
        let heard = tokio::time::timeout(std::time::Duration::ZERO, listener.heard()).await;
        assert!(heard.is_err());
    }
}
