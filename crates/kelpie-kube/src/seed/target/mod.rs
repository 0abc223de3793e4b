//! The controllers to fence: reading them, recording on them, scaling them.

mod deed;
mod kept;
mod kind;
mod survey;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future;
use kelpie_core::ResourceRef;
use kelpie_core::fence::{
    Call, DropMarker, MARKER_ANNOTATION, Present, REPLICAS_ANNOTATION, Reply, Sight, Version,
    WriteRecord,
};
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::fault::Fault;
use super::quiet;
pub use deed::TargetError;
pub use kind::ScaleKind;
pub use survey::Survey;

use deed::Deed;
use kept::{Kept, Page};
use kind::{Kinds, Unfit};

/// For a caller that names no limit.
const LIMIT: Duration = Duration::from_secs(30);
/// Object and scale are read at the same time; somebody may write in between so often.
const ATTEMPTS: usize = 3;
/// Objects on a page of a list: some MB.
const PAGE: u32 = 500;
/// One seed has far fewer control planes than fit on them.
const MOST_PAGES: usize = 40;

/// Calls on the controllers to fence. Each call is one request or two at the same time, with one
/// deadline, and is never repeated behind the caller's back.
#[derive(Clone)]
pub struct Targets {
    client: Client,
    kinds: Kinds,
    limit: Duration,
}

impl Targets {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            kinds: Kinds::default(),
            limit: LIMIT,
        }
    }

    /// The same by another client; what was discovered is shared.
    pub(super) fn by(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// The same, with this limit for each call.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    /// Finds the resource of a kind. A kind that was found is remembered.
    pub async fn resolve(&self, resource: &ResourceRef) -> Result<ScaleKind, TargetError> {
        let deed = Deed::new("find the kind of", "", resource);
        self.bounded(deed, self.kind(deed)).await
    }

    /// What a target looks like now.
    pub async fn read(&self, namespace: &str, target: &ResourceRef) -> Result<Sight, TargetError> {
        let deed = Deed::new("read", namespace, target);
        match self.bounded(deed, self.look(deed)).await {
            Ok(present) => Ok(Sight::Present(present)),
            Err(TargetError::NotFound { .. }) => Ok(Sight::Missing),
            Err(error) => Err(error),
        }
    }

    /// Records the present count and sets the marker, in one patch that rests on the version read.
    pub async fn write_record(
        &self,
        namespace: &str,
        target: &ResourceRef,
        record: &WriteRecord,
    ) -> Result<Version, TargetError> {
        let annotations = json!({
            REPLICAS_ANNOTATION: record.replicas().to_string(),
            MARKER_ANNOTATION: "",
        });
        let deed = Deed::new("record the fence on", namespace, target);
        self.annotate(deed, record.version(), &annotations).await
    }

    /// Drops the marker, in one patch that rests on the version of the restore.
    pub async fn drop_marker(
        &self,
        namespace: &str,
        target: &ResourceRef,
        drop: &DropMarker,
    ) -> Result<Version, TargetError> {
        let annotations = json!({ MARKER_ANNOTATION: null });
        let deed = Deed::new("drop the marker of", namespace, target);
        self.annotate(deed, drop.version(), &annotations).await
    }

    /// Sets the replicas through the scale subresource, resting on `version`.
    pub async fn scale(
        &self,
        namespace: &str,
        target: &ResourceRef,
        version: &Version,
        replicas: u32,
    ) -> Result<Version, TargetError> {
        let patch = json!({
            "metadata": { "resourceVersion": version.as_str() },
            "spec": { "replicas": replicas },
        });
        let deed = Deed::new("scale", namespace, target);
        self.bounded(deed, self.patch(deed, Some("scale"), &patch))
            .await
    }

    /// Does what a step of a fencing flow asks for.
    pub async fn perform(
        &self,
        namespace: &str,
        target: &ResourceRef,
        call: &Call,
    ) -> Result<Reply, TargetError> {
        let written = match call {
            Call::Read => return self.read(namespace, target).await.map(Reply::Seen),
            Call::WriteRecord(record) => self.write_record(namespace, target, record).await,
            Call::ScaleDown(scale) => {
                let (version, replicas) = (scale.version(), scale.replicas());
                self.scale(namespace, target, version, replicas).await
            }
            Call::ScaleUp(scale) => {
                let (version, replicas) = (scale.version(), scale.replicas());
                self.scale(namespace, target, version, replicas).await
            }
            Call::DropMarker(drop) => self.drop_marker(namespace, target, drop).await,
        };
        match written {
            Ok(version) => Ok(Reply::Written(version)),
            Err(TargetError::Conflict { .. }) => Ok(Reply::Conflict),
            Err(error) => Err(error),
        }
    }

    async fn annotate(
        &self,
        deed: Deed<'_>,
        version: &Version,
        annotations: &Value,
    ) -> Result<Version, TargetError> {
        let patch = json!({
            "metadata": { "resourceVersion": version.as_str(), "annotations": annotations },
        });
        self.bounded(deed, self.patch(deed, None, &patch)).await
    }

    async fn patch(
        &self,
        deed: Deed<'_>,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Version, TargetError> {
        let kind = self.kind(deed).await?;
        let request = Request::new(kind.path(deed.namespace));
        let (name, how) = (&deed.target.name, PatchParams::default());
        let patch = Patch::Merge(patch);
        let request = match subresource {
            None => request.patch(name, &how, &patch),
            Some(subresource) => request.patch_subresource(subresource, name, &how, &patch),
        };
        let answer = self.send(deed, request).await?;
        Ok(answer.version())
    }

    async fn look(&self, deed: Deed<'_>) -> Result<Present, TargetError> {
        let kind = self.kind(deed).await?;
        let request = Request::new(kind.path(deed.namespace));
        let (name, how) = (&deed.target.name, GetParams::default());
        if kind.has_plain_counts {
            let object = self.send(deed, request.get(name, &how)).await?;
            return Ok(object.plainly_present());
        }
        for _ in 0..ATTEMPTS {
            let object = self.send(deed, request.get(name, &how));
            let scale = self.send(deed, request.get_subresource("scale", name));
            let (object, scale) = future::try_join(object, scale).await?;
            // Both must be of one version, or the count and the record do not belong together.
            if object.version() == scale.version() {
                // Zero is left out of a Scale.
                let replicas = scale.count("/spec/replicas").unwrap_or(0);
                let ready = object.ready().or_else(|| scale.count("/status/replicas"));
                return Ok(object.present(replicas, ready.unwrap_or(0)));
            }
        }
        let reason = "it changes all the time".into();
        Err(deed.failed(Fault::Unavailable(reason), self.limit))
    }

    async fn kind(&self, deed: Deed<'_>) -> Result<ScaleKind, TargetError> {
        let found = self.kinds.find(&self.client, deed.target).await;
        found.map_err(|unfit| match unfit {
            Unfit::Unknown => TargetError::UnknownKind {
                what: deed.what(),
                kind: deed.target.kind.clone(),
                api_version: deed.target.api_version.clone(),
            },
            Unfit::NotScalable => TargetError::NotScalable { what: deed.what() },
            Unfit::Asking(fault) => deed.failed(fault, self.limit),
        })
    }

    /// The targets of this name in all namespaces, by namespace; `None`: they cannot be listed, as a
    /// list of their kind does not tell the counts.
    async fn list(
        &self,
        target: &ResourceRef,
    ) -> Result<Option<BTreeMap<String, Present>>, TargetError> {
        let deed = Deed::new("list all", "", target);
        let kind = self.kind(deed).await?;
        if !kind.has_plain_counts {
            return Ok(None);
        }
        let request = Request::new(kind.path_of_all());
        let name = format!("metadata.name={}", target.name);
        let mut how = ListParams::default().fields(&name).limit(PAGE);
        let mut found = BTreeMap::new();
        for _ in 0..MOST_PAGES {
            let page: Page = self.ask(deed, request.list(&how)).await?;
            let objects = page.items.iter();
            found.extend(
                objects.map(|object| (object.namespace().to_owned(), object.plainly_present())),
            );
            match page.rest() {
                Some(rest) => how = how.continue_token(rest),
                None => return Ok(Some(found)),
            }
        }
        let reason = format!("there are more than {MOST_PAGES} pages of them");
        Err(deed.failed(Fault::Unavailable(reason), self.limit))
    }

    async fn send(
        &self,
        deed: Deed<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Kept, TargetError> {
        let kept: Kept = self.ask(deed, request).await?;
        // A write that rests on an empty version rests on nothing.
        if kept.version().as_str().is_empty() {
            let reason = "an answer without resourceVersion".into();
            return Err(deed.failed(Fault::Unavailable(reason), self.limit));
        }
        Ok(kept)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        deed: Deed<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, TargetError> {
        let failed = |fault| deed.failed(fault, self.limit);
        let request = request.map_err(|error| failed(Fault::Unavailable(error.to_string())))?;
        let answer = quiet::call(self.client.request(request)).await;
        answer.map_err(|error| {
            let fault = Fault::from(&error);
            if fault == Fault::NotFound {
                self.kinds.forget(deed.target);
            }
            failed(fault)
        })
    }

    async fn bounded<T>(
        &self,
        deed: Deed<'_>,
        call: impl Future<Output = Result<T, TargetError>>,
    ) -> Result<T, TargetError> {
        let done = timeout(self.limit, call).await;
        done.unwrap_or_else(|_| Err(deed.failed(Fault::TimedOut, self.limit)))
    }
}
