//! The guard's policy on a real API server: what it denies, and what it lets through.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::guard::{GUARD_NAME, GuardCall, GuardContent, GuardReply, Permits};
use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ControlPlane, poll};
use kelpie_kube::SystemClock;
use kelpie_kube::guard::GuardClient;
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::tenant::{ConnectionReuse, Tenant};
use kube::Client;
use serde_json::json;
use tokio::time::Instant;

use super::TIMEOUT;

const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const NODE_CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";

struct Fixture {
    control_plane: ControlPlane,
    admin: Client,
    tenant: Tenant,
}

impl Fixture {
    async fn start() -> Self {
        let control_plane = ControlPlane::start().await.unwrap();
        let admin = control_plane.client().await.unwrap();
        let kubeconfig = control_plane.api.kubeconfig(&control_plane.api.admin());
        let access = TenantConfig::from_kubeconfig(kubeconfig.as_bytes()).unwrap();
        Self {
            control_plane,
            admin,
            tenant: Tenant::new(access, ConnectionReuse::Keep),
        }
    }

    /// Returns a client for a user with all permissions.
    async fn user(&self, name: &str) -> Client {
        let api = &self.control_plane.api;
        let credentials = api.user(name, &["system:masters"]).unwrap();
        api.client(&credentials).await.unwrap()
    }

    async fn perform(&self, call: &GuardCall) -> GuardReply {
        let client = GuardClient::new(&self.tenant, "garden/kelpie");
        let deadline = Instant::now() + Duration::from_secs(30);
        let response = client.perform(call, deadline).await;
        assert!(response.date.is_some(), "{response:?}");
        response.reply
    }

    /// Writes the policy, and waits until it is enforced.
    async fn enforce(&self, content: &GuardContent, replaces: Option<ResourceVersion>) {
        let write = GuardCall::WritePolicy {
            content: content.clone(),
            replaces,
        };
        let reply = self.perform(&write).await;
        assert!(matches!(reply, GuardReply::Written(_)), "{reply:?}");
        self.until_enforced(content).await;
    }

    async fn until_enforced(&self, content: &GuardContent) {
        let expected = GuardReply::Enforced(Some(content.mark()));
        poll::until("the policy is enforced", TIMEOUT, async || {
            let reply = self.perform(&GuardCall::AskEnforced).await;
            Ok((reply == expected).then_some(()))
        })
        .await
        .unwrap();
    }

    async fn version(&self) -> Option<ResourceVersion> {
        match self.perform(&GuardCall::ReadPolicy).await {
            GuardReply::Policy(policy) => policy.map(|policy| policy.version),
            reply => panic!("{reply:?}"),
        }
    }

    async fn create_node(&self, name: &str) {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        rest::create(&self.admin, "/api/v1/nodes", &node)
            .await
            .unwrap();
        set_ready(&self.admin, name, "True").await.unwrap();
    }
}

/// Sets the condition Ready of a node, as of now.
async fn set_ready(client: &Client, node: &str, status: &str) -> anyhow::Result<()> {
    let now = SystemClock::default().now();
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": now,
    });
    let patch = json!({ "status": { "conditions": [condition] } });
    let path = format!("/api/v1/nodes/{node}/status");
    rest::merge_patch(client, &path, &patch).await?;
    Ok(())
}

fn content(seconds: i64, permits: &[&str]) -> GuardContent {
    let now = SystemClock::default().now().as_micros() / 1_000_000;
    GuardContent {
        until: Time::from_unix(now + seconds, 0),
        permits: permits.iter().copied().collect(),
    }
}

#[tokio::test]
async fn node_turns_unknown_only_with_permit() {
    let fixture = Fixture::start().await;
    assert_eq!(
        fixture.perform(&GuardCall::ReadPolicy).await,
        GuardReply::Policy(None)
    );
    assert_eq!(
        fixture.perform(&GuardCall::ReadBinding).await,
        GuardReply::Binding(None)
    );
    assert_eq!(
        fixture.perform(&GuardCall::AskEnforced).await,
        GuardReply::Enforced(None)
    );
    for node in ["one", "two"] {
        fixture.create_node(node).await;
    }
    let bind = GuardCall::WriteBinding { replaces: None };
    let bound = fixture.perform(&bind).await;
    assert!(matches!(bound, GuardReply::Written(_)), "{bound:?}");
    assert_eq!(fixture.perform(&bind).await, GuardReply::Conflict);
    let first = content(120, &[]);
    fixture.enforce(&first, None).await;

    let stored = fixture.perform(&GuardCall::ReadPolicy).await;
    let GuardReply::Policy(Some(stored)) = stored else {
        panic!("{stored:?}");
    };
    assert_eq!(
        (&*stored.owner, stored.content),
        ("garden/kelpie", Some(first))
    );
    let GuardReply::Binding(Some(binding)) = fixture.perform(&GuardCall::ReadBinding).await else {
        panic!("no binding");
    };
    assert!(binding.is_intact);

    for user in [KUBE_CONTROLLER_MANAGER, NODE_CONTROLLER] {
        let client = fixture.user(user).await;
        let denied = set_ready(&client, "one", "Unknown").await.unwrap_err();
        let denied = format!("{denied:#}");
        assert!(denied.contains(GUARD_NAME), "{user}: {denied}");
        set_ready(&client, "one", "False").await.unwrap();
        set_ready(&client, "one", "True").await.unwrap();
    }
    // Others are not concerned.
    set_ready(&fixture.admin, "one", "Unknown").await.unwrap();
    let controller = fixture.user(NODE_CONTROLLER).await;
    set_ready(&controller, "one", "Unknown").await.unwrap();
    set_ready(&controller, "one", "True").await.unwrap();

    fixture
        .enforce(&content(120, &["one"]), fixture.version().await)
        .await;
    set_ready(&controller, "one", "Unknown").await.unwrap();
    assert!(set_ready(&controller, "two", "Unknown").await.is_err());

    let all = GuardContent {
        permits: Permits::ALL,
        ..content(120, &[])
    };
    fixture.enforce(&all, fixture.version().await).await;
    set_ready(&controller, "two", "Unknown").await.unwrap();
    set_ready(&controller, "two", "True").await.unwrap();

    // It runs out by itself.
    fixture
        .enforce(&content(-1, &[]), fixture.version().await)
        .await;
    set_ready(&controller, "two", "Unknown").await.unwrap();

    assert_eq!(
        fixture.perform(&GuardCall::Remove).await,
        GuardReply::Removed
    );
    assert_eq!(
        fixture.perform(&GuardCall::Remove).await,
        GuardReply::Removed
    );
    assert_eq!(fixture.version().await, None);
}

#[tokio::test]
async fn a_thousand_permits_are_enforced() {
    let fixture = Fixture::start().await;
    let name = |number: usize| format!("{}-{number:04}", "n".repeat(58));
    let names: Vec<String> = (0..1_000).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fixture
        .perform(&GuardCall::WriteBinding { replaces: None })
        .await;
    fixture.enforce(&content(120, &names), None).await;
    fixture.create_node(names[999]).await;
    fixture.create_node("other").await;
    let controller = fixture.user(NODE_CONTROLLER).await;
    set_ready(&controller, names[999], "Unknown").await.unwrap();
    assert!(set_ready(&controller, "other", "Unknown").await.is_err());
}

#[tokio::test]
async fn outdated_writes_conflict() {
    let fixture = Fixture::start().await;
    let write = |replaces| GuardCall::WritePolicy {
        content: content(120, &[]),
        replaces,
    };
    let GuardReply::Written(version) = fixture.perform(&write(None)).await else {
        panic!("not written");
    };
    assert_eq!(fixture.perform(&write(None)).await, GuardReply::Conflict);
    let newer = GuardCall::WritePolicy {
        content: content(240, &[]),
        replaces: Some(version.clone()),
    };
    assert!(matches!(
        fixture.perform(&newer).await,
        GuardReply::Written(_)
    ));
    let outdated = fixture.perform(&write(Some(version))).await;
    assert_eq!(outdated, GuardReply::Conflict);
}
