//! Serves the health of a member until SIGTERM.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use kelpie_etcd::{GrpcHealth, Member, MemberHealth};
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tracing::{info, warn};

use super::listener::ListenFlags;
use super::member::MemberFlags;
use crate::component::{self, PlainLoggingFlags, register_process_metrics};
use crate::exit::ExitStatus;
use crate::signals;

/// Time limit of the first call to etcd, whose result is only logged.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The flags of the server.
#[derive(Args)]
pub(crate) struct EtcdServe {
    #[command(flatten)]
    member: MemberFlags,

    #[command(flatten)]
    listen: ListenFlags,

    /// Answer HEAD as well as GET, for load balancers that send nothing else
    #[arg(long, help_heading = "Serving")]
    allow_head: bool,

    #[command(flatten)]
    logging: PlainLoggingFlags,
}

impl EtcdServe {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        // Errors on the command line are reported before anything else.
        let options = self.member.options(self.allow_head)?;
        let config = self.member.config()?;
        self.listen.validate()?;
        self.logging.start();
        component::run(async {
            let listener = self.listen.bind(&config.endpoint.to_string()).await?;
            let member = self.member.member()?;
            let mut registry = Registry::default();
            register_process_metrics(&mut registry);
            let health = kelpie_etcd::member_health(&member, &options, &mut registry)?;
            let MemberHealth { checks, endpoint } = health;
            let shutdown = signals::shutdown_token()?;
            let router = kelpie_health::routes(checks.clone())
                .merge(endpoint.routes())
                .merge(GrpcHealth::new(checks, shutdown.clone()).routes())
                .merge(kelpie_health::metrics(Arc::new(registry)))
                .fallback(kelpie_health::not_found);
            tokio::spawn(log_first_status(Arc::clone(&member)));
            listener.serve(router, &shutdown).await?;
            info!("stopped");
            Ok(ExitStatus::Success)
        })
    }
}

/// Calls etcd once and logs the result, so that a wrong flag shows at the start and not only at
/// the first probe.
async fn log_first_status(member: Arc<dyn Member>) {
    match timeout(FIRST_CALL_TIMEOUT, member.status()).await {
        Ok(Ok(_)) => info!("etcd answers"),
        Ok(Err(error)) => {
            warn!(reason = %error, "cannot call etcd yet; /readyz shows the current state");
        }
        Err(_) => warn!("etcd does not answer yet; /readyz shows the current state"),
    }
}
