//! A watch channel that wakes its receivers in FIFO order.
//!
//! It does what `tokio::sync::watch` does and uses the same names. Tokio's channel wakes receivers
//! in a random order; this one wakes them in the order in which they began to wait, so that a
//! simulated run repeats exactly.

use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Sends values to all receivers. Clones send on the same channel.
#[derive(Clone, Debug, Default)]
pub struct Sender<T>(Arc<Channel<T>>);

/// Receives the latest value of one channel.
#[derive(Clone, Debug)]
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    /// Sends up to this one were seen.
    seen: u64,
}

#[derive(Debug, Default)]
struct Channel<T> {
    latest: Mutex<Latest<T>>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest<T> {
    value: T,
    /// The number of values sent.
    sends: u64,
}

impl<T: Copy> Sender<T> {
    /// Creates a channel with an initial value that counts as seen.
    pub fn new(value: T) -> Self {
        let latest = Mutex::new(Latest { value, sends: 0 });
        let changed = Notify::new();
        Self(Arc::new(Channel { latest, changed }))
    }

    /// Replaces the value and wakes every receiver.
    pub fn send(&self, value: T) {
        {
            let mut latest = self.0.latest.lock();
            latest.value = value;
            latest.sends += 1;
        }
        self.0.changed.notify_waiters();
    }

    /// Replaces the value without waking receivers. They see it at their next read.
    pub fn send_silently(&self, value: T) {
        self.0.latest.lock().value = value;
    }

    /// Returns the latest value.
    pub fn borrow(&self) -> T {
        self.0.latest.lock().value
    }

    /// Creates a receiver that has seen everything sent so far.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            channel: Arc::clone(&self.0),
            seen: self.0.latest.lock().sends,
        }
    }

    /// Returns whether there are receivers. Clones of the sender count as receivers.
    pub fn has_receivers(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T: Copy> Receiver<T> {
    /// Returns the latest value without marking it as seen.
    pub fn borrow(&self) -> T {
        self.channel.latest.lock().value
    }

    /// Returns the latest value and marks it as seen.
    pub fn borrow_and_update(&mut self) -> T {
        let Latest { value, sends } = *self.channel.latest.lock();
        self.seen = sends;
        value
    }

    /// Waits until a value was sent that this receiver has not seen, and marks it as seen.
    pub async fn changed(&mut self) {
        loop {
            let mut changed = pin!(self.channel.changed.notified());
            // Registered before the check, so that a send in between is not missed.
            changed.as_mut().enable();
            let sends = self.channel.latest.lock().sends;
            if sends != self.seen {
                self.seen = sends;
                return;
            }
            changed.await;
        }
    }

    /// Waits until the value satisfies the condition, and returns it.
    pub async fn wait_for(&mut self, condition: impl Fn(T) -> bool) -> T {
        loop {
            let value = self.borrow_and_update();
            if condition(value) {
                return value;
            }
            self.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn receivers_wake_in_fifo_order() {
        let watched = Sender::new(0);
        let (sender, mut order) = mpsc::unbounded_channel();
        for number in 0..20 {
            let (mut receiver, sender) = (watched.subscribe(), sender.clone());
            tokio::spawn(async move {
                receiver.changed().await;
                sender.send((number, receiver.borrow_and_update())).unwrap();
            });
        }
        drop(sender);
        tokio::task::yield_now().await;
        watched.send(7);
        for number in 0..20 {
            assert_eq!(order.recv().await, Some((number, 7)));
        }
    }

    #[tokio::test]
    async fn missed_sends_are_seen_once() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        sender.send(2);
        sender.send(3);
        receiver.changed().await;
        assert_eq!(receiver.wait_for(|value| value > 1).await, 3);
        let again = tokio::time::timeout(std::time::Duration::ZERO, receiver.changed()).await;
        assert!(again.is_err());
        assert!(sender.has_receivers());
        drop(receiver);
        assert!(!sender.has_receivers());
    }

    #[tokio::test]
    async fn silent_send_wakes_no_receiver() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        sender.send_silently(2);
        assert_eq!((sender.borrow(), receiver.borrow()), (2, 2));
        let changed = tokio::time::timeout(std::time::Duration::ZERO, receiver.changed()).await;
        assert!(changed.is_err());
    }
}
