//! The phase of a cluster, as the table and the timeline show it.

use anstyle::{AnsiColor, Style};
use kelpie_sim::{ClusterSnapshot, ControllerReplicas};

/// A summary of a cluster's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ClusterPhase {
    Healthy,
    /// The API server is unreachable for all clients.
    Down,
    /// Kubelets cannot reach their API server. Contains the seconds until the deadline; `None` if
    /// it is past or no node is Ready.
    CutOff(Option<f64>),
    /// The guard keeps nodes from turning Unknown.
    Held,
    /// The controllers are fenced. Contains the margin in seconds, which is negative if the fence
    /// was late; `None` if there was no deadline.
    Fenced(Option<f64>),
    /// Another client has stopped kube-controller-manager.
    Stopped,
    /// The controllers are being scaled up again.
    Restoring,
    /// The cluster was fenced, and everything is as before.
    Restored,
    /// Nodes are Unknown, or their machines are gone.
    Damaged,
}

impl ClusterPhase {
    /// Determines the phase of a cluster that started with `nodes` nodes. `was_fenced` says if it
    /// has been fenced before.
    pub(super) fn of(snapshot: &ClusterSnapshot, nodes: usize, was_fenced: bool) -> Self {
        let is_usual = |replicas: &ControllerReplicas| {
            replicas.wanted == replicas.usual && replicas.present == replicas.usual
        };
        let are_all_usual = snapshot.controllers.iter().all(is_usual);
        // kube-controller-manager is fenced last, and the others do no harm without it.
        let manager = snapshot.controllers.first();
        let is_stopped = manager.is_some_and(|manager| manager.wanted < manager.usual);
        if snapshot.is_fenced {
            Self::Fenced(snapshot.margin)
        } else if snapshot.is_down {
            Self::Down
        } else if snapshot.ready < nodes {
            Self::Damaged
        } else if is_stopped {
            Self::Stopped
        } else if snapshot.held > 0 {
            Self::Held
        } else if snapshot.cut_off > 0 {
            Self::CutOff(snapshot.deadline.filter(|seconds| *seconds > 0.0))
        } else if !was_fenced {
            Self::Healthy
        } else if are_all_usual {
            Self::Restored
        } else {
            Self::Restoring
        }
    }

    /// Returns true if a fence or a restore is about to happen.
    pub(super) fn is_critical(self) -> bool {
        matches!(self, Self::CutOff(Some(_)) | Self::Restoring)
    }

    /// Returns the name of the phase without seconds.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Down => "API server down",
            Self::CutOff(_) => "cut off",
            Self::Held => "held by the guard",
            Self::Fenced(_) => "fenced",
            Self::Stopped => "stopped by another client",
            Self::Restoring => "being restored",
            Self::Restored => "restored",
            Self::Damaged => "damaged",
        }
    }

    /// Describes the phase with the seconds until the deadline, or the margin.
    pub(super) fn description(self) -> String {
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
            Self::Held | Self::Fenced(_) | Self::Restoring => AnsiColor::Cyan,
            Self::Restored => AnsiColor::Green,
            Self::Damaged => AnsiColor::Red,
        };
        Style::new().fg_color(Some(colour.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster of five nodes. The last argument is kube-controller-manager's desired and running
    /// replicas.
    fn snapshot(ready: usize, cut_off: usize, (wanted, present): (u32, u32)) -> ClusterSnapshot {
        ClusterSnapshot {
            cluster: "shoot--a--b".to_owned(),
            ready,
            unknown: 5 - ready,
            cut_off,
            held: 0,
            is_down: false,
            controllers: vec![ControllerReplicas {
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
    fn phase_follows_nodes_and_controllers() {
        for (snapshot, was_fenced, expected) in [
            (snapshot(5, 0, (1, 1)), false, "healthy"),
            (snapshot(5, 5, (1, 1)), false, "cut off, 12 s left"),
            (snapshot(5, 5, (0, 1)), false, "fenced, 7.9 s to spare"),
            (snapshot(5, 0, (0, 0)), true, "fenced, 7.9 s to spare"),
            (snapshot(5, 0, (1, 0)), true, "being restored"),
            (snapshot(5, 0, (1, 1)), true, "restored"),
            (snapshot(3, 5, (1, 1)), false, "damaged"),
        ] {
            let phase = ClusterPhase::of(&snapshot, 5, was_fenced);
            assert_eq!(phase.description(), expected, "{snapshot:?}");
        }
    }

    #[test]
    fn api_server_down_is_not_cut_off() {
        let down = ClusterSnapshot {
            is_down: true,
            ..snapshot(5, 5, (1, 1))
        };
        let phase = ClusterPhase::of(&down, 5, false);
        assert_eq!(phase.description(), "API server down");
    }

    #[test]
    fn nodes_that_the_guard_keeps_ready_are_held() {
        let held = ClusterSnapshot {
            held: 2,
            ..snapshot(5, 5, (1, 1))
        };
        assert_eq!(ClusterPhase::of(&held, 5, false), ClusterPhase::Held);
    }

    #[test]
    fn controller_stopped_by_another_client_is_no_fence() {
        let stopped = ClusterSnapshot {
            is_fenced: false,
            ..snapshot(5, 5, (0, 0))
        };
        let phase = ClusterPhase::of(&stopped, 5, false);
        assert_eq!(phase.description(), "stopped by another client");
    }

    #[test]
    fn late_fence_is_described_as_late() {
        let phase = ClusterPhase::Fenced(Some(-2.04));
        assert_eq!(phase.description(), "fenced, 2.0 s late");
    }
}
