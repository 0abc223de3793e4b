//! The records on a Lease, as its annotation has them.

use std::collections::BTreeMap;

use kelpie_core::prober::fence::{KeptRecord, ResourceVersion};
use kelpie_core::prober::{ResourceRef, Setting};
use serde_json::{Value, json};

/// The annotation of a Lease that has the records of fences: by target and namespace the setting,
/// the beginning of the target's uid and the version on which the fence rests.
pub const RECORDS_ANNOTATION: &str = "kelpie.dev/fence-records";
/// The limit on the length of the annotation. All annotations of an object together may have 256
/// KiB.
const MAX_LENGTH: usize = 230_000;

/// A target with a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKey {
    /// The namespace of the target.
    pub namespace: String,
    /// The target in this namespace.
    pub target: ResourceRef,
}

/// The records on a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSet(BTreeMap<RecordKey, KeptRecord>);

impl RecordSet {
    /// Reads an annotation. Entries that are no records are left out; the second value is true if
    /// there are some.
    pub(super) fn parse(annotation: &str) -> (Self, bool) {
        let mut records = Self::default();
        if annotation.is_empty() {
            return (records, false);
        }
        let Ok(Value::Object(targets)) = serde_json::from_str(annotation) else {
            return (records, true);
        };
        let mut has_bad = false;
        for (target, of_target) in &targets {
            let (Some(target), Value::Object(namespaces)) = (parse_target(target), of_target)
            else {
                has_bad = true;
                continue;
            };
            for (namespace, record) in namespaces {
                let key = RecordKey {
                    namespace: namespace.clone(),
                    target: target.clone(),
                };
                match parse_record(record) {
                    Some(record) => {
                        records.0.insert(key, record);
                    }
                    None => has_bad = true,
                }
            }
        }
        (records, has_bad)
    }

    /// Returns the annotation; `None` without records.
    pub(super) fn annotation(&self) -> Option<String> {
        let mut targets: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
        for (key, record) in &self.0 {
            let ResourceRef {
                api_version,
                kind,
                name,
            } = &key.target;
            let of_target = targets.entry(format!("{api_version} {kind} {name}"));
            let version = record.version().as_str();
            let value = json!([record.setting().0, record.uid(), version]);
            of_target.or_default().insert(&key.namespace, value);
        }
        (!targets.is_empty()).then(|| json!(targets).to_string())
    }

    /// Adds a record.
    pub(super) fn keep(&mut self, key: &RecordKey, record: &KeptRecord) -> Result<(), Refusal> {
        match self.0.get(key) {
            Some(present) if present == record => return Ok(()),
            Some(present) if !record.may_replace(present) => return Err(Refusal::Outdated),
            _ => {}
        }
        let before = self.0.insert(key.clone(), record.clone());
        if self.length() <= MAX_LENGTH {
            return Ok(());
        }
        match before {
            Some(before) => self.0.insert(key.clone(), before),
            None => self.0.remove(key),
        };
        Err(Refusal::Full)
    }

    /// Drops a record. Another record of the same target stays.
    pub(super) fn drop_record(&mut self, key: &RecordKey, record: &KeptRecord) {
        if self.0.get(key) == Some(record) {
            self.0.remove(key);
        }
    }

    /// Returns at least the length of the annotation, without the names of the targets.
    fn length(&self) -> usize {
        let length = |(key, record): (&RecordKey, &KeptRecord)| {
            let texts = [&key.namespace, record.uid(), record.version().as_str()];
            // Quotes, commas and the setting.
            texts.iter().map(|text| text.len()).sum::<usize>() + 22
        };
        self.0.iter().map(length).sum()
    }

    /// Returns the record of a target.
    pub fn get(&self, key: &RecordKey) -> Option<&KeptRecord> {
        self.0.get(key)
    }

    /// Returns the targets with a record.
    pub fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        self.0.keys()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The reason why a record is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is a newer record of the target.
    Outdated,
    /// The annotation would be too long.
    Full,
}

fn parse_target(text: &str) -> Option<ResourceRef> {
    let mut parts = text.split(' ').map(str::to_owned);
    let target = ResourceRef {
        api_version: parts.next()?,
        kind: parts.next()?,
        name: parts.next().filter(|name| !name.is_empty())?,
    };
    parts.next().is_none().then_some(target)
}

fn parse_record(record: &Value) -> Option<KeptRecord> {
    let [setting, uid, version] = record.as_array()?.as_slice() else {
        return None;
    };
    let setting = u32::try_from(setting.as_u64()?).ok()?;
    let is_setting = (1..=i32::MAX.unsigned_abs()).contains(&setting);
    let version = version.as_str().filter(|version| !version.is_empty())?;
    let version = ResourceVersion::new(version);
    KeptRecord::new(uid.as_str()?, Setting(setting), version).filter(|_| is_setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str) -> RecordKey {
        RecordKey {
            namespace: namespace.into(),
            target: ResourceRef {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: "kube-controller-manager".into(),
            },
        }
    }

    fn record(setting: u32, version: &str) -> KeptRecord {
        let version = ResourceVersion::new(version);
        KeptRecord::new("5e1f0c2a-3b4d", Setting(setting), version).unwrap()
    }

    #[test]
    fn annotation_round_trips() {
        let mut records = RecordSet::default();
        assert_eq!(records.annotation(), None);
        records.keep(&key("b"), &record(2, "9")).unwrap();
        records.keep(&key("a"), &record(1, "7")).unwrap();
        let text = records.annotation().unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"apps/v1 Deployment kube-controller-manager":"#,
                r#"{"a":[1,"5e1f0c2a","7"],"b":[2,"5e1f0c2a","9"]}}"#
            )
        );
        assert_eq!(RecordSet::parse(&text), (records, false));
    }

    #[test]
    fn bad_entries_are_left_out() {
        let good = r#""a":[1,"5e1f0c2a","7"]"#;
        for bad in [
            r#""b":[0,"5e1f0c2a","7"]"#,
            r#""b":[2147483648,"5e1f0c2a","7"]"#,
            r#""b":[1,"","7"]"#,
            r#""b":[1,"5e1f0c2a",""]"#,
            r#""b":[1,"5e1f0c2a"]"#,
            r#""b":"1""#,
        ] {
            let target = "apps/v1 Deployment kube-controller-manager";
            let text = format!(r#"{{"{target}":{{{good},{bad}}}}}"#);
            let (records, has_bad) = RecordSet::parse(&text);
            assert_eq!((records.len(), has_bad), (1, true), "{bad}");
            assert_eq!(records.get(&key("a")), Some(&record(1, "7")));
        }
        for bad in ["[", "[]", "7", r#"{"Deployment":{}}"#, r#"{"a b c d":{}}"#] {
            assert_eq!(RecordSet::parse(bad), (RecordSet::default(), true), "{bad}");
        }
        assert_eq!(RecordSet::parse(""), (RecordSet::default(), false));
    }

    #[test]
    fn older_record_replaces_no_newer_one() {
        let mut records = RecordSet::default();
        records.keep(&key("a"), &record(1, "9")).unwrap();
        let refused = records.keep(&key("a"), &record(2, "7"));
        assert_eq!(refused, Err(Refusal::Outdated));
        records.drop_record(&key("a"), &record(1, "7"));
        assert_eq!(records.get(&key("a")), Some(&record(1, "9")));
        records.keep(&key("a"), &record(2, "10")).unwrap();
        records.drop_record(&key("a"), &record(2, "10"));
        assert!(records.is_empty());
    }

    #[test]
    fn three_thousand_records_fit() {
        let mut records = RecordSet::default();
        let mut number = 0;
        let refused = loop {
            let name = format!("shoot--project-{}--cluster-{number}", number % 50);
            if let Err(refusal) = records.keep(&key(&name), &record(1, "1234567890")) {
                break refusal;
            }
            number += 1;
        };
        assert_eq!(refused, Refusal::Full);
        assert!(number >= 3_000, "{number}");
        assert!(records.annotation().unwrap().len() < 240_000);
    }
}
