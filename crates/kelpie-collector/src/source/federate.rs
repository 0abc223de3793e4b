//! One federate request, read as it comes.

use std::sync::Arc;

use kelpie_net::Response;

use super::{FEDERATE, Source, SourceFault, push};
use crate::Pipeline;
use crate::queue::Inlet;
use crate::tick::Tick;
use crate::underway::Kind;

const TEXT: &str = "text/plain;version=0.0.4";

impl Source {
    pub(super) async fn federate(
        &self,
        query: &str,
        tick: &Tick,
        inlet: &Inlet,
    ) -> Result<(), SourceFault> {
        let asked = tick.metrics.begin(Kind::Federate);
        let mut lent = self.site.connect().await?;
        let path = format!("{}{FEDERATE}?{query}", self.base);
        let answer = self.ask(&mut lent, &path, TEXT, asked).await?;
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
            tick.count(pipeline.take_tally());
            push(&mut batches, inlet).await?;
            if let Err(fault) = fed {
                break Err(fault.into());
            }
        };
        // Closed before anything waits for the hub, unless it was read to its end.
        drop(answer);
        let ended = pipeline.finish(&mut |batch| batches.push(batch));
        push(&mut batches, inlet).await?;
        // A body that broke off ends in the middle of a line as well: the first fault says why.
        read.and_then(|()| Ok(ended?))
    }
}
