//! Places in etcd's code that can be made to hang, in the release `etcd-failpoints`.

use anyhow::{Context, Result, ensure};
use std::time::Duration;

use crate::etcd::{EtcdMember, EtcdSetup};
use crate::plain_http;

impl EtcdSetup {
    /// Uses the release with failpoints.
    pub fn with_failpoints() -> Self {
        Self::new(xtask::cache::FAILPOINTS)
    }
}

impl EtcdMember {
    /// Makes every passage of a place in the code take this long, such as `raftBeforeSave`.
    pub async fn delay(&self, failpoint: &str, by: Duration) -> Result<()> {
        let terms = format!("sleep({})", by.as_millis());
        self.change_failpoint("PUT", failpoint, &terms).await
    }

    /// Ends a delay for later passages. One that has begun takes its time.
    pub async fn end_delay(&self, failpoint: &str) -> Result<()> {
        self.change_failpoint("DELETE", failpoint, "").await
    }

    async fn change_failpoint(&self, method: &str, failpoint: &str, terms: &str) -> Result<()> {
        let url = self
            .failpoints_url()
            .context("not a release with failpoints")?;
        let reply = plain_http::request(url, method, &format!("/{failpoint}"), terms).await?;
        ensure!(reply.status == 204, "{method} {failpoint}: {reply:?}");
        Ok(())
    }
}
