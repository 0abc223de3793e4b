//! The page of a real prober on simulated clusters: calm, a fence, a restart.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use kelpie_core::Time;
use kelpie_e2e::poll;
use kelpie_sim::resource::DEPLOYMENTS;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimClock};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, block_in_place};
use tokio_util::sync::CancellationToken;

use super::chromium::Page;
use super::prober::start_prober;

const SECOND: Duration = Duration::from_secs(1);

/// The pages of a prober on a port of loopback.
struct Served {
    address: SocketAddr,
    over: CancellationToken,
    server: JoinHandle<()>,
}

impl Served {
    async fn start(pages: Router, port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        let (address, over) = (listener.local_addr().unwrap(), CancellationToken::new());
        let shutdown = over.clone().cancelled_owned();
        let pages = kelpie_health::loopback_only(pages);
        let server = tokio::spawn(async move {
            let none = Duration::ZERO;
            let served = kelpie_health::serve_with_grace(none, listener, pages, shutdown);
            served.await.unwrap();
        });
        Self {
            address,
            over,
            server,
        }
    }

    async fn stop(self) {
        self.over.cancel();
        self.server.await.unwrap();
    }
}

/// Cuts off two zones of two of 12 clusters 12 s after the start, in real time.
fn landscape() -> Landscape {
    let clock = SimClock::starting_at(Time::from_unix(1_790_000_000, 0));
    let landscape = Landscape::in_process(&LandscapePlan::with_size(12, 5), &clock).unwrap();
    let incidents = [0, 1].map(|zone| {
        let fault = Fault::Partition(NodeSelection::Zone(zone));
        let incident = Incident::new(12 * SECOND, None, fault);
        incident.in_clusters(ClusterSelection::Numbers(vec![3, 7]))
    });
    landscape.play(&Scenario {
        incidents: incidents.into(),
        ..Scenario::default()
    });
    let driven = landscape.clone();
    tokio::spawn(async move { driven.run().await });
    landscape
}

/// Returns whether the write that fences a cluster has arrived at the seed.
fn is_fenced(landscape: &Landscape, cluster: &str) -> bool {
    let [kcm, ..] = LandscapePlan::CONTROLLERS;
    let target = landscape.seed().store().get(&DEPLOYMENTS, cluster, kcm);
    target.is_ok_and(|target| target["spec"]["replicas"] == 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn page_shows_a_fence_within_a_second_and_survives_a_restart() {
    let landscape = landscape();
    let (prober, pages) = start_prober(&landscape, "prober-a");
    let served = Served::start(pages, 0).await;
    let name = LandscapePlan::default().cluster_name(3);
    let fenced = format!("[title][href$='{name}'][data-severity=warning]");
    let url = format!("http://{}/", served.address);
    let mut page = block_in_place(|| Page::open(&url));

    block_in_place(|| {
        let all = "document.querySelectorAll('.tile[data-severity=fine]').length === 12";
        page.until(all, 20 * SECOND);
        assert_eq!(page.text("#summary"), "All is well: 12 clusters");
        assert_eq!(page.text("#live-text"), "live");
        assert!(page.text(".calm").starts_with("No cluster needs you."));
    });
    let fence = poll::until("the fence", 60 * SECOND, async || {
        Ok(is_fenced(&landscape, &name).then_some(()))
    });
    fence.await.unwrap();

    block_in_place(|| {
        let shown =
            format!("document.querySelector(\"{fenced} .condition\")?.innerText === 'Fenced'");
        let latency = page.until(&shown, 5 * SECOND);
        println!("a fence is shown after {latency:?}");
        assert!(latency < SECOND, "{latency:?}");
        page.until(
            "document.querySelectorAll('.needs tbody tr').length === 2",
            9 * SECOND,
        );
        page.until("document.title === '(2) Kelpie'", SECOND);
        assert!(page.text(".needs tbody").contains("4 of 5 nodes silent."));
        assert!(page.text(".needs tbody").contains("to spare"));
        let cause = "document.querySelector('.causes')?.innerText.includes('zone')";
        page.until(cause, 20 * SECOND);
        page.assert_accessible();
        page.picture("fleet", false);
        page.picture("fleet-dark", true);
        page.value(&format!("location.hash = '#/cluster/{name}'"));
        page.until(
            "document.querySelectorAll('.story li').length > 5",
            5 * SECOND,
        );
        page.until(
            "document.querySelector('.countdown').dataset.state === 'safe'",
            5 * SECOND,
        );
        assert!(page.text(".sentence").contains("before the deadline"));
        assert!(page.text(".advice").contains("kelpie explain"));
        assert!(
            page.text("[aria-labelledby=targets-title]")
                .contains("stopped by the watchdog")
        );
        let nodes = "document.querySelectorAll('[aria-labelledby=nodes-title] tbody tr').length";
        assert_eq!(page.value(nodes), 5);
        page.value("document.querySelector('details').open = true");
        page.until(
            "document.querySelector('pre').innerText.includes('inWords')",
            SECOND,
        );
        page.value("document.querySelector('details').open = false");
        page.assert_accessible();
        page.picture("cluster", false);
        page.picture("cluster-dark", true);
        page.assert_no_problems();
    });

    let port = served.address.port();
    served.stop().await;
    prober.stop().await.unwrap();
    block_in_place(|| {
        page.until(
            "document.getElementById('live-text').innerText.startsWith('stale')",
            15 * SECOND,
        );
    });
    let (prober, pages) = start_prober(&landscape, "prober-b");
    let served = Served::start(pages, port).await;
    block_in_place(|| {
        page.until(
            "document.getElementById('live-text').innerText === 'live'",
            20 * SECOND,
        );
        page.until(
            "document.getElementById('replica').innerText.includes('prober-b')",
            SECOND,
        );
        page.value("location.hash = '#/'");
        page.until(
            "document.querySelectorAll('.tile').length === 12",
            5 * SECOND,
        );
        page.assert_no_problems();
    });
    served.stop().await;
    prober.stop().await.unwrap();
}
