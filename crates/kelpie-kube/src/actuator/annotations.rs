//! The annotations that record a fence on its target. They are dependency-watchdog's, so that
//! either program can restore what the other fenced.

use kelpie_core::prober::Setting;
use kelpie_core::prober::fence::{RecordedSetting, ResourceVersion, TargetObject};

/// The setting to restore, recorded before a target is fenced.
pub(super) const REPLICAS_ANNOTATION: &str = "dependency-watchdog.gardener.cloud/replicas";
/// The marker: a watchdog fenced this target, not its owner.
pub(super) const MARKER_ANNOTATION: &str =
    "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// Set by the owner of a target to have watchdogs leave it alone.
pub const IGNORE_ANNOTATION: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// Builds a target from its settings and annotations.
pub(super) fn target_object<'a>(
    setting: Setting,
    effective: Setting,
    version: ResourceVersion,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> TargetObject {
    TargetObject {
        setting,
        effective,
        version,
        marked: annotation(MARKER_ANNOTATION).is_some(),
        recorded: recorded(annotation(REPLICAS_ANNOTATION)),
        ignored: annotation(IGNORE_ANNOTATION).is_some_and(is_true_in_go),
        is_kept: false,
        uid: Box::default(),
    }
}

fn recorded(annotation: Option<&str>) -> RecordedSetting {
    match annotation.map(str::parse::<u32>) {
        None => RecordedSetting::Absent,
        Some(Ok(count)) if (1..=i32::MAX.unsigned_abs()).contains(&count) => {
            RecordedSetting::Value(Setting(count))
        }
        Some(_) => RecordedSetting::Corrupt,
    }
}

/// Returns whether Go's `strconv.ParseBool` reads the text as true.
pub(super) fn is_true_in_go(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(key: &'static str, value: &'static str) -> TargetObject {
        let one = Setting(1);
        target_object(one, one, ResourceVersion::new("7"), move |name| {
            (name == key).then_some(value)
        })
    }

    #[test]
    fn record_is_a_positive_count_or_corrupt() {
        let rows = [
            ("3", RecordedSetting::Value(Setting(3))),
            ("2147483647", RecordedSetting::Value(Setting(2_147_483_647))),
            ("0", RecordedSetting::Corrupt),
            ("-1", RecordedSetting::Corrupt),
            ("2147483648", RecordedSetting::Corrupt),
            ("three", RecordedSetting::Corrupt),
            ("", RecordedSetting::Corrupt),
        ];
        for (text, recorded) in rows {
            let object = annotated(REPLICAS_ANNOTATION, text);
            assert_eq!(object.recorded, recorded, "{text:?}");
        }
        let unrecorded = annotated(MARKER_ANNOTATION, "");
        assert_eq!(unrecorded.recorded, RecordedSetting::Absent);
    }

    #[test]
    fn ignore_annotation_is_a_go_boolean() {
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert!(annotated(IGNORE_ANNOTATION, yes).ignored, "{yes}");
        }
        for no in ["0", "f", "false", "yes", "tRUE", "", " true"] {
            assert!(!annotated(IGNORE_ANNOTATION, no).ignored, "{no}");
        }
    }

    #[test]
    fn marker_counts_by_presence() {
        assert!(annotated(MARKER_ANNOTATION, "").marked);
        assert!(!annotated(IGNORE_ANNOTATION, "true").marked);
    }
}
