//! The container image: what is in it, and its program in the pods of the chart.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use kelpie_e2e::{EtcdMember, ImageRoot, Kelpie};

use crate::helm_chart::Fixture;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The image is built once for all tests.
static IMAGE: LazyLock<ImageRoot> = LazyLock::new(|| ImageRoot::build().unwrap());

/// Returns the paths of all files in the image, without those that other tests mount.
fn files(folder: &Path, root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, root));
        } else {
            found.push(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
    found.sort();
    found
}

#[test]
fn image_has_the_program_and_no_shell() {
    let root = IMAGE.path();
    let expected = [
        "etc/group",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/local/bin/dependency-watchdog",
        "usr/local/bin/kelpie",
    ];
    assert_eq!(files(&root, &root), expected);
    let second = fs::read_link(root.join(expected[3])).unwrap();
    assert_eq!(second, Path::new("kelpie"));
    let authorities = fs::read_to_string(root.join(expected[2])).unwrap();
    assert!(authorities.contains("BEGIN CERTIFICATE"));
}

#[test]
fn image_is_small_and_has_a_user_without_rights() {
    let size = IMAGE.archive_size();
    println!("the archive has {size} bytes");
    assert!(size < 30_000_000, "{size}");
    let process = IMAGE.process();
    assert_eq!(process["user"]["uid"], 65_532, "{process}");
    assert_eq!(process["user"]["gid"], 65_532, "{process}");
    assert_eq!(process["args"][0], "/usr/local/bin/kelpie");
}

#[test]
fn program_runs_under_both_names() {
    for name in ["kelpie", "dependency-watchdog"] {
        let words = IMAGE.command(&[]).unwrap();
        let program = format!("/usr/local/bin/{name}");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--").arg(program);
        let output = command.arg("--version").env_clear().output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{name}: {text}");
    }
}

#[tokio::test]
async fn pods_of_the_chart_lead_from_the_image() {
    let fixture = Fixture::with_chart().await;
    for component in ["prober", "weeder"] {
        let pod = fixture.pod(component).await;
        let running = pod.start_in(&IMAGE).await.unwrap();
        running
            .until_line(&["became leader"], TIMEOUT)
            .await
            .unwrap();
        let rights = ImageRoot::rights(running.process()).unwrap();
        assert_eq!(rights, (65_532, "0".repeat(16)), "{component}");
    }
}

#[tokio::test]
async fn etcd_checks_run_from_the_image() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let arguments = [
        "etcd",
        "--listen=127.0.0.1:0",
        &format!("--endpoints={}", etcd.url()),
        &format!("--metrics-url={}", etcd.metrics_url()),
    ];
    let kelpie = Kelpie::start_in(&IMAGE, &[], &arguments).await.unwrap();
    for target in ["/livez", "/readyz"] {
        kelpie.until_status(target, 200, TIMEOUT).await.unwrap();
    }
}
