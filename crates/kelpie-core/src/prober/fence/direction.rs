//! The direction of a flow, and the setting that it applies.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::target_object::{RecordedSetting, TargetObject};
use crate::prober::{Setting, Target};

/// The direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// Fencing: the setting is lowered.
    Down,
    /// Restoring: the recorded setting is applied.
    Up,
}

/// Returns the setting that a flow in this direction would apply; `None` if there is nothing to do.
pub fn goal(direction: Direction, target: &Target, object: &TargetObject) -> Option<Setting> {
    if object.ignored {
        return None;
    }
    let fenced = fenced_setting(target);
    match direction {
        Direction::Down => (object.setting > fenced).then_some(fenced),
        Direction::Up => {
            let setting = match (target.up.setting, object.recorded) {
                (Some(setting), _) | (None, RecordedSetting::Value(setting)) => setting,
                (None, RecordedSetting::Absent | RecordedSetting::Corrupt) => Setting::RUNNING,
            };
            let is_ours = object.marked && object.setting == fenced;
            (is_ours && object.setting < setting).then_some(setting)
        }
    }
}

/// Returns the setting of a fenced target.
pub(super) fn fenced_setting(target: &Target) -> Setting {
    target.down.setting.unwrap_or(Setting::FENCED)
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::Up => "up",
        })
    }
}
