//! `kelpie check prober` and `kelpie guard` on a real API server whose guard comes and goes.

use std::fs;
use std::path::Path;

use kelpie_e2e::landscape::{ProberConfigFile, Timings, grant_guard_rules};
use kelpie_e2e::{kelpie, poll};
use tempfile::TempDir;

use super::fixture::{Fixture, TIMEOUT};
use crate::fixture::check_rows;

/// Short intervals, guards and no targets.
fn guard_only() -> ProberConfigFile {
    ProberConfigFile::new(Timings::QUICK, Vec::new()).line("guard: {}")
}

struct Commands<'a> {
    config: &'a Path,
    kubeconfig: &'a Path,
}

impl Commands<'_> {
    /// Runs a command. Returns its rows of this grade, and whether it succeeded.
    async fn rows(&self, words: &[&str], grade: &str) -> (Vec<String>, bool) {
        let config = format!("--config-file={}", self.config.display());
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let files = [config.as_str(), &kubeconfig, "--output=json"];
        let output = kelpie::run(&[words, &files].concat()).await.unwrap();
        let mut rows = check_rows(&output, grade);
        rows.retain(|row| row.starts_with("shoot--a"));
        (rows, output.status.success())
    }
}

#[tokio::test]
async fn guard_is_checked_shown_and_removed() {
    let fixture = Fixture::start().await;
    let kubelets = fixture.kubelets(3, Timings::QUICK).await;
    fixture.shoot("shoot--a", &kubelets).await;
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("config.yaml");
    fs::write(&config, guard_only().yaml()).unwrap();
    let admin = fixture.seed.control_plane.api.admin();
    let kubeconfig = fixture.seed.kubeconfig_file(&admin).unwrap();
    let commands = Commands {
        config: &config,
        kubeconfig: &kubeconfig,
    };

    let (failed, is_ok) = commands.rows(&["check", "prober"], "fail").await;
    assert!(!is_ok);
    assert_eq!(failed.len(), 1, "{failed:?}");
    let denied = "shoot--a (guard): the kubeconfig may not create \
                  validatingadmissionpolicies.admissionregistration.k8s.io or ";
    assert!(failed[0].starts_with(denied), "{failed:?}");

    grant_guard_rules(&fixture.seed.client, "probe")
        .await
        .unwrap();
    let permitted = "shoot--a (guard): permitted; the prober arms it when it runs".to_owned();
    poll::until("the permissions", TIMEOUT, async || {
        let (rows, _) = commands.rows(&["check", "prober"], "ok").await;
        Ok(rows.contains(&permitted).then_some(()))
    })
    .await
    .unwrap();

    let prober = fixture.prober(&guard_only(), &[]).await;
    let armed = poll::until("an armed guard", TIMEOUT, async || {
        let (rows, is_ok) = commands.rows(&["guard", "status"], "ok").await;
        Ok(rows.into_iter().next().filter(|_| is_ok))
    });
    let armed = armed.await.unwrap();
    assert!(armed.starts_with("shoot--a: armed until 20"), "{armed}");
    assert!(
        armed.ends_with(", kept by garden/dwd-prober-leader-election"),
        "{armed}"
    );
    let (rows, _) = commands.rows(&["check", "prober"], "ok").await;
    assert!(
        rows.iter()
            .any(|row| row.starts_with("shoot--a (guard): armed until ")),
        "{rows:?}"
    );

    drop(prober);
    let (removed, is_ok) = commands.rows(&["guard", "remove", "--all"], "warn").await;
    assert_eq!(
        (removed, is_ok),
        (vec!["shoot--a: removed".to_owned()], true)
    );
    let (none, _) = commands.rows(&["guard", "status"], "warn").await;
    assert_eq!(none, ["shoot--a: none"]);
}
