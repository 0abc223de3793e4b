//! What is seen of a target.

use serde::Serialize;

/// Count of replicas to restore, recorded before a target is scaled down. Shared with
/// dependency-watchdog, so that either can restore what the other fenced.
pub const REPLICAS_ANNOTATION: &str = "dependency-watchdog.gardener.cloud/replicas";
/// The marker: this target was scaled down by a watchdog, not by its owner.
pub const MARKER_ANNOTATION: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The owner's wish that a watchdog leaves the target alone.
pub const IGNORE_ANNOTATION: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// A `resourceVersion`: what a write may rest on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Version(Box<str>);

impl Version {
    /// As the API server wrote it.
    pub fn new(version: &str) -> Self {
        Self(version.into())
    }

    /// As the API server wants it back.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a read of a target found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Sight {
    /// There is no such object.
    Missing,
    /// The object.
    Present(Present),
}

/// What is used of a target that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Present {
    /// Desired replicas.
    pub replicas: u32,
    /// Ready replicas.
    pub ready: u32,
    /// The version that was read.
    pub version: Version,
    /// It carries our marker.
    pub marked: bool,
    /// The recorded count.
    pub recorded: Recorded,
    /// Its owner wants it left alone.
    pub ignored: bool,
    /// Its uid, for those who tell people about it; empty if it is not known.
    #[serde(skip)]
    pub uid: Box<str>,
}

/// What the record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Recorded {
    /// There is none.
    Absent,
    /// This count.
    Count(u32),
    /// Something that is not a positive count.
    Corrupt,
}

impl Present {
    /// From the counts and annotations of an object.
    pub fn new<'a>(
        replicas: u32,
        ready: u32,
        version: Version,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Self {
        Self {
            replicas,
            ready,
            version,
            marked: annotation(MARKER_ANNOTATION).is_some(),
            recorded: match annotation(REPLICAS_ANNOTATION).map(str::parse::<u32>) {
                None => Recorded::Absent,
                Some(Ok(count)) if (1..=i32::MAX.unsigned_abs()).contains(&count) => {
                    Recorded::Count(count)
                }
                Some(_) => Recorded::Corrupt,
            },
            ignored: annotation(IGNORE_ANNOTATION).is_some_and(is_true_in_go),
            uid: Box::default(),
        }
    }

    /// What a record makes of it.
    pub(crate) fn mark(&mut self, replicas: u32) {
        self.marked = true;
        self.recorded = Recorded::Count(replicas);
    }

    /// Nothing that a decision rests on differs; only the version moved on.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.replicas, self.marked, self.recorded, self.ignored)
            == (other.replicas, other.marked, other.recorded, other.ignored)
    }
}

/// What Go's `strconv.ParseBool` takes for true.
fn is_true_in_go(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(key: &'static str, value: &'static str) -> Present {
        Present::new(1, 1, Version::new("7"), move |name| {
            (name == key).then_some(value)
        })
    }

    #[test]
    fn the_record_is_a_positive_count_or_corrupt() {
        let rows = [
            ("3", Recorded::Count(3)),
            ("2147483647", Recorded::Count(2_147_483_647)),
            ("0", Recorded::Corrupt),
            ("-1", Recorded::Corrupt),
            ("2147483648", Recorded::Corrupt),
            ("three", Recorded::Corrupt),
            ("", Recorded::Corrupt),
        ];
        for (text, recorded) in rows {
            assert_eq!(
                present(REPLICAS_ANNOTATION, text).recorded,
                recorded,
                "{text:?}"
            );
        }
        assert_eq!(present(MARKER_ANNOTATION, "").recorded, Recorded::Absent);
    }

    #[test]
    fn ignore_scaling_is_read_as_go_reads_it() {
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert!(present(IGNORE_ANNOTATION, yes).ignored, "{yes}");
        }
        for no in ["0", "f", "false", "yes", "tRUE", "", " true"] {
            assert!(!present(IGNORE_ANNOTATION, no).ignored, "{no}");
        }
    }

    #[test]
    fn the_marker_counts_by_its_presence() {
        assert!(present(MARKER_ANNOTATION, "").marked);
        assert!(!present(IGNORE_ANNOTATION, "true").marked);
    }
}
