//! One federate request, read as it comes.

use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use kelpie_net::Response;

use super::{Source, SourceFault, push};
use crate::Pipeline;
use crate::queue::Inlet;
use crate::said::said;
use crate::tick::Tick;

/// Of an answer that is no success.
pub(super) const LARGEST_COMPLAINT: usize = 64 * 1024;

impl Source {
    pub(super) async fn federate(
        &self,
        query: &str,
        tick: &Tick,
        inlet: &Inlet,
    ) -> Result<(), SourceFault> {
        let fault = |source| self.site.fault(source);
        let mut headers = self.site.headers()?;
        let fixed = HeaderValue::from_static;
        headers.insert(ACCEPT, fixed("text/plain;version=0.0.4"));
        headers.insert(ACCEPT_ENCODING, fixed("identity"));
        let path = format!("{}{}?{query}", self.base, super::FEDERATE);
        let mut lent = self
            .site
            .connect()
            .await
            .inspect_err(|_| tick.metrics.federated(None))?;
        let asked = lent.connection.get(&path, &headers).await;
        let code = asked.as_ref().ok().map(|answer| answer.status.as_u16());
        tick.metrics.federated(code);
        let answer = asked.map_err(fault)?;
        if !answer.status.is_success() {
            return Err(complaint(answer).await);
        }
        self.stream(answer, tick, inlet).await?;
        self.site.give_back(lent);
        Ok(())
    }

    /// The body, through a pipeline of its own. What came before a fault is sent.
    async fn stream(
        &self,
        mut answer: Response<'_>,
        tick: &Tick,
        inlet: &Inlet,
    ) -> Result<(), SourceFault> {
        let mut pipeline =
            Pipeline::new(Arc::clone(&tick.rules), Arc::clone(&tick.seen), tick.now_ms);
        let mut batches = Vec::new();
        let read = loop {
            let chunk = match answer.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(source) => break Err(self.site.fault(source).into()),
            };
            if let Err(fault) = tick.take(chunk.len()) {
                break Err(fault);
            }
            let fed = pipeline.feed(&chunk, &mut |batch| batches.push(batch));
            push(&mut batches, inlet).await?;
            if let Err(fault) = fed {
                break Err(fault.into());
            }
        };
        // Closed before anything waits for the hub, unless it was read to its end.
        drop(answer);
        let ended = pipeline.finish(&mut |batch| batches.push(batch));
        tick.count(pipeline.tally());
        push(&mut batches, inlet).await?;
        // A body that broke off ends in the middle of a line as well: the first fault says why.
        read.and_then(|()| Ok(ended?))
    }
}

/// An answer that is no success, in words.
pub(super) async fn complaint(answer: Response<'_>) -> SourceFault {
    let status = answer.status;
    let body = answer.collect(LARGEST_COMPLAINT).await.unwrap_or_default();
    let said = said(status, &String::from_utf8_lossy(&body));
    SourceFault::Status(match status.as_u16() {
        401 | 403 => format!("{said} (look at --from-token-file)"),
        _ => said,
    })
}
