//! Writing protobuf, field by field.

use serde_json::Value;

use crate::clock;

/// A message as it grows.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field << 3 | 2));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// A text, if it is one.
    pub(super) fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// A number or a truth, if it is one.
    pub(super) fn number(&mut self, field: u32, value: &Value) {
        let number = match value {
            Value::Bool(value) => Some(u64::from(*value)),
            // A negative one is written as the unsigned one with the same bits.
            value => value.as_i64().map(i64::cast_unsigned),
        };
        if let Some(number) = number {
            self.varint(u64::from(field << 3));
            self.varint(number);
        }
    }

    /// A time, if it is one: seconds and nanoseconds.
    pub(super) fn time(&mut self, field: u32, value: &Value) {
        let Some(time) = value.as_str().and_then(clock::parse) else {
            return;
        };
        let micros = time.as_micros();
        let mut message = Self::default();
        message.number(1, &micros.div_euclid(1_000_000).into());
        message.number(2, &(micros.rem_euclid(1_000_000) * 1_000).into());
        self.message(field, &message);
    }

    /// Texts by names.
    pub(super) fn map(&mut self, field: u32, value: &Value) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let mut entry = Self::default();
            entry.bytes(1, key.as_bytes());
            entry.text(2, value);
            self.message(field, &entry);
        }
    }

    /// Each of a list, written by `write`.
    pub(super) fn each(&mut self, field: u32, list: &Value, write: impl Fn(&Value) -> Self) {
        for thing in list.as_array().into_iter().flatten() {
            self.message(field, &write(thing));
        }
    }

    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_written_as_the_encoding_has_it() {
        let mut message = Message::default();
        message.number(1, &json!(150));
        message.text(2, &json!("testing"));
        message.number(3, &json!(true));
        message.text(4, &json!(null));
        assert_eq!(message.as_bytes(), b"\x08\x96\x01\x12\x07testing\x18\x01");
        let mut message = Message::default();
        message.number(1, &json!(-1));
        assert_eq!(message.as_bytes().len(), 11);
    }

    #[test]
    fn a_time_has_seconds_and_nanoseconds() {
        let mut message = Message::default();
        message.time(4, &json!("1970-01-01T00:00:02.000003Z"));
        assert_eq!(message.as_bytes(), [0x22, 5, 0x08, 2, 0x10, 0xb8, 0x17]);
    }
}
