//! Building protobuf messages.

use kelpie_core::Time;
use prost::encoding::encode_varint;
use serde_json::Value;

use crate::clock;

/// A protobuf message under construction.
#[derive(Debug, Default)]
pub(super) struct MessageBuilder(Vec<u8>);

impl MessageBuilder {
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

    /// Appends a string field, if the value is a string.
    pub(super) fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Appends a varint field, if the value is a number or a boolean.
    pub(super) fn number(&mut self, field: u32, value: &Value) {
        let number = match value {
            Value::Bool(value) => Some(u64::from(*value)),
            // A negative number is encoded as the unsigned number with the same bits.
            value => value.as_i64().map(i64::cast_unsigned),
        };
        if let Some(number) = number {
            self.varint(u64::from(field << 3));
            self.varint(number);
        }
    }

    /// Appends a timestamp, if the value is a time.
    pub(super) fn time(&mut self, field: u32, value: &Value) {
        if let Some(time) = value.as_str().and_then(clock::parse) {
            self.instant(field, time);
        }
    }

    pub(super) fn instant(&mut self, field: u32, time: Time) {
        let micros = time.as_micros();
        let mut message = Self::default();
        message.number(1, &micros.div_euclid(1_000_000).into());
        message.number(2, &(micros.rem_euclid(1_000_000) * 1_000).into());
        self.message(field, &message);
    }

    /// Appends a map of strings.
    pub(super) fn map(&mut self, field: u32, value: &Value) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let mut entry = Self::default();
            entry.bytes(1, key.as_bytes());
            entry.text(2, value);
            self.message(field, &entry);
        }
    }

    fn varint(&mut self, number: u64) {
        encode_varint(number, &mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encodes_strings_and_varints() {
        let mut message = MessageBuilder::default();
        message.number(1, &json!(150));
        message.text(2, &json!("testing"));
        message.number(3, &json!(true));
        message.text(4, &json!(null));
        assert_eq!(message.as_bytes(), b"\x08\x96\x01\x12\x07testing\x18\x01");
        let mut message = MessageBuilder::default();
        message.number(1, &json!(-1));
        assert_eq!(message.as_bytes().len(), 11);
    }

    #[test]
    fn encodes_time_as_seconds_and_nanoseconds() {
        let mut message = MessageBuilder::default();
        message.time(4, &json!("1970-01-01T00:00:02.000003Z"));
        assert_eq!(message.as_bytes(), [0x22, 5, 0x08, 2, 0x10, 0xb8, 0x17]);
    }
}
