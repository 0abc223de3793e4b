//! `kelpie explain`.

mod describe;
mod fetch;

use anyhow::{Context, Result, bail};
use clap::Args;
use kelpie_prober::{ProberState, Unprobed};

use crate::cli::Invocation;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::printable::printable;
use crate::reach::ReachFlags;
use crate::{component, terminal};

pub(crate) use fetch::fetch;

/// Explain what the prober last decided about a cluster, and why
///
/// Asks a running prober for the evidence it has, the rule that decided, the deadline, the state of
/// the targets, current problems and the time of the next round. It only reads.
///
/// The leader is found through the kubeconfig: the holder of the leader Lease, reached by a
/// port-forward of the API server. Every replica knows all clusters, and another one can be asked
/// with --url. Only the leader knows the last flow.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Explain {
    /// Name of the cluster: of its Cluster object and its control namespace
    cluster: String,

    /// Output format; json prints the prober's answer unchanged
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    reach: ReachFlags,
}

impl Explain {
    pub(crate) fn run(&self, _started_as: Invocation) -> Result<ExitStatus> {
        let response = component::run(async {
            let servers = self.reach.servers("explain").await?;
            fetch(&servers, &self.cluster).await
        })?;
        let json = match response {
            Ok(json) => json,
            Err(unprobed) => bail!(no_probe(&self.cluster, &unprobed)),
        };
        let text = match self.output {
            OutputFormat::Json => json + "\n",
            OutputFormat::Text => describe(&json, &self.cluster).context(
                "the prober does not answer as one of this version; see it with -o json",
            )?,
        };
        terminal::stdout(&text).context("cannot write the answer")?;
        Ok(ExitStatus::Success)
    }
}

fn describe(json: &str, cluster: &str) -> Result<String> {
    let prober: ProberState = serde_json::from_str(json)?;
    let view = prober.clusters.get(cluster);
    let view = view.context("the cluster is not in the answer")?;
    Ok(describe::describe(cluster, &prober, view))
}

pub(crate) fn no_probe(cluster: &str, Unprobed { reason, near, .. }: &Unprobed) -> String {
    if let Some(reason) = reason {
        return format!("no probe runs for {cluster}: {}", printable(reason));
    }
    let hint = if near.is_empty() {
        "list those of the seed with `kubectl get clusters`".to_owned()
    } else {
        format!("did you mean {}?", printable(&near.join(", ")))
    };
    format!("the prober knows no Cluster {cluster}; {hint}")
}
