//! Deserializes what can be read of a status. One value of an unexpected type must not make the
//! others unreadable: they would be lost with the next write.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Readable(T),
    Unreadable(IgnoredAny),
}

impl<T> Lenient<T> {
    fn readable(self) -> Option<T> {
        match self {
            Self::Readable(value) => Some(value),
            Self::Unreadable(_) => None,
        }
    }
}

/// Reads a value; one of another type counts as missing.
pub(super) fn value<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    let value = Lenient::deserialize(deserializer)?;
    Ok(value.readable().unwrap_or_default())
}

/// Reads the items of a list that are readable.
pub(super) fn list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let items: Vec<Lenient<T>> = value(deserializer)?;
    Ok(items.into_iter().filter_map(Lenient::readable).collect())
}

/// Reads the entries of a map that are readable.
pub(super) fn map<'de, T, D>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let entries: BTreeMap<String, Lenient<T>> = value(deserializer)?;
    let entries = entries.into_iter();
    Ok(entries
        .filter_map(|(key, value)| Some((key, value.readable()?)))
        .collect())
}
