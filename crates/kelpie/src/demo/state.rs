//! How a cluster is, in a few words.

use anstyle::{AnsiColor, Style};
use kelpie_sim::{Controller, Row};

/// How a cluster is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Healthy,
    /// Its API server is there for nobody.
    Down,
    /// Kubelets do not reach their API server; the first node is Ready for so many more seconds.
    CutOff(Option<f64>),
    /// Its controllers can do no harm; they were stopped so many seconds before the deadline.
    Fenced(Option<f64>),
    /// Somebody else has stopped kube-controller-manager.
    Stopped,
    /// Controllers are on their way back.
    Restoring,
    /// It was fenced, and everything is as before.
    Restored,
    /// Nodes are Unknown, or gone.
    Damaged,
}

impl State {
    /// The state of a cluster that once had `nodes`, and has been fenced at some time or not.
    pub(super) fn of(row: &Row, nodes: usize, was_fenced: bool) -> Self {
        let usual = |one: &Controller| one.wanted == one.usual && one.present == one.usual;
        let is_usual = row.controllers.iter().all(usual);
        // It goes last, and the others do no harm without it.
        let manager = row.controllers.first();
        let is_stopped = manager.is_some_and(|manager| manager.wanted < manager.usual);
        if row.is_fenced {
            Self::Fenced(row.margin)
        } else if row.is_down {
            Self::Down
        } else if row.ready < nodes {
            Self::Damaged
        } else if is_stopped {
            Self::Stopped
        } else if row.cut_off > 0 {
            Self::CutOff(row.deadline.filter(|left| *left > 0.0))
        } else if !was_fenced {
            Self::Healthy
        } else if is_usual {
            Self::Restored
        } else {
            Self::Restoring
        }
    }

    /// Something is about to be decided.
    pub(super) fn is_tense(self) -> bool {
        matches!(self, Self::CutOff(Some(_)) | Self::Restoring)
    }

    /// In one word or two.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Down => "API server down",
            Self::CutOff(_) => "cut off",
            Self::Fenced(_) => "fenced",
            Self::Stopped => "stopped by somebody",
            Self::Restoring => "being restored",
            Self::Restored => "restored",
            Self::Damaged => "damaged",
        }
    }

    /// With the seconds that there are, or were.
    pub(super) fn words(self) -> String {
        let name = self.name();
        match self {
            Self::CutOff(Some(left)) => format!("{name}, {left:.0} s left"),
            Self::Fenced(Some(margin)) if margin < 0.0 => format!("{name}, {:.1} s late", -margin),
            Self::Fenced(Some(margin)) => format!("{name}, {margin:.1} s to spare"),
            _ => name.to_owned(),
        }
    }

    pub(super) fn style(self) -> Style {
        let colour = match self {
            Self::Healthy => return Style::new(),
            Self::CutOff(_) | Self::Down | Self::Stopped => AnsiColor::Yellow,
            Self::Fenced(_) | Self::Restoring => AnsiColor::Cyan,
            Self::Restored => AnsiColor::Green,
            Self::Damaged => AnsiColor::Red,
        };
        Style::new().fg_color(Some(colour.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster of five nodes with kube-controller-manager as given: wanted and present.
    fn row(ready: usize, cut_off: usize, (wanted, present): (u32, u32)) -> Row {
        Row {
            cluster: "shoot--a--b".to_owned(),
            ready,
            unknown: 5 - ready,
            cut_off,
            is_down: false,
            controllers: vec![Controller {
                wanted,
                present,
                usual: 1,
            }],
            faults: Vec::new(),
            deadline: Some(12.3),
            is_fenced: wanted == 0,
            margin: Some(7.89),
        }
    }

    #[test]
    fn a_cluster_is_as_its_nodes_and_controllers_are() {
        for (row, was_fenced, expected) in [
            (row(5, 0, (1, 1)), false, "healthy"),
            (row(5, 5, (1, 1)), false, "cut off, 12 s left"),
            (row(5, 5, (0, 1)), false, "fenced, 7.9 s to spare"),
            (row(5, 0, (0, 0)), true, "fenced, 7.9 s to spare"),
            (row(5, 0, (1, 0)), true, "being restored"),
            (row(5, 0, (1, 1)), true, "restored"),
            (row(3, 5, (1, 1)), false, "damaged"),
        ] {
            let state = State::of(&row, 5, was_fenced);
            assert_eq!(state.words(), expected, "{row:?}");
        }
    }

    #[test]
    fn a_cluster_whose_api_server_is_gone_is_down_and_not_cut_off() {
        let down = Row {
            is_down: true,
            ..row(5, 5, (1, 1))
        };
        assert_eq!(State::of(&down, 5, false).words(), "API server down");
    }

    #[test]
    fn a_controller_that_somebody_else_has_stopped_is_no_fence() {
        let stopped = Row {
            is_fenced: false,
            ..row(5, 5, (0, 0))
        };
        assert_eq!(State::of(&stopped, 5, false).words(), "stopped by somebody");
    }

    #[test]
    fn what_comes_too_late_is_told_as_such() {
        assert_eq!(State::Fenced(Some(-2.04)).words(), "fenced, 2.0 s late");
    }
}
