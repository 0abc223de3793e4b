//! Selecting objects of a resource, for lists and watches.

mod fields;
mod labels;

use serde_json::Value;

use crate::resource::GroupResource;
use crate::status_error::StatusError;
use crate::store::body::split_key;
use fields::FieldFilter;
use labels::LabelFilter;

/// Selects objects of a resource by namespace, labels and fields. The default selects all of them.
#[derive(Clone, Debug, Default)]
pub struct ObjectSelector {
    namespace: Option<String>,
    labels: LabelFilter,
    fields: FieldFilter,
}

impl ObjectSelector {
    /// Selects all objects of the resource.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the objects of one namespace.
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::default()
        }
    }

    /// Narrows the selection by a label selector in kubectl's syntax.
    pub fn with_labels(mut self, selector: &str) -> Result<Self, StatusError> {
        self.labels = LabelFilter::parse(selector)?;
        Ok(self)
    }

    /// Narrows the selection by a field selector. Fails for fields that `resource` does not support
    /// in selectors.
    pub fn with_fields(
        mut self,
        resource: &GroupResource,
        selector: &str,
    ) -> Result<Self, StatusError> {
        self.fields = FieldFilter::parse(resource, selector)?;
        Ok(self)
    }

    /// Returns the namespace that the selection is limited to, if any.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns whether an object is selected. `object` is only called if the key does not decide.
    pub(crate) fn matches(&self, key: &str, object: impl FnOnce() -> Value) -> bool {
        let (namespace, name) = split_key(key);
        if self
            .namespace
            .as_deref()
            .is_some_and(|wanted| wanted != namespace)
        {
            return false;
        }
        match self.fields.match_key(namespace, name) {
            Some(false) => false,
            Some(true) if self.labels.is_empty() => true,
            decided => {
                let object = object();
                (decided == Some(true) || self.fields.matches(&object))
                    && self.labels.matches(&object)
            }
        }
    }
}
