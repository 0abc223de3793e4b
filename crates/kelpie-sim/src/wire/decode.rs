//! Decoding protobuf, for the kinds that kubectl creates without a file.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use prost::encoding::decode_varint;
use serde_json::{Map, Value};

use super::schema::{Field, Fields, ProtoType, TYPE_META};

/// The deepest nesting of a message that consists of defaults.
const MAX_DEFAULT_DEPTH: usize = 4;

/// Decodes the object of a request to JSON. Returns `None` if it is malformed, or sets a field that
/// is not in the schema.
pub(crate) fn decode(fields: Fields, body: &[u8]) -> Option<Value> {
    let envelope = body.strip_prefix(super::MAGIC)?;
    let (mut type_meta, mut content) = (Map::new(), &[][..]);
    for_each_field(envelope, |number, value| {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => type_meta = decode_message(TYPE_META, bytes)?,
            (2, WireValue::Bytes(bytes)) => content = bytes,
            _ => {}
        }
        Some(())
    })?;
    let mut object = decode_message(fields, content)?;
    object.extend(type_meta);
    Some(Value::Object(object))
}

/// The value of a field on the wire.
enum WireValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Calls `visit` for every varint and length-delimited field. Returns `None` if the message is
/// malformed.
fn for_each_field<'a>(
    mut bytes: &'a [u8],
    mut visit: impl FnMut(u64, WireValue<'a>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => visit(key >> 3, WireValue::Varint(varint(&mut bytes)?))?,
            1 => bytes = bytes.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                visit(key >> 3, WireValue::Bytes(content))?;
            }
            5 => bytes = bytes.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

fn decode_message(fields: &[Field], bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    for_each_field(bytes, |number, value| {
        let known = fields.iter().find(|(own, ..)| u64::from(*own) == number);
        match known {
            Some((_, name, proto_type)) => insert_field(&mut object, name, *proto_type, &value),
            // An unknown field is rejected unless it has its default: storing a part of the object
            // would be wrong.
            None => is_default(&value, MAX_DEFAULT_DEPTH).then_some(()),
        }
    })?;
    Some(object)
}

/// Returns whether a field has its default value. Encoders write those too.
fn is_default(value: &WireValue<'_>, depth: usize) -> bool {
    match value {
        WireValue::Varint(number) => *number == 0,
        WireValue::Bytes([]) => true,
        WireValue::Bytes(bytes) if depth > 0 => {
            let inner = for_each_field(bytes, |_, value| {
                is_default(&value, depth - 1).then_some(())
            });
            inner.is_some()
        }
        WireValue::Bytes(_) => false,
    }
}

/// Inserts a field into the JSON object. Empty strings and messages are omitted.
fn insert_field(
    object: &mut Map<String, Value>,
    name: &str,
    proto_type: ProtoType,
    value: &WireValue<'_>,
) -> Option<()> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let value = match (proto_type, value) {
        // Encoders write defaults too, and a real API server does not store these.
        (ProtoType::Flag | ProtoType::NonZeroInt, WireValue::Varint(0))
        | (ProtoType::ServerOwned | ProtoType::ServerInt | ProtoType::Time, _) => return Some(()),
        (ProtoType::Bool | ProtoType::Flag, WireValue::Varint(number)) => (*number != 0).into(),
        (ProtoType::Int | ProtoType::NonZeroInt, WireValue::Varint(number)) => (*number).into(),
        (ProtoType::IntOrString, WireValue::Bytes(bytes)) => int_or_string(bytes)?,
        (ProtoType::String, WireValue::Bytes(bytes)) => text(bytes)?.into(),
        (ProtoType::Message(fields), WireValue::Bytes(bytes)) => {
            decode_message(fields, bytes)?.into()
        }
        (ProtoType::Strings, WireValue::Bytes(bytes)) => {
            return push_item(object, name, text(bytes)?.into());
        }
        (ProtoType::Messages(fields), WireValue::Bytes(bytes)) => {
            return push_item(object, name, decode_message(fields, bytes)?.into());
        }
        (ProtoType::StringMap | ProtoType::BytesMap, WireValue::Bytes(bytes)) => {
            let (key, bytes) = map_entry(bytes)?;
            let value = match proto_type {
                ProtoType::StringMap => text(bytes)?.to_owned(),
                _ => BASE64_STANDARD.encode(bytes),
            };
            let map = object.entry(name).or_insert_with(|| Map::new().into());
            map.as_object_mut()?.insert(key.to_owned(), value.into());
            return Some(());
        }
        _ => return None,
    };
    if value != "" && value.as_object().is_none_or(|inner| !inner.is_empty()) {
        object.insert(name.into(), value);
    }
    Some(())
}

/// Appends an item to a list field.
fn push_item(object: &mut Map<String, Value>, name: &str, item: Value) -> Option<()> {
    let list = object
        .entry(name)
        .or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()?.push(item);
    Some(())
}

/// Decodes an `IntOrString`, whose first field tells which of the others is set.
fn int_or_string(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, &[][..]);
    for_each_field(bytes, |field, value| {
        match (field, value) {
            (1, WireValue::Varint(kind)) => is_text = kind != 0,
            (2, WireValue::Varint(found)) => number = found,
            (3, WireValue::Bytes(found)) => text = found,
            _ => {}
        }
        Some(())
    })?;
    if is_text {
        return Some(std::str::from_utf8(text).ok()?.into());
    }
    Some(number.into())
}

/// Decodes an entry of a map.
fn map_entry(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (mut key, mut content) = (&[][..], &[][..]);
    for_each_field(bytes, |number, value| {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => key = bytes,
            (2, WireValue::Bytes(bytes)) => content = bytes,
            _ => {}
        }
        Some(())
    })?;
    Some((std::str::from_utf8(key).ok()?, content))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    decode_varint(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::MessageBuilder;
    use super::super::{MAGIC, envelope, kind_fields};
    use super::*;
    use crate::kind::KINDS;
    use crate::resource::{DEPLOYMENTS, PODS, SECRETS};

    fn secret() -> Vec<u8> {
        let mut metadata = MessageBuilder::default();
        metadata.text(1, &json!("s"));
        metadata.text(2, &json!(""));
        metadata.map(11, &json!({ "a": "b" }));
        metadata.text(14, &json!("f1"));
        metadata.text(14, &json!("f2"));
        let mut entry = MessageBuilder::default();
        entry.bytes(1, b"k");
        entry.bytes(2, &[0, 255]);
        let mut secret = MessageBuilder::default();
        secret.message(1, &metadata);
        secret.message(2, &entry);
        secret.text(3, &json!("Opaque"));
        secret.number(5, &json!(true));
        envelope(&KINDS[&SECRETS], "Secret", &secret)
    }

    #[test]
    fn decodes_encoded_object() {
        let fields = kind_fields(&KINDS[&SECRETS]).unwrap();
        let decoded = decode(fields, &secret()).unwrap();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "s", "labels": { "a": "b" }, "finalizers": ["f1", "f2"] },
            "data": { "k": "AP8=" },
            "type": "Opaque",
            "immutable": true,
        });
        assert_eq!(decoded, expected);
    }

    #[test]
    fn rejects_unknown_fields_unless_default() {
        let pod = |more: &dyn Fn(&mut MessageBuilder)| {
            let mut spec = MessageBuilder::default();
            let mut container = MessageBuilder::default();
            container.text(1, &json!("c"));
            more(&mut container);
            spec.message(2, &container);
            let mut pod = MessageBuilder::default();
            pod.message(2, &spec);
            let fields = kind_fields(&KINDS[&PODS]).unwrap();
            decode(fields, &envelope(&KINDS[&PODS], "Pod", &pod))
        };
        let expected = json!([{ "name": "c" }]);
        let mut nothing = MessageBuilder::default();
        nothing.number(1, &json!(false));
        nothing.message(2, &MessageBuilder::default());
        let with_defaults = pod(&|container| container.message(8, &nothing)).unwrap();
        assert_eq!(with_defaults["spec"]["containers"], expected);
        assert_eq!(pod(&|container| container.text(5, &json!("/tmp"))), None);
        let mut deep = MessageBuilder::default();
        for _ in 0..500 {
            let mut outer = MessageBuilder::default();
            outer.message(1, &deep);
            deep = outer;
        }
        assert_eq!(pod(&|container| container.message(8, &deep)), None);
    }

    #[test]
    fn omits_defaults_that_json_omits() {
        let mut port = MessageBuilder::default();
        port.number(2, &json!(0));
        port.number(3, &json!(0));
        let mut container = MessageBuilder::default();
        container.message(6, &port);
        container.number(16, &json!(false));
        container.number(18, &json!(true));
        let mut spec = MessageBuilder::default();
        spec.message(2, &container);
        let mut template = MessageBuilder::default();
        template.message(2, &spec);
        let mut deployment_spec = MessageBuilder::default();
        deployment_spec.number(1, &json!(0));
        deployment_spec.message(3, &template);
        let mut deployment = MessageBuilder::default();
        deployment.message(2, &deployment_spec);
        let kind = &KINDS[&DEPLOYMENTS];
        let body = envelope(kind, "Deployment", &deployment);
        let decoded = decode(kind_fields(kind).unwrap(), &body).unwrap();
        let expected = json!({
            "replicas": 0,
            "template": {
                "spec": { "containers": [{ "ports": [{ "containerPort": 0 }], "tty": true }] },
            },
        });
        assert_eq!(decoded["spec"], expected);
    }

    #[test]
    fn malformed_input_never_panics() {
        let fields = kind_fields(&KINDS[&SECRETS]).unwrap();
        let encoded = secret();
        for length in 0..encoded.len() {
            // The object may end after any field.
            let _ = decode(fields, &encoded[..length]);
        }
        for wrong in [
            &b"{}"[..],
            b"k8s\0\xff",
            b"k8s\0\x12\xff\xff\xff\xff\x0f",
            b"k8s\0\x0b",
        ] {
            assert_eq!(decode(fields, wrong), None, "{wrong:?}");
        }
        assert_eq!(decode(fields, MAGIC), Some(json!({})));
    }
}
