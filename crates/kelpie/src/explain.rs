//! `kelpie explain`.

mod inquiry;
mod state;
mod story;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tokio::runtime;

use self::inquiry::{Answer, Unprobed};
use self::state::State;
use crate::cli::Guise;
use crate::exit::Outcome;
use crate::printable::printable;
use crate::terminal;

/// Tell in plain words what the prober last decided about a cluster, and why
///
/// Asks a running prober: what it saw, which rule decided, against which deadline, what was done,
/// what is in the way, and when it looks again. It only reads.
///
/// The prober answers on its metrics address. From outside of the seed:
///
///   kubectl -n garden port-forward deploy/dependency-watchdog-prober 9643
///   kelpie explain shoot--dev--one
///
/// Every replica knows all clusters; only the leader's knows what was done last.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Explain {
    /// The cluster: the name of its Cluster object and control namespace
    cluster: String,

    /// Where the prober serves its metrics
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9643")]
    from: String,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For scripts: the prober's own answer
    Json,
}

impl Explain {
    pub(crate) fn run(&self, _started_as: Guise) -> Result<Outcome> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let answer = runtime.block_on(inquiry::ask(&self.from, &self.cluster))?;
        match (answer, self.output) {
            (Answer::State(json), Output::Json) => {
                let json = json + "\n";
                terminal::stdout(&json).context("cannot write the answer")?;
            }
            (Answer::State(json), Output::Text) => {
                let text = tell(&json, &self.cluster).with_context(|| {
                    format!(
                        "{} does not answer as a prober of this version; see it with -o json",
                        self.from
                    )
                })?;
                terminal::stdout(&text).context("cannot write the answer")?;
            }
            (Answer::Unprobed(unprobed), _) => bail!(no_probe(&self.cluster, &unprobed)),
        }
        Ok(Outcome::Success)
    }
}

fn tell(json: &str, cluster: &str) -> Result<String> {
    let state: State = serde_json::from_str(json)?;
    let shown = state.clusters.get(cluster);
    let shown = shown.context("the cluster is not in the answer")?;
    Ok(story::tell(cluster, &state, shown))
}

fn no_probe(cluster: &str, Unprobed { reason, near }: &Unprobed) -> String {
    if let Some(reason) = reason {
        return format!("no probe runs for {cluster}: {}", printable(reason));
    }
    let mut text = format!("the prober knows no Cluster {cluster}");
    if near.is_empty() {
        text.push_str("; list those of the seed with `kubectl get clusters`");
    } else {
        text.push_str("; did you mean ");
        text.push_str(&printable(&near.join(", ")));
        text.push('?');
    }
    text
}
