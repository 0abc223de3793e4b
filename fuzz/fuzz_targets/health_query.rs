//! Any bytes as the query of a probe: it is answered by 200, and quotes nothing it was not given.
#![no_main]

use axum::body::Body;
use axum::http::{Request, StatusCode};
use kelpie_health::{Health, Pulse, Settings, routes};
use prometheus_client::registry::Registry;
use tower::ServiceExt;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(query) = std::str::from_utf8(bytes) else {
        return;
    };
    // What is no URI does not get as far as that.
    let Ok(request) = Request::get(format!("/livez?{query}")).body(Body::empty()) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut checks = Health::builder(Settings::default(), &mut Registry::default());
        checks.livez("pulse", Pulse::new(std::time::Duration::from_secs(60)));
        let answer = routes(checks.build().unwrap()).oneshot(request).await;
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
    });
});
