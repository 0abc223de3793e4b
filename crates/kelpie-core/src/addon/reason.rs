//! Why a component is as it is.

use std::fmt;

use super::Standard;

/// What a component's condition gives as its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The collector forwards.
    ForwardSuccessful,
    /// The operator has rolled the collector out; nothing was heard of it since.
    UpdateSuccessful,
    /// None that is known here.
    Unknown,
    /// The operator could not roll the collector out.
    UpdateFailure,
    /// The collector cannot forward.
    ForwardFailure,
    /// The collector is switched off.
    DisabledMetrics,
    /// There is nothing to collect from.
    NotSupported,
}

impl Reason {
    /// Every reason that can be written.
    pub const WRITTEN: [Self; 6] = [
        Self::ForwardSuccessful,
        Self::UpdateSuccessful,
        Self::UpdateFailure,
        Self::ForwardFailure,
        Self::DisabledMetrics,
        Self::NotSupported,
    ];

    /// From a condition; the spellings of older writers are understood.
    pub fn read(text: &str) -> Self {
        match text {
            "UpdateSuccessful" | "UpdateSuccesful" => Self::UpdateSuccessful,
            "UpdateFailure" | "UpdateFailed" => Self::UpdateFailure,
            "ForwardSuccessful" => Self::ForwardSuccessful,
            "ForwardFailure" | "ForwardFailed" => Self::ForwardFailure,
            "DisabledMetrics" | "Disabled" => Self::DisabledMetrics,
            "NotSupported" => Self::NotSupported,
            _ => Self::Unknown,
        }
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
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

    /// What it makes of the addon.
    pub const fn standard(self) -> Standard {
        match self {
            Self::ForwardSuccessful => Standard::Available,
            Self::UpdateSuccessful => Standard::Progressing,
            Self::UpdateFailure | Self::ForwardFailure | Self::Unknown => Standard::Degraded,
            Self::DisabledMetrics => Standard::Disabled,
            Self::NotSupported => Standard::NotSupported,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_are_understood_and_never_written() {
        for (old, new) in [
            ("UpdateSuccesful", "UpdateSuccessful"),
            ("UpdateFailed", "UpdateFailure"),
            ("ForwardFailed", "ForwardFailure"),
            ("Disabled", "DisabledMetrics"),
        ] {
            assert_eq!(Reason::read(old).name(), new);
        }
        for reason in Reason::WRITTEN {
            assert_eq!(Reason::read(reason.name()), reason);
        }
        for unknown in ["", "forwardsuccessful", "CMOReconcileLoopDetected"] {
            assert_eq!(Reason::read(unknown), Reason::Unknown);
        }
    }
}
