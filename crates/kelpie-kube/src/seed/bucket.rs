//! A limit in front of the routine requests: it waits, it never fails.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

/// What client-go takes for a rate or a burst of 0.
const DEFAULT_QPS: f32 = 5.0;
const DEFAULT_BURST: u32 = 10;

/// Tokens that come back at a steady rate, up to a full bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// How long one token takes to come back.
    refill: Duration,
    /// How long a full bucket takes to come back.
    depth: Duration,
    /// When the bucket is full, if nothing more is taken.
    full_at: Option<Instant>,
}

impl Bucket {
    /// A full bucket. As in client-go, nothing stands for its default, and less than nothing means no
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

    /// Takes a token, or says when there is one.
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

impl<S> Layer<S> for Bucket {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            bucket: *self,
            has_token: false,
            sleep: None,
        }
    }
}

/// A service behind a bucket: it is ready once it has a token.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    inner: S,
    bucket: Bucket,
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
            match self.bucket.take(Instant::now()) {
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

    /// When each of so many requests gets its token, in milliseconds, if all come at once.
    fn waits(qps: f32, burst: u32, requests: usize) -> Vec<u128> {
        let begin = Instant::now();
        let mut bucket = Bucket::new(qps, burst);
        let mut now = begin;
        let mut take = || {
            while let Err(at) = bucket.take(now) {
                assert!(at > now);
                now = at;
            }
            (now - begin).as_millis()
        };
        (0..requests).map(|_| take()).collect()
    }

    #[test]
    fn a_burst_goes_through_at_once_and_the_rest_at_the_rate() {
        assert_eq!(waits(5.0, 3, 6), [0, 0, 0, 200, 400, 600]);
        assert_eq!(waits(0.5, 1, 3), [0, 2000, 4000]);
    }

    #[test]
    fn nothing_is_the_default_of_client_go_and_less_is_no_limit() {
        assert_eq!(waits(0.0, 1, 3), [0, 200, 400]);
        assert_eq!(waits(-1.0, 1, 3), [0, 0, 0]);
        assert_eq!(waits(f32::NAN, 1, 3), [0, 0, 0]);
        assert_eq!(waits(10.0, 0, 12)[8..], [0, 0, 100, 200]);
    }

    #[test]
    fn a_bucket_never_holds_more_than_a_burst() {
        let begin = Instant::now();
        let mut bucket = Bucket::new(10.0, 2);
        let later = begin + Duration::from_mins(1);
        for expected in [true, true, false] {
            assert_eq!(bucket.take(later).is_ok(), expected);
        }
    }

    #[test]
    fn the_slowest_rate_does_not_overflow() {
        let mut bucket = Bucket::new(f32::MIN_POSITIVE, u32::MAX);
        assert!(bucket.take(Instant::now()).is_ok());
    }
}
