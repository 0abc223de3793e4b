//! Streams the response of a federate request.

use kelpie_net::Response;
use tokio::time::timeout;

use super::{FEDERATE_PATH, PrometheusSource, SourceError, send_all};
use crate::queue::BatchSender;
use crate::request_metrics::RequestKind;
use crate::tick::Tick;
use crate::time_limit::TimeLimit;

const TEXT_FORMAT: &str = "text/plain;version=0.0.4";

impl PrometheusSource {
    pub(super) async fn federate(
        &self,
        query: &str,
        tick: &Tick,
        sender: &BatchSender,
    ) -> Result<(), SourceError> {
        let request = tick.metrics.start_request(RequestKind::Federate);
        let limit = TimeLimit::start(tick.reading.response_timeout);
        let mut pooled = limit.wait(self.api.peer.connect()).await??;
        let path = format!("{}{FEDERATE_PATH}?{query}", self.api.base);
        let response = self
            .api
            .get(&mut pooled, &path, TEXT_FORMAT, request, limit);
        let response = response.await?;
        self.stream(response, tick, sender).await?;
        self.api.peer.release(pooled);
        Ok(())
    }

    /// Passes the body through a pipeline. Samples before an error are sent.
    async fn stream(
        &self,
        mut response: Response<'_>,
        tick: &Tick,
        sender: &BatchSender,
    ) -> Result<(), SourceError> {
        let mut pipeline = tick.pipeline();
        let mut batches = Vec::new();
        let read = loop {
            let pause = tick.reading.response_timeout;
            let chunk = match timeout(pause, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break Ok(()),
                Ok(Err(source)) => {
                    break Err(SourceError::CutBody(self.api.peer.request_error(source)));
                }
                Err(_) => break Err(SourceError::StalledBody(pause)),
            };
            if let Err(error) = tick.count_bytes(chunk.len()) {
                break Err(error);
            }
            let fed = pipeline.feed(&chunk, &mut |batch| batches.push(batch));
            tick.count_samples(pipeline.take_counts());
            send_all(&mut batches, sender).await?;
            if let Err(error) = fed {
                break Err(error.into());
            }
        };
        // Closes the connection before the hub can block, unless the body was read to its end.
        drop(response);
        let ended = pipeline.finish(&mut |batch| batches.push(batch));
        send_all(&mut batches, sender).await?;
        // A truncated body also ends within a line. The first error has the cause.
        read.and_then(|()| Ok(ended?))
    }
}
