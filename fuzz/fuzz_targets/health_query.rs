//! Sends arbitrary bytes as the query of a probe. Every valid URI is answered with 200.
#![no_main]

use axum::body::Body;
use axum::http::{Request, StatusCode};
use kelpie_health::{Health, HealthSettings, LoopHeartbeat, routes};
use prometheus_client::registry::Registry;
use tower::ServiceExt;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(query) = std::str::from_utf8(bytes) else {
        return;
    };
    // A server never receives an invalid URI.
    let Ok(request) = Request::get(format!("/livez?{query}")).body(Body::empty()) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut checks = Health::builder(HealthSettings::default(), &mut Registry::default());
        checks.livez(
            "pulse",
            LoopHeartbeat::new(std::time::Duration::from_secs(60)),
        );
        let response = routes(checks.build().unwrap()).oneshot(request).await;
        assert_eq!(response.unwrap().status(), StatusCode::OK);
    });
});
