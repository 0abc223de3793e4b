//! The reasons of components' conditions.

use std::fmt;

use super::StandardCondition;

/// The reason of a component's condition. The order of the variants up to `ForwardFailure` is the
/// order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionReason {
    /// The collector forwards metrics.
    ForwardSuccessful,
    /// The operator has rolled out the collector, which has not reported since.
    UpdateSuccessful,
    /// A reason that Kelpie does not know.
    Unknown,
    /// The operator could not roll out the collector.
    UpdateFailure,
    /// The collector cannot forward metrics.
    ForwardFailure,
    /// The collector is switched off.
    DisabledMetrics,
    /// The cluster has no Prometheus to collect from.
    NotSupported,
}

impl ConditionReason {
    /// Parses the reason of a condition. The spellings of older writers are accepted.
    pub fn parse(text: &str) -> Self {
        match text {
            // With CMO, the shipped operator tells that another client keeps undoing its changes to
            // OpenShift's monitoring, or has stopped to.
            "UpdateSuccessful" | "UpdateSuccesful" | "CMOReconcileLoopStopped" => {
                Self::UpdateSuccessful
            }
            "UpdateFailure" | "UpdateFailed" | "CMOReconcileLoopDetected" => Self::UpdateFailure,
            "ForwardSuccessful" => Self::ForwardSuccessful,
            "ForwardFailure" | "ForwardFailed" => Self::ForwardFailure,
            "DisabledMetrics" | "Disabled" => Self::DisabledMetrics,
            "NotSupported" => Self::NotSupported,
            _ => Self::Unknown,
        }
    }

    /// Returns the spelling that Kelpie writes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UpdateSuccessful => "UpdateSuccessful",
            Self::UpdateFailure => "UpdateFailure",
            Self::ForwardSuccessful => "ForwardSuccessful",
            Self::ForwardFailure => "ForwardFailure",
            Self::DisabledMetrics => "DisabledMetrics",
            Self::NotSupported => "NotSupported",
            Self::Unknown => "Unknown",
        }
    }

    /// Returns the standard condition of an addon for which this reason is decisive.
    pub const fn standard_condition(self) -> StandardCondition {
        match self {
            Self::ForwardSuccessful => StandardCondition::Available,
            Self::UpdateSuccessful => StandardCondition::Progressing,
            Self::UpdateFailure | Self::ForwardFailure | Self::Unknown => {
                StandardCondition::Degraded
            }
            Self::DisabledMetrics => StandardCondition::Disabled,
            Self::NotSupported => StandardCondition::NotSupported,
        }
    }
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_are_parsed_but_never_written() {
        for (old, new) in [
            ("UpdateSuccesful", "UpdateSuccessful"),
            ("UpdateFailed", "UpdateFailure"),
            ("ForwardFailed", "ForwardFailure"),
            ("Disabled", "DisabledMetrics"),
            ("CMOReconcileLoopDetected", "UpdateFailure"),
            ("CMOReconcileLoopStopped", "UpdateSuccessful"),
        ] {
            assert_eq!(ConditionReason::parse(old).as_str(), new);
        }
        for written in [
            "ForwardSuccessful",
            "UpdateSuccessful",
            "UpdateFailure",
            "ForwardFailure",
            "DisabledMetrics",
            "NotSupported",
        ] {
            assert_eq!(ConditionReason::parse(written).as_str(), written);
        }
        for unknown in ["", "forwardsuccessful", "CMOReconcileLoop"] {
            assert_eq!(ConditionReason::parse(unknown), ConditionReason::Unknown);
        }
    }
}
