//! Several objects that are paused together, as one target.
//!
//! Each object is paused by a write of its own, which carries its own record: the pause says that
//! it is ours, and that there was none before. So a fence that is half made loses nothing.

use super::target_object::{Observed, RecordedSetting, ResourceVersion, TargetObject};
use crate::prober::target::Setting;

/// The pause of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseState {
    /// It is not paused.
    Runs,
    /// It carries our pause.
    Ours,
    /// Another client has paused it, or its owner wants it left alone. It is never changed.
    LeftAlone,
}

/// An object that can be paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausableObject {
    /// The name of the object.
    pub name: String,
    /// The `resourceVersion` of the object.
    pub version: String,
    /// The pause of the object.
    pub state: PauseState,
}

impl PausableObject {
    /// Returns the target that these objects are together. Its version has the objects that we may
    /// change: a write that rests on it may pause all of them, or lift all their pauses.
    pub fn target<'a>(objects: impl IntoIterator<Item = &'a Self>) -> Observed {
        let mut objects: Vec<&Self> = objects.into_iter().collect();
        if objects.is_empty() {
            return Observed::Missing;
        }
        objects.retain(|object| object.state != PauseState::LeftAlone);
        objects.sort_by_key(|object| &object.name);
        let any = |state| objects.iter().any(|object| object.state == state);
        let (runs, is_ours) = (any(PauseState::Runs), any(PauseState::Ours));
        let setting = if runs {
            Setting::RUNNING
        } else {
            Setting::FENCED
        };
        let members = objects.iter().map(|it| (&*it.name, &*it.version));
        let target = TargetObject::running(setting, ResourceVersion::of_members(members));
        Observed::Present(TargetObject {
            marked: is_ours,
            recorded: match is_ours {
                true => RecordedSetting::Value(Setting::RUNNING),
                false => RecordedSetting::Absent,
            },
            ..target
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: &str, state: PauseState) -> PausableObject {
        PausableObject {
            name: name.into(),
            version: version.into(),
            state,
        }
    }

    /// Returns the setting, the marker and the version.
    fn target(objects: &[PausableObject]) -> (u32, bool, String) {
        let Observed::Present(target) = PausableObject::target(objects) else {
            panic!("missing");
        };
        let version = target.version.as_str().to_owned();
        (target.setting.0, target.marked, version)
    }

    #[test]
    fn target_runs_until_all_are_paused() {
        use PauseState::{LeftAlone, Ours, Runs};
        for (a, b, expected) in [
            (Runs, Runs, (1, false, "a=7,b=9")),
            (Runs, Ours, (1, true, "a=7,b=9")),
            (Ours, Ours, (0, true, "a=7,b=9")),
            (Runs, LeftAlone, (1, false, "a=7")),
            (LeftAlone, Ours, (0, true, "b=9")),
            (LeftAlone, LeftAlone, (0, false, "")),
        ] {
            let (setting, marked, version) = expected;
            let found = target(&[object("b", "9", b), object("a", "7", a)]);
            assert_eq!(found, (setting, marked, version.to_owned()));
        }
        assert_eq!(PausableObject::target(&[]), Observed::Missing);
    }
}
