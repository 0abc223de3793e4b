//! Output of `kelpie explain` for a cluster that is fenced and restored.

use kelpie_e2e::landscape::{ProberConfigFile, ProberProcess, Timings};
use kelpie_e2e::{kelpie, poll};
use serde_json::Value;

use super::fixture::*;

const FENCE: &str = include_str!("explain_during_fence/fence.txt");

const RELEASE: &str = include_str!("explain_during_fence/release.txt");

#[tokio::test]
async fn explain_describes_fence_and_restore() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot--dev--one", &kubelets).await;
    // Without a reserve, the fence is always due to expired leases. On a loaded machine it could
    // otherwise be due to the deadline, with different output.
    let config = ProberConfigFile::gardener_targets(timings).line("fenceReserve: 0s");
    let prober = fixture.prober(&config, &[]).await;
    until_healthy(&prober, &shoot).await;

    kubelets.partition(1.0).await;
    // The output is stable once the last deadline has passed.
    let is_settled = |state: &Value| {
        has_ended(state, "down")
            && state["fence"] == "full"
            && state["decision"]["deadline"].is_null()
    };
    let settled = prober.until_state("a fence", &shoot.name, TIMEOUT, is_settled);
    settled.await.unwrap();
    assert_explained(&prober, &shoot.name, FENCE).await;

    kubelets.heal().await;
    let is_settled = |state: &Value| {
        let rule = &state["decision"]["reasons"]["rule"]["name"];
        has_ended(state, "up") && state["fence"] == "none" && rule == "leasesRenewed"
    };
    let settled = prober.until_state("a restore", &shoot.name, TIMEOUT, is_settled);
    settled.await.unwrap();
    assert_explained(&prober, &shoot.name, RELEASE).await;
}

/// Returns true if the last flow had this direction and all known pods have followed it.
fn has_ended(state: &Value, direction: &str) -> bool {
    let targets = state["targets"].as_array().cloned().unwrap_or_default();
    let has_followed = |target: &Value| {
        let present = &target["observed"]["present"];
        present["effective"] == present["setting"]
    };
    state["lastFlow"]["report"]["direction"] == direction && targets.iter().all(has_followed)
}

/// Asserts that the output becomes `expected` in time. On a loaded machine a round of the prober
/// may fail, so that the first attempt can differ.
async fn assert_explained(prober: &ProberProcess, cluster: &str, expected: &str) {
    let mut last = String::new();
    let found = poll::until("the expected output", TIMEOUT, async || {
        last = explain(prober, cluster).await;
        Ok((last == expected).then_some(()))
    });
    let found = found.await;
    assert_eq!(last, expected, "{found:?}");
}

/// Runs `kelpie explain` and masks the times and the number of scale calls in its output.
async fn explain(prober: &ProberProcess, cluster: &str) -> String {
    let output = kelpie::run(&["explain", cluster, "--from", prober.kelpie.url()]).await;
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_inclusive([' ', '\n', ',']).map(masked);
    let text: String = words.collect();
    let mask_calls = |line: &str| match line.split_once(" scale calls") {
        Some((before, after)) => {
            let prefix = before.trim_end_matches(|last: char| last.is_ascii_digit());
            format!("{prefix}<some> scale calls{after}")
        }
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(mask_calls).collect()
}

/// Replaces a word that is a date, a time or a duration by a placeholder, and keeps the separator
/// that follows it.
fn masked(word: &str) -> String {
    let bare = word.trim_end_matches([' ', '\n', ',']);
    let is_number = bare.parse::<f64>().is_ok();
    let mask = match bare {
        _ if !bare.starts_with(|first: char| first.is_ascii_digit()) => return word.to_owned(),
        _ if bare.contains('-') => "<date>",
        _ if bare.contains(':') => "<time>",
        _ if is_number && bare.contains('.') => "<some>",
        _ => return word.to_owned(),
    };
    word.replace(bare, mask)
}
