//! A watch that stays open between two requests for its progress.
//!
//! etcd counts a watch that its client ends as a failed call, so a new watch for every request
//! would show up in the alerts about etcd.

use std::sync::Arc;

use futures_util::stream::unfold;
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use crate::EtcdError;
use crate::client::channel::MemberChannel;
use crate::client::message::{EmptyRequest, WatchCreateRequest, WatchRequest, WatchResponse};

/// The watch of one member. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ProgressWatch {
    /// Taken out while in use, so that a request never waits for one that hangs.
    idle: Arc<Mutex<Option<OpenWatch>>>,
}

struct OpenWatch {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl ProgressWatch {
    /// Asks for the progress of the open watch, or of a new one if there is none or it has ended.
    pub(crate) async fn ask(
        &self,
        channel: &MemberChannel,
        key: &[u8],
        token: Option<&SecretString>,
    ) -> Result<(), EtcdError> {
        let idle = self.idle.lock().take();
        if let Some(mut watch) = idle
            && watch.ask(channel).await.is_ok()
        {
            *self.idle.lock() = Some(watch);
            return Ok(());
        }
        let mut watch = OpenWatch::open(channel, key, token).await?;
        watch.ask(channel).await?;
        *self.idle.lock() = Some(watch);
        Ok(())
    }
}

impl OpenWatch {
    async fn open(
        channel: &MemberChannel,
        key: &[u8],
        token: Option<&SecretString>,
    ) -> Result<Self, EtcdError> {
        let (requests, queued) = mpsc::channel(1);
        let create = WatchRequest {
            create: Some(WatchCreateRequest {
                key: key.to_vec(),
                filters: WatchCreateRequest::NO_EVENTS.to_vec(),
            }),
            progress: None,
        };
        // etcd sends no headers before its first response, so the request must already be queued.
        let queue = requests.clone();
        queue.try_send(create).map_err(|_| ended())?;
        let stream = unfold(queued, |mut queued| async move {
            let request: WatchRequest = queued.recv().await?;
            Some((request, queued))
        });
        let path = "/etcdserverpb.Watch/Watch";
        let responses = channel.stream(path, stream, token).await?;
        Ok(Self {
            requests,
            responses,
        })
    }

    /// Requests the progress and waits for it. Responses about the creation are skipped.
    async fn ask(&mut self, channel: &MemberChannel) -> Result<(), EtcdError> {
        let request = WatchRequest {
            create: None,
            progress: Some(EmptyRequest {}),
        };
        self.requests.send(request).await.map_err(|_| ended())?;
        loop {
            let response = self.responses.message().await;
            match response.map_err(|status| channel.error(&status))? {
                None => return Err(ended()),
                Some(response) if response.canceled => {
                    return Err(cancelled(&response.cancel_reason));
                }
                Some(response) if response.created => {}
                Some(_) => {
                    channel.record_answer();
                    return Ok(());
                }
            }
        }
    }
}

fn ended() -> EtcdError {
    EtcdError::ConnectionLost("the watch has ended".to_owned())
}

/// Classifies the reason for which etcd cancelled the watch. It is the text of a gRPC error.
fn cancelled(reason: &str) -> EtcdError {
    let message = reason.rsplit_once("desc = ").map_or(reason, |(_, it)| it);
    EtcdError::from_status(&Status::new(Code::Unknown, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancel_reason_is_classified() {
        let reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert!(matches!(cancelled(reason), EtcdError::AccessDenied(_)));
        let reason = "etcdserver: mvcc: required revision has been compacted";
        assert!(matches!(cancelled(reason), EtcdError::ServerError(_)));
    }
}
