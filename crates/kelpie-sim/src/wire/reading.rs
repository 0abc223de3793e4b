//! Reading protobuf, for the kinds that kubectl writes so: those it creates without a file.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::schema::{Field, Fields, Shape, TYPE};

/// No message that says nothing goes deeper.
const DEPTH: usize = 4;

/// The object in a request, as JSON; `None` if it cannot be read, or says what is not known here.
pub(crate) fn read(fields: Fields, body: &[u8]) -> Option<Value> {
    let envelope = body.strip_prefix(super::MAGIC)?;
    let (mut said, mut content) = (Map::new(), &[][..]);
    each(envelope, |number, part| {
        match (number, part) {
            (1, Part::Bytes(bytes)) => said = message(TYPE, bytes)?,
            (2, Part::Bytes(bytes)) => content = bytes,
            _ => {}
        }
        Some(())
    })?;
    let mut object = message(fields, content)?;
    object.extend(said);
    Some(Value::Object(object))
}

/// What a field holds.
enum Part<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Shows every field of a message that is a number or bytes; `None` if it is none.
fn each<'a>(mut bytes: &'a [u8], mut see: impl FnMut(u64, Part<'a>) -> Option<()>) -> Option<()> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => see(key >> 3, Part::Number(varint(&mut bytes)?))?,
            1 => bytes = bytes.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                see(key >> 3, Part::Bytes(content))?;
            }
            5 => bytes = bytes.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

fn message(fields: &[Field], bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    each(bytes, |number, part| {
        let known = fields.iter().find(|(own, ..)| *own == number);
        match known {
            Some((_, name, shape)) => put(&mut object, name, *shape, &part),
            // Rather nothing at all than an object that is not the one that was sent.
            None => is_nothing(&part, DEPTH).then_some(()),
        }
    })?;
    Some(object)
}

/// Whether a field is as it is when nobody says anything: such are written too.
fn is_nothing(part: &Part<'_>, depth: usize) -> bool {
    match part {
        Part::Number(number) => *number == 0,
        Part::Bytes([]) => true,
        Part::Bytes(bytes) if depth > 0 => {
            let inner = each(bytes, |_, part| is_nothing(&part, depth - 1).then_some(()));
            inner.is_some()
        }
        Part::Bytes(_) => false,
    }
}

/// Puts a field where it belongs. Those that are empty are written too, and mean nothing.
fn put(object: &mut Map<String, Value>, name: &str, shape: Shape, part: &Part<'_>) -> Option<()> {
    let bytes = match (shape, part) {
        (Shape::Ours, _) => return Some(()),
        (Shape::Truth, Part::Number(number)) => {
            object.insert(name.into(), (*number != 0).into());
            return Some(());
        }
        (Shape::Number, Part::Number(number)) => {
            object.insert(name.into(), (*number).into());
            return Some(());
        }
        (_, Part::Bytes(bytes)) => *bytes,
        (_, Part::Number(_)) => return None,
    };
    match shape {
        Shape::Truth | Shape::Number | Shape::Ours => return None,
        Shape::NumberOrText => {
            object.insert(name.into(), number_or_text(bytes)?);
        }
        Shape::Text => {
            let text = std::str::from_utf8(bytes).ok()?;
            if !text.is_empty() {
                object.insert(name.into(), text.into());
            }
        }
        Shape::Message(fields) => {
            let inner = message(fields, bytes)?;
            if !inner.is_empty() {
                object.insert(name.into(), Value::Object(inner));
            }
        }
        Shape::Texts => push(object, name, std::str::from_utf8(bytes).ok()?.into())?,
        Shape::Messages(fields) => {
            let inner = message(fields, bytes)?;
            push(object, name, Value::Object(inner))?;
        }
        Shape::Map | Shape::Data => {
            let (key, value) = entry(bytes)?;
            let value = match shape {
                Shape::Map => std::str::from_utf8(value).ok()?.to_owned(),
                _ => BASE64_STANDARD.encode(value),
            };
            let map = object.entry(name).or_insert_with(|| Map::new().into());
            map.as_object_mut()?.insert(key.to_owned(), value.into());
        }
    }
    Some(())
}

/// Adds to a list.
fn push(object: &mut Map<String, Value>, name: &str, value: Value) -> Option<()> {
    let list = object
        .entry(name)
        .or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()?.push(value);
    Some(())
}

/// The first field says which of the others counts.
fn number_or_text(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, &[][..]);
    each(bytes, |field, part| {
        match (field, part) {
            (1, Part::Number(kind)) => is_text = kind != 0,
            (2, Part::Number(found)) => number = found,
            (3, Part::Bytes(found)) => text = found,
            _ => {}
        }
        Some(())
    })?;
    if is_text {
        return Some(std::str::from_utf8(text).ok()?.into());
    }
    Some(number.into())
}

/// An entry of a map: its name and what stands there.
fn entry(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (mut key, mut value) = (&[][..], &[][..]);
    each(bytes, |number, part| {
        match (number, part) {
            (1, Part::Bytes(bytes)) => key = bytes,
            (2, Part::Bytes(bytes)) => value = bytes,
            _ => {}
        }
        Some(())
    })?;
    Some((std::str::from_utf8(key).ok()?, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::Message;
    use super::super::{MAGIC, envelope, fields};
    use super::*;
    use crate::kind::KINDS;
    use crate::resource::{PODS, SECRETS};

    fn secret() -> Vec<u8> {
        let mut metadata = Message::default();
        metadata.text(1, &json!("s"));
        metadata.text(2, &json!(""));
        metadata.map(11, &json!({ "a": "b" }));
        metadata.text(14, &json!("f1"));
        metadata.text(14, &json!("f2"));
        let mut entry = Message::default();
        entry.bytes(1, b"k");
        entry.bytes(2, &[0, 255]);
        let mut secret = Message::default();
        secret.message(1, &metadata);
        secret.message(2, &entry);
        secret.text(3, &json!("Opaque"));
        secret.number(5, &json!(true));
        envelope(&KINDS[&SECRETS], "Secret", &secret)
    }

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let fields = fields(&KINDS[&SECRETS]).unwrap();
        let read = read(fields, &secret()).unwrap();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "s", "labels": { "a": "b" }, "finalizers": ["f1", "f2"] },
            "data": { "k": "AP8=" },
            "type": "Opaque",
            "immutable": true,
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_not_known_is_refused_unless_it_says_nothing() {
        let pod = |more: &dyn Fn(&mut Message)| {
            let mut spec = Message::default();
            let mut container = Message::default();
            container.text(1, &json!("c"));
            more(&mut container);
            spec.message(2, &container);
            let mut pod = Message::default();
            pod.message(2, &spec);
            let fields = fields(&KINDS[&PODS]).unwrap();
            read(fields, &envelope(&KINDS[&PODS], "Pod", &pod))
        };
        let expected = json!([{ "name": "c" }]);
        let mut nothing = Message::default();
        nothing.number(1, &json!(false));
        nothing.message(2, &Message::default());
        let silent = pod(&|container| container.message(8, &nothing)).unwrap();
        assert_eq!(silent["spec"]["containers"], expected);
        assert_eq!(pod(&|container| container.text(5, &json!("/tmp"))), None);
        let mut deep = Message::default();
        for _ in 0..500 {
            let mut outer = Message::default();
            outer.message(1, &deep);
            deep = outer;
        }
        assert_eq!(pod(&|container| container.message(8, &deep)), None);
    }

    #[test]
    fn what_is_cut_off_or_not_protobuf_is_refused_and_never_a_panic() {
        let fields = fields(&KINDS[&SECRETS]).unwrap();
        let whole = secret();
        for length in 0..whole.len() {
            // Where a field ends, so may the object.
            let _ = read(fields, &whole[..length]);
        }
        for wrong in [
            &b"{}"[..],
            b"k8s\0\xff",
            b"k8s\0\x12\xff\xff\xff\xff\x0f",
            b"k8s\0\x0b",
        ] {
            assert_eq!(read(fields, wrong), None, "{wrong:?}");
        }
        assert_eq!(read(fields, MAGIC), Some(json!({})));
    }
}
