//! The HTTP contract, byte for byte over real connections.

use kelpie_health::{CheckGroup, Health, HealthSettings, not_found, routes};

use crate::fixture::{
    ScriptedCheck, failed, get, health, health_with, request, send, serve, serve_router,
};

/// Passing checks: `zeta`, `alpha` and `omega` in readyz, in this order, and `alpha` in livez.
fn healthy() -> Health {
    let (health, _) = health(|checks| {
        checks.readyz("zeta", ScriptedCheck::returning(Ok(())));
        checks.both("alpha", ScriptedCheck::returning(Ok(())));
        checks.readyz("omega", ScriptedCheck::returning(Ok(())));
    });
    health
}

/// The same checks, of which `alpha` and `omega` fail.
fn failing() -> Health {
    let (health, _) = health(|checks| {
        checks.readyz("zeta", ScriptedCheck::returning(Ok(())));
        checks.both(
            "alpha",
            ScriptedCheck::returning(failed("alarm activated: CORRUPT")),
        );
        checks.readyz("omega", ScriptedCheck::returning(failed("no leader")));
    });
    health
}

#[tokio::test]
async fn responses_are_byte_exact() {
    let address = serve(healthy()).await;
    let head = "content-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n";
    for path in ["/livez", "/readyz", "/readyz/omega", "/livez/alpha"] {
        assert_eq!(
            request(address, "GET", path).await,
            format!("HTTP/1.1 200 OK\r\n{head}content-length: 3\r\nconnection: close\r\n\r\nok\n"),
            "{path}"
        );
    }
    let address = serve(failing()).await;
    let body = "[-]alpha failed: alarm activated: CORRUPT\n\n";
    assert_eq!(
        request(address, "GET", "/livez").await,
        format!(
            "HTTP/1.1 503 Service Unavailable\r\n{head}content-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        )
    );
}

#[tokio::test]
async fn verbose_lists_checks_in_registration_order() {
    let address = serve(healthy()).await;
    let all = "[+]zeta ok\n[+]alpha ok\n[+]omega ok\nok\n";
    for target in [
        "/readyz?verbose",
        "/readyz?verbose=",
        "/readyz?verbose=false",
        "/readyz?verbose=0",
        "/readyz?x&verbose",
        "/readyz?%76erbose",
        "/readyz?exclude=%zz&verbose",
        "/readyz?exclude=zeta;exclude=alpha&verbose",
    ] {
        assert_eq!(get(address, target).await, (200, all.into()), "{target}");
    }
    for target in [
        "/readyz?",
        "/readyz?VERBOSE",
        "/readyz?verbose=%zz",
        "/readyz?verbose;",
        "/readyz?allowlist=zeta",
        "/readyz?;;;&%&=&&%%%",
    ] {
        assert_eq!(get(address, target).await, (200, "ok\n".into()), "{target}");
    }
    let alone = (200, "[+]alpha ok\nok\n".to_owned());
    assert_eq!(get(address, "/livez?verbose").await, alone);
}

#[tokio::test]
async fn failure_always_lists_every_check() {
    let address = serve(failing()).await;
    let body = "[+]zeta ok\n[-]alpha failed: alarm activated: CORRUPT\n\
                [-]omega failed: no leader\n\n";
    for target in ["/readyz", "/readyz?verbose", "/readyz?exclude=non_exist"] {
        assert_eq!(get(address, target).await, (503, body.into()), "{target}");
    }
}

#[tokio::test]
async fn excluded_check_is_neither_run_nor_listed() {
    let (zeta, alpha) = (
        ScriptedCheck::returning(Ok(())),
        ScriptedCheck::returning(failed("CORRUPT")),
    );
    let (health, _) = health(|checks| {
        checks.readyz("zeta", zeta.clone());
        checks.both("alpha", alpha.clone());
    });
    let address = serve(health).await;
    let listed = "[+]zeta ok\nok\n";
    for target in [
        "/readyz?verbose&exclude=alpha",
        "/readyz?exclude=alpha&verbose&exclude=alpha",
        "/readyz?exclude=%61lph%61&verbose",
        "/readyz?exclude=bogus&exclude=alpha&verbose",
        "/readyz?exclude=&exclude=alpha&verbose",
        "/readyz?exclude=%&exclude=alpha&verbose",
    ] {
        assert_eq!(get(address, target).await, (200, listed.into()), "{target}");
    }
    assert_eq!(alpha.runs(), 0);
    let none = (200, "ok\n".to_owned());
    let target = "/readyz?verbose&exclude=alpha&exclude=zeta";
    assert_eq!(get(address, target).await, none);
    assert_eq!(get(address, "/livez?exclude=alpha").await, none);
    assert_eq!((zeta.runs(), alpha.runs()), (6, 0));
    for target in [
        "/readyz?exclude=alpha,zeta",
        "/readyz?exclude=ALPHA",
        "/readyz?exclude=alpha+",
        "/readyz?exclude=alpha%00",
        "/readyz?exclude=",
        "/readyz?exclude",
        "/readyz?exclude=%61lpha%",
        "/readyz?exclude=alpha;",
        "/readyz?Exclude=alpha",
    ] {
        let body = "[+]zeta ok\n[-]alpha failed: CORRUPT\n\n";
        assert_eq!(get(address, target).await, (503, body.into()), "{target}");
    }
}

#[tokio::test]
async fn single_check_endpoint_runs_one_check() {
    let address = serve(failing()).await;
    for (target, status, body) in [
        ("/readyz/zeta", 200, "ok\n"),
        ("/readyz/zeta?verbose", 200, "[+]zeta ok\nok\n"),
        ("/readyz/z%65ta", 200, "ok\n"),
        ("/readyz/zeta?exclude=zeta&verbose", 200, "[+]zeta ok\nok\n"),
        ("/readyz/omega", 503, "[-]omega failed: no leader\n\n"),
        (
            "/readyz/omega?exclude=omega",
            503,
            "[-]omega failed: no leader\n\n",
        ),
        (
            "/livez/alpha",
            503,
            "[-]alpha failed: alarm activated: CORRUPT\n\n",
        ),
    ] {
        assert_eq!(
            get(address, target).await,
            (status, body.into()),
            "{target}"
        );
    }
}

#[tokio::test]
async fn unknown_paths_are_404_for_every_method() {
    let address = serve(healthy()).await;
    for target in [
        "/readyz/bogus",
        "/livez/zeta",
        "/livez/",
        "/livez/?verbose",
        "/livez/alpha/",
        "/livez/alpha/alpha",
        "/livez//alpha",
        "/livez/./alpha",
        "/livez/../readyz",
        "/livez/..",
        "/livez/ALPHA",
        "/livez/alpha+",
        "/livez/%",
        "/livez/%ff",
        "/livez/alpha%2f",
        "/livez%2Falpha",
        "/Livez",
        "//livez",
        "/livezz",
        "/healthz",
        "/",
    ] {
        for method in ["GET", "POST", "FOO"] {
            let answer = request(address, method, target).await;
            assert_eq!(
                answer,
                "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=utf-8\r\n\
                 x-content-type-options: nosniff\r\ncontent-length: 19\r\nconnection: close\r\n\r\n\
                 404 page not found\n",
                "{method} {target}"
            );
        }
        let answer = request(address, "HEAD", target).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{target}: {answer}");
    }
}

#[tokio::test]
async fn other_methods_run_nothing() {
    let check = ScriptedCheck::returning(Ok(()));
    let (health, _) = health(|checks| {
        checks.both("alpha", check.clone());
    });
    let address = serve(health).await;
    let head = "HTTP/1.1 405 Method Not Allowed\r\ncontent-type: text/plain; charset=utf-8\r\n\
                x-content-type-options: nosniff\r\nallow: GET\r\ncontent-length: 19\r\n\
                connection: close\r\n\r\n";
    for target in ["/livez", "/readyz?verbose", "/livez/alpha"] {
        for method in [
            "POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "FOO", "get",
        ] {
            let answer = request(address, method, target).await;
            assert_eq!(
                answer,
                format!("{head}Method Not Allowed\n"),
                "{method} {target}"
            );
        }
        assert_eq!(request(address, "HEAD", target).await, head, "{target}");
    }
    assert_eq!(check.runs(), 0);
}

#[tokio::test]
async fn head_can_be_allowed_for_load_balancers() {
    let settings = HealthSettings {
        allow_head: true,
        ..HealthSettings::default()
    };
    let (health, _) = health_with(settings, |checks| {
        checks.livez("alpha", ScriptedCheck::returning(Ok(())));
        checks.readyz("omega", ScriptedCheck::returning(failed("no leader")));
    });
    let address = serve(health).await;
    let (ok, down, post) = (
        request(address, "HEAD", "/livez").await,
        request(address, "HEAD", "/readyz").await,
        request(address, "POST", "/livez").await,
    );
    assert!(ok.starts_with("HTTP/1.1 200 OK\r\n"), "{ok}");
    assert!(
        ok.ends_with("content-length: 3\r\nconnection: close\r\n\r\n"),
        "{ok}"
    );
    assert!(down.starts_with("HTTP/1.1 503 "), "{down}");
    assert!(post.contains("\r\nallow: GET, HEAD\r\n"), "{post}");
}

#[tokio::test]
async fn empty_group_is_ok() {
    let address = serve(health(|_| ()).0).await;
    for target in ["/livez", "/readyz?verbose"] {
        assert_eq!(get(address, target).await, (200, "ok\n".into()));
    }
}

#[tokio::test]
async fn unusual_valid_requests_are_answered() {
    let address = serve(healthy()).await;
    for (name, bytes) in [
        ("HTTP/1.0", "GET /livez HTTP/1.0\r\n\r\n".to_owned()),
        (
            "Accept",
            "GET /livez HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n\
             connection: close\r\n\r\n"
                .into(),
        ),
        (
            "a body",
            "GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody"
                .into(),
        ),
        (
            "the absolute form",
            "GET http://elsewhere/livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(),
        ),
        (
            "no host",
            "GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n".into(),
        ),
    ] {
        let answer = send(address, bytes).await;
        assert!(answer.contains(" 200 OK\r\n"), "{name}: {answer}");
        assert!(answer.ends_with("\r\n\r\nok\n"), "{name}: {answer}");
    }
    let pipelined = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2);
    let last = "GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = send(address, pipelined + last).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 1, "{answers}");
}

#[tokio::test]
async fn hostile_reason_forges_no_line() {
    let (health, _) = health(|checks| {
        checks.readyz(
            "a",
            ScriptedCheck::returning(failed("x\n[+]b ok\r\n\r\nok\n")),
        );
    });
    let address = serve(health).await;
    assert_eq!(
        get(address, "/readyz").await,
        (503, "[-]a failed: x [+]b ok    ok\n\n".into())
    );
}

#[tokio::test]
async fn routes_can_be_nested() {
    let router = axum::Router::new()
        .nest("/member", routes(failing()))
        .merge(routes(healthy()))
        .fallback(not_found);
    let address = serve_router(router).await;
    assert_eq!(get(address, "/livez").await.0, 200);
    assert_eq!(get(address, "/member/livez").await.0, 503);
    assert_eq!(get(address, "/member/readyz/zeta").await.0, 200);
    assert_eq!(get(address, "/member/readyz/bogus").await.0, 404);
    assert_eq!(get(address, "/member/livez/").await.0, 404);
}

#[tokio::test]
async fn routes_answer_404_below_their_groups() {
    let address = serve_router(routes(healthy())).await;
    for target in ["/livez/", "/livez/bogus", "/readyz/alpha/"] {
        let refused = (404, "404 page not found\n".to_owned());
        assert_eq!(get(address, target).await, refused, "{target}");
    }
    let foreign = get(address, "/elsewhere").await;
    assert_eq!(foreign, (404, String::new()), "left to the outer router");
}

#[tokio::test]
async fn probe_without_http_agrees() {
    let report = failing().probe(CheckGroup::Livez).await;
    assert!(!report.is_ok());
    assert_eq!(report.checks[0].name.as_str(), "alpha");
    assert!(healthy().probe(CheckGroup::Readyz).await.is_ok());
}
