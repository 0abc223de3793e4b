//! Suppresses the logs of the client library.
//!
//! The library logs every failed request as an error, and the whole body of a response that it
//! cannot decode. Callers report failures themselves: once, with a remedy, and never with the
//! contents of a Secret.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tracing::dispatcher::{self, Dispatch};
use tracing::instrument::WithSubscriber;

/// Runs a call without the library's logs.
pub(crate) async fn suppress_logs<F: Future>(call: F) -> F::Output {
    call.with_subscriber(Dispatch::none()).await
}

/// A stream that is polled without the library's logs.
pub(crate) struct SuppressLogs<S> {
    stream: Pin<Box<S>>,
    dispatch: Dispatch,
}

impl<S> SuppressLogs<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream: Box::pin(stream),
            dispatch: Dispatch::none(),
        }
    }
}

impl<S: Stream> Stream for SuppressLogs<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        dispatcher::with_default(&this.dispatch, || this.stream.as_mut().poll_next(context))
    }
}
