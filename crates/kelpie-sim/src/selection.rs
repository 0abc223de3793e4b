//! Which objects of a resource are meant.

mod fields;
mod labels;

use serde_json::Value;

use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::store::body::parts;
use fields::Fields;
use labels::Labels;

/// Objects of a resource by namespace, name, labels and fields; by default all of them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    namespace: Option<String>,
    labels: Labels,
    fields: Fields,
}

impl Selection {
    /// All of them.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those of a namespace.
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::default()
        }
    }

    /// Those of them whose labels are as `selector` says, in the words of kubectl.
    pub fn labelled(mut self, selector: &str) -> Result<Self, Refusal> {
        self.labels = Labels::parse(selector)?;
        Ok(self)
    }

    /// Those of them whose fields are as `selector` says, as far as `resource` can be asked for that.
    pub fn with_fields(mut self, resource: &Resource, selector: &str) -> Result<Self, Refusal> {
        self.fields = Fields::parse(resource, selector)?;
        Ok(self)
    }

    /// The namespace, if it is one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether an object is meant. Its content is only looked at if the key does not decide.
    pub(crate) fn admits(&self, key: &str, object: impl FnOnce() -> Value) -> bool {
        let (namespace, name) = parts(key);
        if self
            .namespace
            .as_deref()
            .is_some_and(|wanted| wanted != namespace)
        {
            return false;
        }
        match self.fields.by_key(namespace, name) {
            Some(false) => false,
            Some(true) if self.labels.is_empty() => true,
            decided => {
                let object = object();
                (decided == Some(true) || self.fields.admit(&object)) && self.labels.admit(&object)
            }
        }
    }
}
