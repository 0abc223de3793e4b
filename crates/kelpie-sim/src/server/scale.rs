//! The scale of an object: its counts, apart from everything else.

use serde_json::{Value, json};

use super::answer::Answer;
use super::objects::{is_dry, patch_of};
use super::route::Place;
use super::{Asked, Server, not_allowed, parsed};
use crate::field;
use crate::kind::{Kind, Scale};
use crate::patch::Patch;
use crate::refusal::Refusal;
use crate::store::Part;

impl Server {
    pub(super) fn scale(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let Some(scale) = &place.kind.scale else {
            return Err(not_allowed());
        };
        match asked.call.verb {
            "get" => {
                let state = self.source(asked).lock();
                let kept = state.get(&place.kind, &place.namespace, &place.name)?;
                drop(state);
                Ok(Answer::json(
                    200,
                    &shown(&place.kind, scale, &kept.value(&place.kind)),
                ))
            }
            "update" => {
                let wanted = parsed(asked.body)?;
                self.set_scale(asked, place, scale, |_| Ok(wanted))
            }
            "patch" => {
                let how = patch_of(asked, &place.kind)?;
                let patch = parsed(asked.body)?;
                let how = if how == Patch::Apply {
                    Patch::Merge
                } else {
                    how
                };
                self.set_scale(asked, place, scale, |mut present| {
                    how.apply(&mut present, &patch)?;
                    Ok(present)
                })
            }
            _ => Err(not_allowed()),
        }
    }

    fn set_scale(
        &self,
        asked: &Asked<'_>,
        place: &Place,
        scale: &Scale,
        change: impl FnOnce(Value) -> Result<Value, Refusal>,
    ) -> Result<Answer, Refusal> {
        let kind = &place.kind;
        let (namespace, name) = (&place.namespace, &place.name);
        let mut state = self.store.lock();
        let kept = state.update(
            kind,
            namespace,
            name,
            Part::Object,
            is_dry(asked),
            |mut object| {
                let wanted = change(shown(kind, scale, &object))?;
                let count = match &wanted["spec"]["replicas"] {
                    // Zero is left out.
                    Value::Null => 0,
                    count => count.as_i64().ok_or_else(|| no_count(count))?,
                };
                if count < 0 {
                    return Err(Refusal::negative(kind, name, "spec.replicas", count));
                }
                field::set(&mut object, &scale.wanted, count);
                let version = wanted["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default();
                if !version.is_empty() {
                    field::set(&mut object, "/metadata/resourceVersion", version);
                }
                Ok(object)
            },
        )?;
        drop(state);
        Ok(Answer::json(200, &shown(kind, scale, &kept.value(kind))))
    }
}

/// An object's scale.
fn shown(kind: &Kind, scale: &Scale, object: &Value) -> Value {
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = json!({});
    if count(&scale.wanted) != 0 {
        spec["replicas"] = count(&scale.wanted).into();
    }
    let mut status = json!({ "replicas": count(&scale.present) });
    let selector = match (&scale.selector, kind.is_custom) {
        (Some(pointer), _) => object
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned),
        (None, false) => Some(selector(&object["spec"]["selector"]["matchLabels"])),
        (None, true) => None,
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Labels in words.
fn selector(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    labels.collect::<Vec<_>>().join(",")
}

fn no_count(count: &Value) -> Refusal {
    Refusal::undecodable(&format!("{count}: json: cannot unmarshal it into a count"))
}
