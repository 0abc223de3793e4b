//! Decoding only what is used of an object.
//!
//! A sieve keeps the named fields and skips everything else without allocating it, managedFields
//! above all. It takes any shape of value, so that one malformed object cannot end a list or a
//! watch; whoever reads the kept fields says what is wrong with them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What to keep of a value. In a list it applies to every item.
#[derive(Debug)]
pub(crate) enum Keep {
    /// All of it.
    All,
    /// These fields, if it is an object.
    Fields(&'static [(&'static str, Keep)]),
}

impl Keep {
    fn of(&self, name: &str) -> Option<&Self> {
        match self {
            Self::All => Some(self),
            Self::Fields(fields) => {
                let field = fields.iter().find(|(field, _)| *field == name);
                field.map(|(_, keep)| keep)
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for &Keep {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Keep {
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

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
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
            match self.of(&name) {
                Some(keep) => {
                    let value = fields.next_value_seed(keep)?;
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

    const KEEP: Keep = Keep::Fields(&[
        ("metadata", Keep::Fields(&[("name", Keep::All)])),
        ("list", Keep::Fields(&[("a", Keep::All)])),
        ("all", Keep::All),
    ]);

    fn sifted(text: &str) -> Value {
        let mut deserializer = Deserializer::from_str(text);
        KEEP.deserialize(&mut deserializer).unwrap()
    }

    #[test]
    fn only_the_named_fields_are_kept_of_an_object_with_60_managed_fields() {
        let fields: Vec<Value> = (0..60)
            .map(|number| json!({ "manager": "m", "fieldsV1": { format!("f:{number}"): {} } }))
            .collect();
        let object = json!({
            "metadata": { "name": "n", "managedFields": fields, "uid": "u" },
            "spec": { "large": [1, 2, 3] },
        });
        let kept = sifted(&object.to_string());
        assert_eq!(kept, json!({ "metadata": { "name": "n" } }));
    }

    #[test]
    fn every_item_of_a_list_is_sifted() {
        let kept = sifted(r#"{"list": [{"a": 1, "b": 2}, {"b": 3}, 4, null]}"#);
        assert_eq!(kept, json!({ "list": [{ "a": 1 }, {}, 4, null] }));
    }

    #[test]
    fn what_is_kept_is_kept_whatever_its_shape() {
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
            let kept = sifted(&json!({ "all": value, "other": value }).to_string());
            assert_eq!(kept, json!({ "all": value }));
        }
    }

    #[test]
    fn a_value_of_the_wrong_shape_is_no_error() {
        for text in [
            "7",
            "[]",
            "null",
            r#"{"metadata": "text", "list": {"a": []}}"#,
        ] {
            sifted(text);
        }
    }
}
