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
use crate::{component, terminal};

/// Explain what the prober last decided about a cluster, and why
///
/// Asks a running prober for the evidence it has, the rule that decided, the deadline, the state of
/// the targets, current problems and the time of the next round. It only reads.
///
/// The prober answers on its metrics address. From outside of the seed:
///
///   kubectl -n garden port-forward deploy/kelpie-prober 9643
///   kelpie explain shoot--dev--one
///
/// Every replica knows all clusters. Only the leader knows the last flow.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Explain {
    /// Name of the cluster: of its Cluster object and its control namespace
    cluster: String,

    /// URL at which the prober serves its metrics
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9643")]
    from: String,

    /// Output format; json prints the prober's answer unchanged
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

impl Explain {
    pub(crate) fn run(&self, _started_as: Invocation) -> Result<ExitStatus> {
        let response = component::run(fetch::fetch(&self.from, &self.cluster))?;
        let json = match response {
            Ok(json) => json,
            Err(unprobed) => bail!(no_probe(&self.cluster, &unprobed)),
        };
        let text = match self.output {
            OutputFormat::Json => json + "\n",
            OutputFormat::Text => describe(&json, &self.cluster).with_context(|| {
                format!(
                    "{} does not answer as a prober of this version; see it with -o json",
                    self.from
                )
            })?,
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

fn no_probe(cluster: &str, Unprobed { reason, near, .. }: &Unprobed) -> String {
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
