//! A rate limit for routine requests. It delays requests and never fails them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

/// client-go uses this for a rate of 0.
const DEFAULT_QPS: f32 = 5.0;
/// client-go uses this for a burst of 0.
const DEFAULT_BURST: u32 = 10;

/// A token bucket: tokens come back at a steady rate until the bucket is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    /// The time in which one token comes back.
    refill: Duration,
    /// The time in which an empty bucket becomes full.
    depth: Duration,
    /// The instant at which the bucket is full if no more tokens are taken. `None`: it is full.
    full_at: Option<Instant>,
}

impl RateLimit {
    /// Creates a full bucket. As in client-go, 0 means the default and a negative rate means no
    /// limit.
    pub(crate) fn new(qps: f32, burst: u32) -> Self {
        let qps = if qps == 0.0 { DEFAULT_QPS } else { qps };
        let burst = if burst == 0 { DEFAULT_BURST } else { burst };
        let refill = if qps > 0.0 {
            Duration::try_from_secs_f32(qps.recip()).unwrap_or_default()
        } else {
            Duration::ZERO
        };
        Self {
            refill,
            depth: refill.saturating_mul(burst),
            full_at: None,
        }
    }

    /// Takes a token, or returns the instant at which the next one is available.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.refill;
        match full_at.checked_sub(self.depth) {
            Some(free_at) if free_at > now => Err(free_at),
            _ => {
                self.full_at = Some(full_at);
                Ok(())
            }
        }
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            limit: *self,
            has_token: false,
            sleep: None,
        }
    }
}

/// A service that is ready once it has taken a token from its bucket.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    inner: S,
    limit: RateLimit,
    has_token: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S: Service<R>, R> Service<R> for Limited<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while !self.has_token {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(context));
                self.sleep = None;
            }
            match self.limit.take(Instant::now()) {
                Ok(()) => self.has_token = true,
                Err(at) => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
            }
        }
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.has_token = false;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the delay of each request in milliseconds, if all of them come at once.
    fn delays(qps: f32, burst: u32, requests: usize) -> Vec<u128> {
        let start = Instant::now();
        let mut limit = RateLimit::new(qps, burst);
        let mut now = start;
        let mut take = || {
            while let Err(at) = limit.take(now) {
                assert!(at > now);
                now = at;
            }
            (now - start).as_millis()
        };
        (0..requests).map(|_| take()).collect()
    }

    #[test]
    fn requests_beyond_burst_are_paced() {
        assert_eq!(delays(5.0, 3, 6), [0, 0, 0, 200, 400, 600]);
        assert_eq!(delays(0.5, 1, 3), [0, 2000, 4000]);
    }

    #[test]
    fn zero_is_client_go_default_negative_is_unlimited() {
        assert_eq!(delays(0.0, 1, 3), [0, 200, 400]);
        assert_eq!(delays(-1.0, 1, 3), [0, 0, 0]);
        assert_eq!(delays(f32::NAN, 1, 3), [0, 0, 0]);
        assert_eq!(delays(10.0, 0, 12)[8..], [0, 0, 100, 200]);
    }

    #[test]
    fn bucket_holds_at_most_one_burst() {
        let start = Instant::now();
        let mut limit = RateLimit::new(10.0, 2);
        let later = start + Duration::from_mins(1);
        for expected in [true, true, false] {
            assert_eq!(limit.take(later).is_ok(), expected);
        }
    }

    #[test]
    fn slowest_rate_does_not_overflow() {
        let mut limit = RateLimit::new(f32::MIN_POSITIVE, u32::MAX);
        assert!(limit.take(Instant::now()).is_ok());
    }
}
