//! Records of simulated runs, replayed with the same configuration and with others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelpie_chaos::{ChaosOutcome, ChaosRun};
use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_core::Fraction;
use kelpie_prober::{OtherSettings, RecordReader, RecordSettings, WantedFence, replay};
use kelpie_sim::LandscapePlan;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection, Scenario};
use tempfile::TempDir;

use crate::auditor::AuditCounts;
use crate::recording::{recorded, replayed, unbounded};
use crate::subject::Prober;

const LENGTH: Duration = Duration::from_mins(10);

fn run(chaos: &ChaosRun) -> ChaosOutcome<AuditCounts> {
    chaos.run::<Prober>().unwrap()
}

/// Returns the recorded configuration.
fn config(record: &Path) -> ProberConfig {
    let config = RecordReader::open(record).unwrap().config().unwrap();
    let text = config.unwrap().to_string();
    let parsed = prober::parse(text.as_bytes(), Strictness::Strict);
    parsed.unwrap().value
}

#[test]
fn chaos_records_replay_byte_for_byte() {
    let (mut decisions, mut fences) = (0, 0);
    for rng_seed in [1, 2, 6, 10, 16] {
        let chaos = ChaosRun::new::<Prober>(rng_seed, LENGTH);
        let folder = TempDir::new().unwrap();
        let settings = RecordSettings {
            // The record goes over many files.
            file_bytes: 100_000,
            ..unbounded(folder.path())
        };
        let (outcome, records) = recorded(settings, || run(&chaos));
        assert_eq!(
            outcome,
            run(&chaos),
            "run {rng_seed} is changed by its record"
        );
        for record in records {
            let report = replayed(&record, None);
            let context = format!("run {rng_seed}, {}", record.display());
            assert_eq!(report.different, 0, "{context}");
            let missing = (
                report.lost_lines,
                report.skipped_lines,
                report.cut_off_files,
            );
            assert_eq!(missing, (0, 0, 0), "{context}");
            decisions += report.decisions;
            fences += report
                .clusters
                .values()
                .map(|one| one.recorded.len())
                .sum::<usize>();
        }
    }
    println!("{decisions} decisions, {fences} fences");
    assert!(decisions > 1_000 && fences > 2, "{decisions}, {fences}");
}

#[test]
fn newest_files_of_a_record_replay_alone() {
    let chaos = ChaosRun::new::<Prober>(6, LENGTH);
    let folder = TempDir::new().unwrap();
    let settings = RecordSettings {
        file_bytes: 50_000,
        files: 3,
        ..unbounded(folder.path())
    };
    let (_, records) = recorded(settings, || run(&chaos));
    let mut decisions = 0;
    for record in records {
        let files = fs::read_dir(&record).unwrap().count();
        assert!(files <= 3, "{files}");
        let report = replayed(&record, None);
        assert_eq!(report.different, 0, "{}", record.display());
        decisions += report.decisions;
    }
    assert!(decisions > 100, "{decisions}");
}

/// Cuts some nodes of one cluster off for five minutes.
fn partition(share: f64) -> ChaosRun {
    let fault = Fault::Partition(NodeSelection::Share(share));
    let length = Duration::from_mins(5);
    let incident = Incident::new(Duration::from_mins(2), Some(length), fault);
    let incident = incident.in_clusters(ClusterSelection::Numbers(vec![0]));
    ChaosRun {
        plan: LandscapePlan {
            rng_seed: 7,
            ..LandscapePlan::with_size(1, 5)
        },
        scenario: Scenario {
            length: Duration::from_mins(10),
            incidents: vec![incident],
            ..Scenario::default()
        },
        watchdogs: 1,
    }
}

/// Records a partition, and returns its only record.
fn partition_record(share: f64) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let (_, records) = recorded(unbounded(folder.path()), || run(&partition(share)));
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    let record = record.clone();
    (folder, record)
}

/// Returns the fences of the only cluster: the recorded ones, and those with other settings.
fn fences(record: &Path, other: &OtherSettings) -> (Vec<WantedFence>, Vec<WantedFence>) {
    let report = replayed(record, Some(other));
    assert_eq!(report.different, 0);
    let cluster = report.clusters.into_values().next().unwrap();
    (cluster.recorded, cluster.other.unwrap())
}

fn with_fraction(record: &Path, fraction: f64) -> OtherSettings {
    let mut config = config(record);
    config.probe.failure_fraction = Fraction::new(fraction).unwrap();
    config.probe.recovery_fraction = Fraction::new(fraction).unwrap();
    OtherSettings {
        config,
        grace: None,
    }
}

fn with_grace(record: &Path, seconds: u64) -> OtherSettings {
    OtherSettings {
        config: config(record),
        grace: Some(Duration::from_secs(seconds)),
    }
}

#[test]
fn other_fraction_decides_who_is_fenced() {
    let (_folder, all_cut) = partition_record(1.0);
    let (recorded, same) = fences(&all_cut, &with_fraction(&all_cut, 0.6));
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].fenced_at.is_some() && recorded[0].released_at.is_some());
    assert_eq!(same[0].wanted_at, recorded[0].wanted_at);
    assert_eq!(same[0].released_at, recorded[0].released_at);
    // Two of five nodes are fewer than 60 %, and as many as 40 %.
    let (_folder, some_cut) = partition_record(0.4);
    let (recorded, others) = fences(&some_cut, &with_fraction(&some_cut, 0.4));
    assert_eq!((recorded.len(), others.len()), (0, 1), "{others:?}");
    let margin = others[0].margin_seconds.unwrap();
    assert!((1.0..12.0).contains(&margin), "{margin}");
    assert!(others[0].released_at.is_some());
    // Four of five are more than 60 %, and fewer than 90 %.
    let (_folder, most_cut) = partition_record(0.8);
    let (recorded, others) = fences(&most_cut, &with_fraction(&most_cut, 0.9));
    assert_eq!((recorded.len(), others.len()), (1, 0), "{others:?}");
}

#[test]
fn other_grace_moves_the_fence_by_three_quarters() {
    let (_folder, record) = partition_record(1.0);
    for (grace, expected) in [(24, -12.0), (60, 15.0), (80, 30.0)] {
        let (recorded, others) = fences(&record, &with_grace(&record, grace));
        let [fence] = &others[..] else {
            panic!("{grace}: {others:?}");
        };
        let (at, recorded) = (fence.wanted_at, recorded[0].wanted_at);
        let moved = at.since(recorded).as_secs_f64() - recorded.since(at).as_secs_f64();
        // The recorded prober, which had made its fence, looked every ten to twelve seconds.
        let range = expected - 6.0..expected + 12.5;
        println!("{grace} s: moved by {moved} s");
        assert!(range.contains(&moved), "{grace} s: {moved} s");
        assert!(fence.released_at.is_some(), "{grace}");
    }
}

/// Returns the only file of a record.
fn only_file(record: &Path) -> PathBuf {
    let mut files = fs::read_dir(record).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    file
}

#[test]
fn record_of_a_killed_process_is_readable() {
    let (folder, record) = partition_record(1.0);
    let bytes = fs::read(only_file(&record)).unwrap();
    let whole = replayed(&record, None).decisions;
    let cut = folder.path().join("cut.jsonl");
    let mut last = 0;
    // Every length near the ends of lines, and some between.
    let is_near_end = |length: &usize| {
        let window = &bytes[length.saturating_sub(2)..(length + 2).min(bytes.len())];
        length.is_multiple_of(97) || window.contains(&b'\n')
    };
    for length in (0..bytes.len()).filter(is_near_end).step_by(3) {
        fs::write(&cut, &bytes[..length]).unwrap();
        let report = replayed(&cut, None);
        assert_eq!(report.different, 0, "{length} bytes");
        let is_whole_line = length > 0 && bytes[length - 1] == b'\n';
        assert_eq!(report.cut_off_files, u64::from(!is_whole_line), "{length}");
        assert!((last..=whole).contains(&report.decisions), "{length}");
        last = report.decisions;
    }
    assert!(last + 2 > whole && whole > 50, "{last} of {whole}");
}

/// Returns the error of reading these lines as a record.
fn error_of(folder: &Path, lines: &[String]) -> String {
    let file = folder.join("broken.jsonl");
    fs::write(&file, lines.concat()).unwrap();
    let reader = RecordReader::open(&file).unwrap();
    let error = replay(reader, None).unwrap_err().to_string();
    error.replace(&file.display().to_string(), "FILE")
}

#[test]
fn broken_records_name_the_file_and_the_line() {
    let (folder, record) = partition_record(1.0);
    let text = fs::read_to_string(only_file(&record)).unwrap();
    let lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let (header, state) = (&lines[0], &lines[1]);
    let is_later = |line: &&String| line.contains("\"later\":[");
    let later = lines.iter().find(is_later).unwrap();
    let own = |line: &str| format!("{line}\n");
    let rows = [
        (vec![own("{}")], "FILE:1: not the header of a record"),
        (vec![own("\u{0}")], "FILE:1: not the header of a record"),
        (
            vec![header.replacen("\"kelpieRecord\":1", "\"kelpieRecord\":2", 1)],
            "FILE:1: the record has format 2, but this version of kelpie reads format 1",
        ),
        (
            vec![
                header
                    .replace("nodeLeaseFailureFraction", "nodeLeaseFailure")
                    .replace("\"kubeConfigSecretName\"", "\"noSecret\""),
            ],
            "FILE:1: the recorded configuration is invalid",
        ),
        (
            vec![header.clone(), state.clone(), own("{\"cluster\":\"a\"}")],
            "FILE:3: not a line of a record",
        ),
        (
            vec![header.clone(), state.clone(), later.clone()],
            "FILE:3: invalid list: there is no list before it",
        ),
        (
            vec![header.clone(), own("{\"grace\":{\"own\":null}}")],
            "FILE:2: the line names no cluster",
        ),
        (
            vec![header.clone(), "x".repeat(33 << 20)],
            "FILE:2: the line is longer than",
        ),
    ];
    for (lines, expected) in rows {
        let error = error_of(folder.path(), &lines);
        assert!(error.starts_with(expected), "{expected}: {error}");
    }
    let empty = TempDir::new().unwrap();
    let error = RecordReader::open(empty.path()).unwrap_err().to_string();
    assert!(error.ends_with("the folder contains no record"), "{error}");
    assert!(replay(RecordReader::open(Path::new("/nowhere")).unwrap(), None).is_err());
}

/// A record whose lines were changed at random gives an error or a report, and never a panic.
#[test]
fn changed_records_do_no_harm() {
    let (folder, record) = partition_record(1.0);
    let bytes = fs::read(only_file(&record)).unwrap();
    let file = folder.path().join("changed.jsonl");
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut readable, mut broken) = (0, 0);
    for _ in 0..300 {
        let mut changed = bytes.clone();
        for _ in 0..rng.usize(1..4) {
            let index = rng.usize(0..changed.len());
            // Digits keep most lines readable, with wild values.
            changed[index] = match changed[index] {
                b'0'..=b'9' => b'0' + rng.u8(0..10),
                _ => *rng.choice(b"9-,}x\n").unwrap(),
            };
        }
        fs::write(&file, &changed).unwrap();
        let reader = RecordReader::open(&file).unwrap();
        let other = with_grace(&record, 80);
        match replay(reader, Some(&other)) {
            Ok(_) => readable += 1,
            Err(error) => {
                broken += 1;
                assert!(error.to_string().contains("changed.jsonl:"), "{error}");
            }
        }
    }
    assert!(readable > 10 && broken > 10, "{readable}, {broken}");
}

/// The recording of a partition of all five nodes of a cluster.
const INCIDENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/recordings/partition.jsonl"
);

/// Writes [`INCIDENT`] anew, as docs/develop/testing.md describes.
#[test]
#[ignore = "writes a file of the repository"]
fn record_an_incident() {
    let (_folder, record) = partition_record(1.0);
    fs::create_dir_all(Path::new(INCIDENT).parent().unwrap()).unwrap();
    fs::copy(only_file(&record), INCIDENT).unwrap();
}

#[test]
fn recorded_incident_is_fenced_in_time() {
    let report = replayed(Path::new(INCIDENT), None);
    assert_eq!(report.different_verdicts, 0);
    let cluster = report.clusters.values().next().unwrap();
    let [fence] = &cluster.recorded[..] else {
        panic!("{cluster:?}");
    };
    // Decided with more than two seconds left, made at once, and undone after the five minutes.
    assert!(fence.margin_seconds.unwrap() > 2.0, "{fence:?}");
    let made = fence.fenced_at.unwrap().since(fence.wanted_at);
    assert!(made < Duration::from_secs(2), "{made:?}");
    let lasted = fence.released_at.unwrap().since(fence.wanted_at);
    assert!((240..320).contains(&lasted.as_secs()), "{lasted:?}");
}

#[test]
fn record_contains_no_credentials() {
    let (_folder, record) = partition_record(1.0);
    let text = fs::read_to_string(only_file(&record)).unwrap();
    for secret in ["token", "certificate", "Bearer", "BEGIN", "https://"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn healthy_rounds_take_few_bytes() {
    let folder = TempDir::new().unwrap();
    let chaos = ChaosRun {
        scenario: Scenario {
            length: Duration::from_mins(30),
            ..Scenario::default()
        },
        ..partition(1.0)
    };
    let (_, records) = recorded(unbounded(folder.path()), || run(&chaos));
    let bytes = fs::metadata(only_file(&records[0])).unwrap().len();
    let decisions = replayed(&records[0], None).decisions;
    let each = bytes / decisions;
    println!("{bytes} bytes, {decisions} decisions, {each} bytes each");
    assert!(
        decisions > 150 && each < 700,
        "{each} bytes in {decisions} decisions"
    );
}
