//! The fleet page in a real Chromium, in real time.

mod chromium;
mod fleet_page;
mod many_clusters;
mod prober;
