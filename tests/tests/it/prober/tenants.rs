//! Trouble with the API servers of clusters: it is reported, bounded, and nobody else's.

use std::time::Duration;

use kelpie_e2e::landscape::{
    Fault, Impostor, Kubelets, Pace, Play, ProberConfig, Proxy, Shoot, rest,
};
use kelpie_e2e::{Credentials, poll};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::*;

/// Memory that a fleet of hostile clusters may cost, in the debug build.
const MEMORY: u64 = 400 << 20;

/// Answers to everything but the first question, after which leases are asked for.
fn on_leases(play: Play) -> impl Fn(&str) -> Play + Send + Sync + 'static {
    move |path| {
        if path.starts_with("/version") {
            Play::version()
        } else {
            play.clone()
        }
    }
}

fn always(play: Play) -> impl Fn(&str) -> Play + Send + Sync + 'static {
    move |_| play.clone()
}

/// A hostile API server by its name, and the words that say what it did.
async fn impostors() -> Vec<(&'static str, Impostor, &'static str)> {
    let lease =
        r#"{"metadata":{"name":"node-000"},"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}},"#;
    let list = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":["#;
    let flood = |start: &str, piece: &str, times: usize| Play::Flood {
        content: "application/json".into(),
        start: start.into(),
        piece: piece.into(),
        times,
    };
    let wrong_type = Play::Answer(
        200,
        vec!["Content-Type: text/html".into()],
        b"<html>welcome</html>".to_vec(),
    );
    let elsewhere = Play::json(302, "{}").header("Location: https://127.0.0.1:1/");
    let later = Play::json(429, "{}").header("Retry-After: 100000");
    let scripts: Vec<(&str, Script, &str)> = vec![
        (
            "unauthorized",
            Box::new(always(Play::json(401, "{}"))),
            "401",
        ),
        (
            "forbidden",
            Box::new(on_leases(Play::json(403, "{}"))),
            "403",
        ),
        ("throttled", Box::new(on_leases(later)), "429"),
        ("broken", Box::new(always(Play::json(500, "{}"))), "500"),
        ("closing", Box::new(always(Play::Close)), "no answer"),
        ("silent", Box::new(always(Play::Silence)), "in time"),
        (
            "silent-leases",
            Box::new(on_leases(Play::Silence)),
            "in time",
        ),
        (
            "gigabyte",
            Box::new(on_leases(flood(list, &" ".repeat(1 << 20), 1 << 10))),
            "too large",
        ),
        (
            "million-leases",
            Box::new(on_leases(flood(list, &lease.repeat(1_000), 1_000))),
            "too large",
        ),
        (
            "deep",
            Box::new(on_leases(flood(list, &"[".repeat(1_000), 1_000))),
            "cannot be read",
        ),
        ("html", Box::new(on_leases(wrong_type)), "cannot be read"),
        ("redirecting", Box::new(always(elsewhere)), "redirects"),
    ];
    let mut impostors = Vec::new();
    for (name, script, words) in scripts {
        impostors.push((name, Impostor::start(script).await.unwrap(), words));
    }
    impostors
}

/// What an impostor plays for a path.
type Script = Box<dyn Fn(&str) -> Play + Send + Sync>;

#[tokio::test]
async fn a_hostile_cluster_is_reported_costs_little_and_disturbs_nobody() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let well = stage.shoot("well", &kubelets).await;
    let impostors = impostors().await;
    let mut rows = Vec::new();
    for (name, impostor, words) in &impostors {
        let shoot = stage
            .shoot_at(name, &impostor.kubeconfig(), &kubelets)
            .await;
        rows.push((shoot, *words));
    }
    let exec = stage.kubeconfig.replace(
        "  user:\n",
        "  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}\n",
    );
    assert_ne!(exec, stage.kubeconfig);
    rows.push((stage.shoot_at("exec", &exec, &kubelets).await, "exec"));

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    until_well(&prober, &well).await;
    for (shoot, words) in &rows {
        let says = |state: &Value| state["troubles"].to_string().contains(words);
        let found = prober.until_state(words, &shoot.name, PATIENCE, says);
        found.await.unwrap();
        let warned = prober.lines(&["WARN", &format!("cluster=\"{}\"", shoot.name)]);
        assert!(!warned.is_empty(), "{}", shoot.name);
    }

    // With all that going on the healthy one is judged as it would be alone.
    let mut most = 0;
    let end = Instant::now() + pace.interval * 5;
    let age = format!(
        r#"kelpie_prober_last_judged_age_seconds{{cluster="{}"}}"#,
        well.name
    );
    let mut longest = 0.0_f64;
    while Instant::now() < end {
        most = most.max(prober.kelpie.process().resident().unwrap());
        longest = longest.max(prober.kelpie.metric(&age).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "{} MiB at most; the longest pause of the healthy one: {longest:.1} s",
        most >> 20
    );
    assert!(most < MEMORY, "{most} bytes");
    // The interval, its jitter of a fifth, the round, and a moment of a loaded machine.
    assert!(longest < 2.0 * pace.interval.as_secs_f64(), "{longest} s");
    for (shoot, _) in &rows {
        assert_untouched(shoot).await;
    }
    assert!(!prober.log().contains("secret-token-of-the-tenant"));

    // A fence of the healthy cluster is not held up either.
    kubelets.cut(1.0).await;
    well.until_counts(FENCED, PATIENCE).await.unwrap();
    for (shoot, _) in &rows {
        assert_untouched(shoot).await;
    }
}

#[tokio::test]
async fn broken_paths_never_fence_and_half_open_connections_decide_nothing() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let api = &stage.seed.plane.api;
    let access = api.user("probe", &[]).unwrap();
    let mut paths = Vec::new();
    for name in ["reset", "stalled", "half-open", "slow"] {
        let proxy = Proxy::start(api.url()).await.unwrap();
        let way = api.kubeconfig_at(proxy.url(), &access);
        let shoot = stage.shoot_at(name, &way, &kubelets).await;
        paths.push((shoot, proxy));
    }
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for (shoot, _) in &paths {
        until_well(&prober, shoot).await;
    }
    let of = |name: &str| paths.iter().find(|(shoot, _)| shoot.name == name).unwrap();
    let (reset, on_reset) = of("reset");
    let (stalled, on_stalled) = of("stalled");
    let (half_open, on_half_open) = of("half-open");
    let (slow, on_slow) = of("slow");

    let connections = on_half_open.connections();
    on_reset.set(Fault::Reset);
    on_stalled.set(Fault::Stall);
    on_half_open.set(Fault::StallOld);
    on_slow.set(Fault::Delay(Duration::from_millis(300)));
    for shoot in [reset, stalled] {
        let held = prober.until_state("a Hold", &shoot.name, PATIENCE, |state| {
            state["decision"]["reasons"]["rule"]["name"] == "apiServerNotHealthy"
        });
        held.await.unwrap();
        let state = prober.state(&shoot.name).await.unwrap().unwrap();
        let troubles = state["troubles"].to_string();
        assert!(troubles.contains("API server"), "{troubles}");
    }
    // Its round ended well over a fresh connection; nobody was told of any trouble.
    let fresh = poll::until("a fresh connection", PATIENCE, async || {
        Ok((on_half_open.connections() > connections).then_some(()))
    });
    fresh.await.unwrap();
    until_well(&prober, half_open).await;
    until_well(&prober, slow).await;
    for shoot in [half_open, slow] {
        let told = prober.lines(&["WARN", &format!("cluster=\"{}\"", shoot.name)]);
        assert!(told.is_empty(), "{told:#?}");
    }

    // The outage was longer than the grace period, and ends without a fence.
    let outage = prober.until_state("a long outage", &stalled.name, PATIENCE, |state| {
        state["decision"]["reasons"]["rule"]["name"] == "apiServerNotHealthy"
    });
    outage.await.unwrap();
    tokio::time::sleep(pace.grace).await;
    on_reset.set(Fault::None);
    on_stalled.set(Fault::None);
    for (shoot, _) in &paths {
        until_well(&prober, shoot).await;
        assert_untouched(shoot).await;
    }
    let fences = prober.lines(&["verdict=Fence"]);
    assert!(fences.is_empty(), "{fences:#?}");
}

#[tokio::test]
async fn a_rotated_secret_works_at_the_next_round_when_the_old_token_is_revoked() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let old = token_of(&stage, "old").await;
    let new = token_of(&stage, "new").await;
    let api = &stage.seed.plane.api;
    let way = |token: &str| api.kubeconfig(&Credentials::Token(token.to_owned()));
    let shoot = stage.shoot_at("rotated", &way(&old), &kubelets).await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    until_well(&prober, &shoot).await;

    let account = "/api/v1/namespaces/default/serviceaccounts/old";
    rest::delete(&stage.seed.client, account).await.unwrap();
    let refused = |state: &Value| state["troubles"].to_string().contains("401");
    let state = prober.until_state("a refusal", &shoot.name, PATIENCE, refused);
    state.await.unwrap();
    shoot.rotate(&way(&new)).await.unwrap();
    let rotated = Instant::now();
    until_clear(&prober, &shoot).await;
    println!("works {:?} after the rotation", rotated.elapsed());

    kubelets.cut(1.0).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    for token in [old, new] {
        assert!(!prober.log().contains(&token), "a token in the log");
    }
}

async fn until_clear(prober: &kelpie_e2e::landscape::Prober, shoot: &Shoot) {
    let clear = |state: &Value| state["troubles"].as_array().is_some_and(Vec::is_empty);
    let found = prober.until_state("no trouble", &shoot.name, PATIENCE, clear);
    found.await.unwrap();
}

/// A service account with the rights of a probe, and a token of it.
async fn token_of(stage: &Stage, name: &str) -> String {
    let client = &stage.seed.client;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": name } });
    rest::create(client, accounts, &account).await.unwrap();
    let binding = json!({
        "metadata": { "name": format!("account-{name}") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    rest::create(client, bindings, &binding).await.unwrap();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": 3600 },
    });
    let path = format!("{accounts}/{name}/token");
    let granted = rest::create(client, &path, &request).await.unwrap();
    granted["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn connections_are_kept_unless_each_round_is_to_make_its_own() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let api = &stage.seed.plane.api;
    let access = api.user("probe", &[]).unwrap();
    let make = async |name: &str, flags: &[&str]| {
        let proxy = Proxy::start(api.url()).await.unwrap();
        let way = api.kubeconfig_at(proxy.url(), &access);
        let shoot = stage.shoot_at(name, &way, &kubelets).await;
        let config = ProberConfig::shipped(pace).only(name);
        let prober = stage.prober(&config, flags).await;
        until_well(&prober, &shoot).await;
        (prober, proxy)
    };
    let (keeping, kept) = make("kept", &[]).await;
    let (renewing, fresh) = make("fresh", &["--fresh-connections"]).await;

    let before = [&kept, &fresh].map(Proxy::connections);
    tokio::join!(until_rounds(&keeping, 4.0), until_rounds(&renewing, 4.0));
    let after = [&kept, &fresh].map(Proxy::connections);
    assert!(after[1] >= before[1] + 4, "{before:?} -> {after:?}");
    // A slow answer may cost a connection; one for each round it is not.
    assert!(after[0] < before[0] + 4, "{before:?} -> {after:?}");
}
