//! Decodes only the fields of an object that are used.
//!
//! A [`FieldMask`] keeps the named fields and skips everything else, above all managedFields,
//! without allocating it. It accepts values of any shape, so that one malformed object cannot end a
//! list or a watch. The code that reads the kept fields reports their problems. Derived structs
//! would do neither: serde stops at the first value of a wrong type, and goes on only after it has
//! buffered the whole object.

mod field;

pub use field::Field;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The path of a field, such as `["spec", "replicas"]`. In a list, it leads through every item.
pub type FieldPath = &'static [&'static str];

/// The metadata that every mask keeps: what a watch and a write need of an object.
const METADATA: &[FieldPath] = &[
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "resourceVersion"],
];

/// The paths of the fields to keep. Everything below them is kept too, and so is a value on the way
/// that is neither an object nor a list.
#[derive(Debug)]
pub struct FieldMask(Vec<FieldPath>);

impl FieldMask {
    /// Creates a mask for an object, of which it also keeps name, namespace and resourceVersion.
    pub fn new(paths: &[FieldPath]) -> Self {
        Self([METADATA, paths].concat())
    }

    /// Returns the mask of a field. `None`: it is not kept.
    fn field(&self, name: &str) -> Option<Self> {
        let below = self.0.iter().filter_map(|path| match path {
            [] => Some(*path),
            [first, rest @ ..] => (*first == name).then_some(rest),
        });
        let below: Vec<_> = below.collect();
        (!below.is_empty()).then_some(Self(below))
    }
}

impl<'de> DeserializeSeed<'de> for &FieldMask {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &FieldMask {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            kept.push(item);
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            match self.field(&name) {
                Some(mask) => {
                    let value = fields.next_value_seed(&mask)?;
                    kept.insert(name, value);
                }
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Deserializer, json};

    use super::*;

    fn project(text: &str) -> Value {
        let mask = FieldMask::new(&[&["list", "a"], &["all"]]);
        let mut deserializer = Deserializer::from_str(text);
        mask.deserialize(&mut deserializer).unwrap()
    }

    #[test]
    fn only_named_fields_are_kept() {
        let fields: Vec<Value> = (0..60)
            .map(|number| json!({ "manager": "m", "fieldsV1": { format!("f:{number}"): {} } }))
            .collect();
        let object = json!({
            "metadata": { "name": "n", "managedFields": fields, "uid": "u" },
            "spec": { "large": [1, 2, 3] },
        });
        let kept = project(&object.to_string());
        assert_eq!(kept, json!({ "metadata": { "name": "n" } }));
    }

    #[test]
    fn mask_applies_to_every_list_item() {
        let kept = project(r#"{"list": [{"a": 1, "b": 2}, {"b": 3}, 4, null]}"#);
        assert_eq!(kept, json!({ "list": [{ "a": 1 }, {}, 4, null] }));
    }

    #[test]
    fn kept_field_may_have_any_shape() {
        for value in [
            json!(null),
            json!(true),
            json!(-7),
            json!(7_000_000_000_u64),
            json!(1.5),
            json!("text"),
            json!([{ "deep": [[]] }]),
            json!({ "any": { "thing": 1 } }),
        ] {
            let kept = project(&json!({ "all": value, "other": value }).to_string());
            assert_eq!(kept, json!({ "all": value }));
        }
    }

    #[test]
    fn unexpected_shape_is_not_an_error() {
        for text in [
            "7",
            "[]",
            "null",
            r#"{"metadata": "text", "list": {"a": []}}"#,
        ] {
            project(text);
        }
    }
}
