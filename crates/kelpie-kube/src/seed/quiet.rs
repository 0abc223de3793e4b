//! Silence for the client library.
//!
//! It logs every failed request as an error, and the whole body of an answer it cannot decode. Both
//! are ours to report: once, with what to do about it, and never with a Secret inside.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tracing::dispatcher::{self, Dispatch};
use tracing::instrument::WithSubscriber;

/// Runs a call without the log lines of the library.
pub(crate) async fn call<F: Future>(call: F) -> F::Output {
    call.with_subscriber(Dispatch::none()).await
}

/// A stream that is polled without the log lines of the library.
pub(crate) struct Quiet<S> {
    stream: Pin<Box<S>>,
    silence: Dispatch,
}

impl<S> Quiet<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream: Box::pin(stream),
            silence: Dispatch::none(),
        }
    }
}

impl<S: Stream> Stream for Quiet<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        dispatcher::with_default(&this.silence, || this.stream.as_mut().poll_next(context))
    }
}
