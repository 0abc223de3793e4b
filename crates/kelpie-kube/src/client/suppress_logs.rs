//! Suppresses the logs of the client library.
//!
//! The library logs every failed request as an error, and the whole body of a response that it
//! cannot decode. Callers report failures themselves: once, with a remedy, and never with the
//! contents of a Secret.

use futures_util::{Stream, stream};
use tracing::dispatcher::{self, Dispatch};
use tracing::instrument::WithSubscriber;

/// Runs a call without the library's logs.
pub(crate) async fn suppress_logs<F: Future>(call: F) -> F::Output {
    call.with_subscriber(Dispatch::none()).await
}

/// Polls a stream without the library's logs.
pub(crate) fn suppress_logs_of<S: Stream>(events: S) -> impl Stream<Item = S::Item> {
    let (mut events, none) = (Box::pin(events), Dispatch::none());
    stream::poll_fn(move |context| {
        dispatcher::with_default(&none, || events.as_mut().poll_next(context))
    })
}
