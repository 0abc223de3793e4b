//! Tests of `kelpie status` and `kelpie events`, on a prober with canned responses.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;
use crate::server::serve;

const NOW: &str = "2026-11-16T00:30:00.000000Z";

fn cluster(id: &str, condition: &str, sentence: &str) -> Value {
    json!({
        "id": id, "condition": condition, "since": "2026-11-16T00:00:00.000000Z",
        "sentence": sentence, "nodes": 3, "silent": 0, "notCounted": 0,
    })
}

fn replica(pause: &Value) -> Value {
    json!({
        "at": NOW, "identity": "kelpie-prober-7c9_1", "version": "1.2.3", "part": "leader",
        "leader": "kelpie-prober-7c9_1", "pause": pause,
    })
}

fn fleet(clusters: &[Value], pause: &Value) -> Value {
    let mut counts = serde_json::Map::new();
    for cluster in clusters {
        let count = counts
            .entry(cluster["condition"].as_str().unwrap())
            .or_insert(0.into());
        *count = (count.as_u64().unwrap() + 1).into();
    }
    json!({
        "replica": replica(pause),
        "fleet": {"clusters": clusters.len(), "needsYou": 0, "counts": counts},
        "sharedCauses": [],
        "day": {"bucketSeconds": 300, "start": NOW, "buckets": []},
        "clusters": clusters,
    })
}

fn off() -> Value {
    json!({"state": "off"})
}

/// Runs a command against a prober that gives this answer.
fn run(path: &'static str, answer: &Value, arguments: &[&str]) -> String {
    let answer = answer.to_string();
    let address = serve(move |request| {
        if request.path == path {
            (200, answer.clone())
        } else {
            (404, "no such page".to_owned())
        }
    });
    let url = format!("http://{address}");
    let arguments = [arguments, &["--url", &url]].concat();
    Program::new("status").run(&arguments)
}

fn status(answer: &Value, arguments: &[&str]) -> String {
    let arguments = [&["status"], arguments].concat();
    run("/debug/state?summary", answer, &arguments)
}

fn troubled() -> Vec<Value> {
    let mut fenced = cluster(
        "shoot--dev--two",
        "fenced",
        "3 of 3 nodes silent. Its controllers were stopped 4.4 s before the deadline: the nodes \
         are safe.",
    );
    fenced["silent"] = 3.into();
    fenced["marginSeconds"] = 4.4.into();
    let mut blind = cluster(
        "shoot--dev--three",
        "blind",
        "Its API server does not answer.",
    );
    blind["problem"] = "API server: connection refused".into();
    vec![
        cluster(
            "shoot--dev--one",
            "healthy",
            "All 3 nodes renew their leases.",
        ),
        fenced,
        blind,
    ]
}

#[test]
fn troubled_clusters_come_first() {
    insta::assert_snapshot!(status(&fleet(&troubled(), &off()), &[]));
}

#[test]
fn wide_table_has_problems_in_full() {
    let text = status(&fleet(&troubled(), &off()), &["-o", "wide", "--troubled"]);
    assert!(text.contains("(API server: connection refused)"), "{text}");
    assert!(text.contains("the nodes are safe"), "{text}");
    assert!(!text.contains("shoot--dev--one"), "{text}");
}

#[test]
fn exit_code_tells_whether_an_operator_is_needed() {
    let healthy = [cluster("a", "healthy", "fine")];
    let paused = json!({"state": "on", "until": NOW, "reason": "drill"});
    for (answer, code) in [
        (fleet(&healthy, &off()), 0),
        (fleet(&troubled(), &off()), 4),
        (fleet(&healthy, &paused), 4),
        (json!({}), 1),
    ] {
        let text = status(&answer, &[]);
        assert!(text.starts_with(&format!("exit code: {code}\n")), "{text}");
    }
    let text = status(&fleet(&healthy, &paused), &[]);
    assert!(
        text.contains("PAUSED") && text.contains("because: drill"),
        "{text}"
    );
}

#[test]
fn prober_without_a_list_is_not_taken_for_one_without_clusters() {
    let mut answer = fleet(&[], &off());
    answer["replica"]["waiting"] = "the prober is waiting for the first list of Clusters".into();
    let text = status(&answer, &[]);
    assert!(text.starts_with("exit code: 4\n"), "{text}");
    assert!(text.contains("waiting for the first list"), "{text}");
}

#[test]
fn machine_formats_have_the_same_clusters() {
    let answer = fleet(&troubled(), &off());
    let stdout = |format| {
        let text = status(&answer, &["-o", format]);
        text.split_once("----- stdout -----\n")
            .unwrap()
            .1
            .to_owned()
    };
    let json: Value = serde_json::from_str(&stdout("json")).unwrap();
    let ids: Vec<_> = json["clusters"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[2]["id"], "shoot--dev--one");
    let yaml = stdout("yaml");
    assert!(yaml.contains("id: shoot--dev--one"), "{yaml}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the command runs in real time")]
fn three_thousand_clusters_take_less_than_a_second() {
    let clusters: Vec<_> = (0..3_000)
        .map(|n| {
            let id = format!("shoot--dev--{n:04}");
            cluster(&id, "healthy", "All 3 nodes renew their leases.")
        })
        .collect();
    let answer = fleet(&clusters, &off());
    let took = || {
        let start = Instant::now();
        let text = status(&answer, &[]);
        assert!(text.contains("shoot--dev--2999"));
        start.elapsed()
    };
    // Other tests run at the same time.
    let fastest = (0..5).map(|_| took()).min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

#[test]
fn events_tell_the_story_of_a_cluster() {
    let transition = |at: &str, kind: &str, text: &str, count: u16| {
        let entry = json!({"at": at, "kind": kind, "text": text});
        let mut entry = entry.as_object().cloned().unwrap();
        entry.insert("count".to_owned(), count.into());
        entry.insert("lastAt".to_owned(), NOW.into());
        Value::Object(entry)
    };
    let detail = json!({
        "replica": replica(&off()),
        "summary": cluster("a", "fenced", "3 of 3 nodes silent."),
        "guidance": {"meaning": "", "advice": []},
        "graceSeconds": 40.0, "lastFence": null, "nodes": null,
        "history": [
            transition("2026-11-16T00:10:00Z", "trip", "too many leases expired", 1),
            transition("2026-11-16T00:10:01Z", "fence", "kcm scaled down to 0", 1),
            transition("2026-11-16T00:20:00Z", "trouble", "leases: no\u{1b}[2J answer", 7),
        ],
    });
    let view = json!({
        "inWords": "", "decision": null, "fence": null, "fencedSince": null, "targets": [],
        "lastFlow": null, "problems": [], "detail": detail,
    });
    let answer = json!({"at": NOW, "leads": true, "dryRun": false, "clusters": {"a": view}});
    let path = "/debug/state?cluster=a";
    insta::assert_snapshot!(run(path, &answer, &["events", "a"]));
    let text = run(path, &answer, &["events", "a", "-o", "json"]);
    assert!(text.contains("\"kind\": \"trip\""), "{text}");
}
