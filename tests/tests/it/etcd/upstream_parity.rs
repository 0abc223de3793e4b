//! Sends the same requests to etcd's own endpoints and to kelpie. Every difference is intended.

use kelpie_e2e::plain_http::{self, HttpResponse};
use kelpie_e2e::{EtcdMember, Kelpie};

use super::fixture::{TIMEOUT, on_releases, start_kelpie};

/// The etcd releases with endpoints of their own. Debian's 3.4 is too old for them.
const WITH_ENDPOINTS: [&str; 3] = ["etcd-3.5", "etcd-3.6", "etcd-3.7"];

/// The requests that both answer alike: same status, headers and lines of the body in any order.
const SAME: [(&str, &str); 51] = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/livez?verbose"),
    ("GET", "/livez?verbose=false"),
    ("GET", "/livez?verbose=0"),
    ("GET", "/livez?verbose="),
    ("GET", "/livez?VERBOSE"),
    ("GET", "/livez?%76erbose"),
    ("GET", "/livez?exclude=serializable_read&verbose"),
    ("GET", "/livez?exclude=serializable%5Fread&verbose"),
    ("GET", "/livez?verbose&exclude=a,b"),
    ("GET", "/livez?verbose&exclude=bogus"),
    ("GET", "/livez?verbose&exclude="),
    ("GET", "/livez?verbose&exclude"),
    ("GET", "/livez?verbose&exclude=SERIALIZABLE_READ"),
    ("GET", "/livez?verbose&exclude=serializable_read;x=y"),
    ("GET", "/livez?verbose&exclude=%zz"),
    ("GET", "/livez?allowlist=serializable_read"),
    ("GET", "/livez/serializable_read"),
    ("GET", "/livez/serializable_read?verbose"),
    (
        "GET",
        "/livez/serializable_read?exclude=serializable_read&verbose",
    ),
    ("GET", "/readyz/serializable_read?verbose"),
    ("GET", "/readyz/linearizable_read"),
    ("GET", "/readyz/linearizable_read?verbose"),
    ("GET", "/health"),
    ("GET", "/health?serializable=true"),
    ("GET", "/health?exclude=NOSPACE&serializable=false"),
    ("GET", "/health?exclude=&exclude=bogus&serializable=1"),
    ("GET", "/health/"),
    ("POST", "/health"),
    ("GET", "/readyz/data_corruption?verbose"),
    ("GET", "/readyz/non_learner?verbose"),
    ("GET", "/readyz/non_learner?exclude=non_learner&verbose"),
    ("GET", "/readyz?exclude=data_corruption"),
    ("GET", "/readyz/bogus"),
    ("GET", "/livez/data_corruption"),
    ("GET", "/livez/"),
    ("GET", "/livez/serializable_read/"),
    ("GET", "/Livez"),
    ("GET", "/healthz"),
    ("GET", "/livez%2Fserializable_read"),
    ("POST", "/livez"),
    ("PUT", "/livez"),
    ("DELETE", "/readyz"),
    ("PATCH", "/readyz?verbose"),
    ("TRACE", "/livez"),
    ("OPTIONS", "/livez"),
    ("HEAD", "/livez"),
    ("FOO", "/livez"),
    ("POST", "/readyz/bogus"),
    ("POST", "/readyz/non_learner"),
];

/// The requests that differ on purpose, and the reasons.
const DIFFERENT: [(&str, &str, &str); 9] = [
    (
        "GET",
        "/readyz?verbose",
        "kelpie has checks that etcd never got",
    ),
    ("GET", "/readyz/read_index", "etcd has no such check"),
    ("GET", "/readyz/defragmentation", "etcd has no such check"),
    ("GET", "/readyz/raft_loop", "etcd has no such check"),
    ("GET", "/readyz/watch", "etcd has no such check"),
    ("GET", "/livez/raft_loop", "etcd has no such check"),
    (
        "GET",
        "//livez",
        "etcd redirects to the cleaned path; kelpie knows no other spelling",
    ),
    (
        "GET",
        "/livez/./serializable_read",
        "etcd redirects to the cleaned path",
    ),
    (
        "GET",
        "/livez/../readyz",
        "etcd redirects to the cleaned path",
    ),
];

#[tokio::test]
async fn passing_responses_match_etcd() {
    on_releases(&WITH_ENDPOINTS, async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        compare(&etcd, &kelpie).await;
    })
    .await;
}

#[tokio::test]
async fn failing_responses_match_etcd() {
    on_releases(&WITH_ENDPOINTS, async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        etcd.raise("CORRUPT", "4711").await.unwrap();
        kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
        for target in [
            "/livez/serializable_read?verbose",
            "/readyz/data_corruption",
            "/readyz/non_learner?verbose",
            "/health",
            "/health?serializable=true",
            "/health?exclude=CORRUPT",
            "/health?exclude=NOSPACE",
        ] {
            let (upstream, ours) = request_both(&etcd, &kelpie, "GET", target).await;
            assert_eq!(stable_parts(&upstream), stable_parts(&ours), "{target}");
        }
        let (upstream, ours) = request_both(&etcd, &kelpie, "GET", "/readyz").await;
        assert_eq!(common_lines(&upstream), common_lines(&ours));
    })
    .await;
}

async fn compare(etcd: &EtcdMember, kelpie: &Kelpie) {
    for (method, target) in SAME {
        let (upstream, ours) = request_both(etcd, kelpie, method, target).await;
        let mut parts = stable_parts(&ours);
        if target.starts_with("/livez?") {
            // The only check of livez that etcd never got.
            let before = parts.2.len();
            parts.2.retain(|line| *line != "[+]raft_loop ok");
            assert!(before - parts.2.len() <= 1, "{method} {target}");
        }
        assert_eq!(stable_parts(&upstream), parts, "{method} {target}");
    }
    for (method, target, reason) in DIFFERENT {
        let (upstream, ours) = request_both(etcd, kelpie, method, target).await;
        println!(
            "{method} {target}: etcd {}, kelpie {}: {reason}",
            upstream.status, ours.status
        );
        assert_ne!(
            stable_parts(&upstream),
            stable_parts(&ours),
            "no difference any more: {method} {target}"
        );
    }
}

async fn request_both(
    etcd: &EtcdMember,
    kelpie: &Kelpie,
    method: &str,
    target: &str,
) -> (HttpResponse, HttpResponse) {
    // From the metrics listener, because the client listener adds CORS headers.
    let upstream = plain_http::request(etcd.metrics_url(), method, target, "")
        .await
        .unwrap();
    let ours = plain_http::request(kelpie.url(), method, target, "")
        .await
        .unwrap();
    (upstream, ours)
}

/// Returns the parts of a response that do not change between two requests to the same server.
fn stable_parts(reply: &HttpResponse) -> (u16, [Option<&str>; 3], Vec<&str>) {
    let headers = ["content-type", "x-content-type-options", "allow"];
    (
        reply.status,
        headers.map(|name| reply.header(name)),
        sorted_lines(&reply.body),
    )
}

/// Returns the status, and the lines of the checks that both have.
fn common_lines(reply: &HttpResponse) -> (u16, Vec<&str>) {
    let own = [
        "read_index",
        "defragmentation",
        "raft_loop",
        "watch",
        "linearizable_read",
    ];
    let mut lines = sorted_lines(&reply.body);
    lines.retain(|line| !own.iter().any(|name| line.contains(name)));
    (reply.status, lines)
}

/// Sorts the lines, because etcd lists its checks in random order.
fn sorted_lines(body: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = body.split('\n').collect();
    lines.sort_unstable();
    lines
}
