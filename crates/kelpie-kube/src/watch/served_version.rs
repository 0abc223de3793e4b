//! Watching a kind in the newest version that the API server serves.

use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use kube::Client;
use tokio::time::sleep;

use super::{Selection, WatchError, WatchEvent, WatchedResource, watch_version};
use crate::client::{ApiError, call_within};
use crate::objects::ObjectKind;

/// The pause before the served versions are read again.
const PAUSE: Duration = Duration::from_secs(5);
/// The time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Watches `T::KIND`, or the first of `T::OLDER` that the API server serves. The versions are read
/// again after the watched one was not found: it may have been removed by an upgrade.
pub(super) fn watch_served<T: WatchedResource>(
    client: &Client,
    selection: Selection<'_>,
    seconds: u32,
) -> impl Stream<Item = WatchEvent<T>> + Send + use<T> {
    let search = VersionSearch {
        client: client.clone(),
        selection: OwnedSelection::from(selection),
        seconds,
        watch: None,
        has_failed: false,
    };
    stream::unfold(search, |mut search| async move {
        let event = search.next().await;
        Some((event, search))
    })
}

struct VersionSearch<T> {
    client: Client,
    selection: OwnedSelection,
    seconds: u32,
    /// The watch on the version that is served; `None` before it is known.
    watch: Option<BoxStream<'static, WatchEvent<T>>>,
    has_failed: bool,
}

struct OwnedSelection {
    namespace: Option<String>,
    name: Option<String>,
    labels: Option<String>,
}

impl<T: WatchedResource> VersionSearch<T> {
    async fn next(&mut self) -> WatchEvent<T> {
        loop {
            if let Some(event) = self.next_of_watch().await {
                return event;
            }
            if self.has_failed {
                sleep(PAUSE).await;
            }
            match served::<T>(&self.client).await {
                Ok(kind) => {
                    let selection = self.selection.borrow();
                    let watch = watch_version(&self.client, kind, selection, self.seconds);
                    self.watch = Some(watch.boxed());
                }
                Err(cause) => {
                    self.has_failed = true;
                    let what = T::KIND.to_string();
                    return WatchEvent::Error(WatchError {
                        what,
                        server: None,
                        cause,
                    });
                }
            }
        }
    }

    /// Returns the next event of the watch; `None` without one.
    async fn next_of_watch(&mut self) -> Option<WatchEvent<T>> {
        let event = self.watch.as_mut()?.next().await;
        let is_missing = matches!(
            &event,
            Some(WatchEvent::Error(error)) if error.cause == ApiError::NotFound
        );
        if is_missing {
            self.watch = None;
        }
        self.has_failed = is_missing;
        event
    }
}

/// Returns the newest version that is served.
pub(crate) async fn served<T: WatchedResource>(client: &Client) -> Result<ObjectKind, ApiError> {
    for kind in [T::KIND].iter().chain(T::OLDER) {
        let version = kind.api_version();
        let resources = client.list_api_group_resources(&version);
        match call_within(REQUEST_TIMEOUT, resources).await {
            Ok(list) => {
                let mut resources = list.resources.iter();
                if resources.any(|resource| resource.name == kind.plural) {
                    return Ok(*kind);
                }
            }
            Err(ApiError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ApiError::NotFound)
}

impl From<Selection<'_>> for OwnedSelection {
    fn from(selection: Selection<'_>) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            namespace: owned(selection.namespace),
            name: owned(selection.name),
            labels: owned(selection.labels),
        }
    }
}

impl OwnedSelection {
    fn borrow(&self) -> Selection<'_> {
        Selection {
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            labels: self.labels.as_deref(),
        }
    }
}
