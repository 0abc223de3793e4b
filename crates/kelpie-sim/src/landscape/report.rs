//! What a landscape looks like, and what has become of it.

use serde::Serialize;

/// One cluster of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its name.
    pub cluster: String,
    /// Nodes that are Ready.
    pub ready: usize,
    /// Nodes that are Unknown.
    pub unknown: usize,
    /// Kubelets that do not reach their API server.
    pub cut_off: usize,
    /// Its API server is there for nobody.
    pub is_down: bool,
    /// The controllers, in the order of [`super::Plan::CONTROLLERS`].
    pub controllers: Vec<Controller>,
    /// The faults that it has now.
    pub faults: Vec<String>,
    /// Seconds until the first node that is Ready may turn Unknown if nobody renews any more; below
    /// zero if that is past. `None` if there is no such node.
    pub deadline: Option<f64>,
    /// kube-controller-manager was stopped, and not by a [`Scale`](crate::scenario::Fault::Scale) of the script.
    pub is_fenced: bool,
    /// Seconds before its deadline when it was fenced the last time; below zero if that was too late.
    /// `None` if no node was cut off then, or none was Ready any more.
    pub margin: Option<f64>,
}

/// A controller of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    /// Replicas that are wanted.
    pub wanted: u32,
    /// Pods that are there.
    pub present: u32,
    /// How many there were in the beginning.
    pub usual: u32,
}

/// What was broken.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    /// Nodes gone Unknown.
    pub nodes_unknown: u64,
    /// Machines replaced.
    pub machines_replaced: u64,
    /// Pods evicted.
    pub pods_evicted: u64,
    /// How long API servers were there for nobody, in seconds, all clusters together.
    pub api_seconds_lost: f64,
    /// From the first fault until everything was as before, if it is.
    pub seconds_to_normal: Option<f64>,
    /// How long before its deadline kube-controller-manager was scaled down, for each fence, in
    /// seconds; below zero if it was too late.
    pub margins: Vec<f64>,
}
