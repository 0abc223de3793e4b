//! The same requests to etcd's own endpoints and to ours: every difference is meant.

use kelpie_e2e::wire::{self, Reply};
use kelpie_e2e::{Etcd, Kelpie};

use super::stage::{PATIENCE, beside, on_lines};

/// Lines of etcd with endpoints of their own; Debian's 3.4 is too old for them.
const WITH_ENDPOINTS: [&str; 3] = ["etcd-3.5", "etcd-3.6", "etcd-3.7"];

/// Method and target that both answer alike: status, headers, lines of the body in any order.
const SAME: [(&str, &str); 43] = [
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

/// What differs on purpose, and why.
const DIFFERENT: [(&str, &str, &str); 8] = [
    (
        "GET",
        "/readyz?verbose",
        "we have checks that etcd never got",
    ),
    ("GET", "/readyz/read_index", "etcd has no such check"),
    ("GET", "/readyz/defragmentation", "etcd has no such check"),
    ("GET", "/readyz/raft_loop", "etcd has no such check"),
    (
        "GET",
        "/readyz/linearizable_read",
        "ours is off unless enabled: read_index judges",
    ),
    (
        "GET",
        "//livez",
        "etcd redirects to the cleaned path; we know no other spelling",
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
async fn answers_differ_from_etcds_own_only_where_it_is_meant() {
    on_lines(&WITH_ENDPOINTS, async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        compare(&etcd, &kelpie).await;
    })
    .await;
}

#[tokio::test]
async fn failures_differ_from_etcds_own_only_where_it_is_meant() {
    on_lines(&WITH_ENDPOINTS, async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        etcd.raise("CORRUPT", "4711").await.unwrap();
        kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
        for target in [
            "/livez?verbose",
            "/readyz/data_corruption",
            "/readyz/non_learner?verbose",
        ] {
            let (theirs, ours) = both(&etcd, &kelpie, "GET", target).await;
            assert_eq!(essence(&theirs), essence(&ours), "{target}");
        }
        let (theirs, ours) = both(&etcd, &kelpie, "GET", "/readyz").await;
        assert_eq!(common(&theirs), common(&ours));
    })
    .await;
}

async fn compare(etcd: &Etcd, kelpie: &Kelpie) {
    for (method, target) in SAME {
        let (theirs, ours) = both(etcd, kelpie, method, target).await;
        assert_eq!(essence(&theirs), essence(&ours), "{method} {target}");
    }
    for (method, target, reason) in DIFFERENT {
        let (theirs, ours) = both(etcd, kelpie, method, target).await;
        println!(
            "{method} {target}: etcd {}, kelpie {}: {reason}",
            theirs.status, ours.status
        );
        assert_ne!(
            essence(&theirs),
            essence(&ours),
            "no difference any more: {method} {target}"
        );
    }
}

async fn both(etcd: &Etcd, kelpie: &Kelpie, method: &str, target: &str) -> (Reply, Reply) {
    // The listener of the metrics: the other one puts CORS around everything.
    let theirs = wire::request(etcd.metrics_url(), method, target, "")
        .await
        .unwrap();
    let ours = wire::request(kelpie.url(), method, target, "")
        .await
        .unwrap();
    (theirs, ours)
}

/// What a client can see, without what may change between two answers of the same server.
fn essence(reply: &Reply) -> (u16, [Option<&str>; 3], Vec<&str>) {
    let headers = ["content-type", "x-content-type-options", "allow"];
    (
        reply.status,
        headers.map(|name| reply.header(name)),
        sorted(&reply.body),
    )
}

/// Status and lines of the checks that both have.
fn common(reply: &Reply) -> (u16, Vec<&str>) {
    let own = [
        "read_index",
        "defragmentation",
        "raft_loop",
        "linearizable_read",
    ];
    let mut lines = sorted(&reply.body);
    lines.retain(|line| !own.iter().any(|name| line.contains(name)));
    (reply.status, lines)
}

/// etcd runs and lists its checks in random order.
fn sorted(body: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = body.split('\n').collect();
    lines.sort_unstable();
    lines
}
