//! The grace period of a cluster, as its object says it.

use std::fmt::Display;
use std::time::Duration;

use kelpie_config::{GoDuration, prober::GRACE_SINCE_1_32};
use kelpie_kube::projection::Field;

/// The annotation by which the object of a cluster sets its grace period.
pub(super) const GRACE_ANNOTATION: &str = "kelpie.dev/node-monitor-grace-period";

/// The longest grace period that an annotation may set. With a longer one the prober would take
/// dead nodes for healthy ones.
const LONGEST: Duration = Duration::from_hours(1);

/// Reads a grace period in Go's syntax for durations.
pub(super) fn read(grace: &Field<'_>) -> Result<Duration, String> {
    let text = grace.text()?;
    let invalid = |reason: &dyn Display| {
        grace.problem(&format!(
            "`{text}` {reason}; it has to be a positive duration such as 40s"
        ))
    };
    match text.parse::<GoDuration>() {
        Ok(GoDuration(duration)) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err(invalid(&"is zero")),
        Err(error) => Err(invalid(&error)),
    }
}

/// Reads the annotation; `None` if the object has none.
pub(super) fn read_annotation(object: &Field<'_>) -> Result<Option<Duration>, String> {
    let annotations = object.of("metadata")?.of("annotations")?;
    let grace = annotations.of(GRACE_ANNOTATION)?;
    if !grace.is_present() {
        return Ok(None);
    }
    let duration = read(&grace)?;
    if duration > LONGEST {
        return Err(grace.problem("is longer than 1h"));
    }
    Ok(Some(duration))
}

/// Returns the default of kube-controller-manager if the version is known to have the longer one.
/// A version that cannot be read counts as old: a grace period that is too long is dangerous, one
/// that is too short only leads to early fences.
pub(super) fn of_version(version: &str) -> Option<Duration> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', '+']);
    let mut number = || parts.next()?.parse::<u32>().ok();
    let is_newer = (number()?, number()?) >= (1, 32);
    is_newer.then_some(GRACE_SINCE_1_32)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_decides_on_the_default() {
        let newer = Some(Duration::from_secs(50));
        for (version, expected) in [
            ("v1.31.9", None),
            ("v1.32.0", newer),
            ("1.32.0", newer),
            ("v1.33.1+rke2r1", newer),
            ("v2.0.0", newer),
            ("v1.32", newer),
            ("v1", None),
            ("", None),
            ("latest", None),
        ] {
            assert_eq!(of_version(version), expected, "{version}");
        }
    }

    #[test]
    fn annotation_is_a_bounded_duration() {
        let read = |text: &str| {
            let object = json!({ "metadata": { "annotations": { GRACE_ANNOTATION: text } } });
            read_annotation(&Field::new("", &object))
        };
        assert_eq!(read("45s"), Ok(Some(Duration::from_secs(45))));
        for text in ["", "45", "0s", "-1s", "61m"] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(GRACE_ANNOTATION), "{problem}");
        }
        assert_eq!(read_annotation(&Field::new("", &json!({}))), Ok(None));
    }
}
