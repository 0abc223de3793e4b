//! RBAC for a component: no more than it needs, with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write;

use kelpie_kube::seed::Need;

/// Whom the rights are for.
pub(super) struct Account {
    /// What the file is about.
    title: &'static str,
    /// The component whose check goes through the same list.
    component: &'static str,
    name: &'static str,
    pub(super) namespace: &'static str,
}

impl Account {
    pub(super) const SEED: Self = Self {
        title: "What the prober may do on the seed. The Secrets and the Lease it reads are limited by name.",
        component: "prober",
        name: "kelpie-prober",
        namespace: "garden",
    };
    pub(super) const SHOOT: Self = Self {
        title: "What the prober may do on each cluster it watches over. It writes nothing there.",
        component: "prober",
        name: "kelpie-prober",
        namespace: "kube-system",
    };
    pub(super) const WEEDER: Self = Self {
        title: "What the weeder may do on the seed. The Lease it reads is limited by name.",
        component: "weeder",
        name: "kelpie-weeder",
        namespace: "garden",
    };
}

/// Where the addon lives on a spoke.
const ADDON_NAMESPACE: &str = "open-cluster-management-addon-observability";

impl Account {
    pub(super) const ADDON_OPERATOR: Self = Self {
        title: "What the addon's operator may do on the spoke. What it only reads is limited by name.",
        component: "addon operator",
        name: "kelpie-addon-operator",
        namespace: ADDON_NAMESPACE,
    };
    pub(super) const ADDON_STATUS: Self = Self {
        title: "What the addon's status controller may do on the spoke.",
        component: "addon status",
        name: "kelpie-addon-status",
        namespace: ADDON_NAMESPACE,
    };
    pub(super) const ADDON_HUB: Self = Self {
        title: "What the status controller of the cluster spoke-1 may do on the hub: put your cluster's name.",
        component: "addon status",
        name: "kelpie-addon-status",
        namespace: "spoke-1",
    };
    pub(super) const ADDON_HOP: Self = Self {
        title: "What the addon's hop may do on the hub, for all clusters.",
        component: "addon hop",
        name: "kelpie-addon-hop",
        namespace: ADDON_NAMESPACE,
    };
    pub(super) const ADDON_COLLECTOR: Self = Self {
        title: "What the addon's collectors may do on the spoke, beside reading from Prometheus.",
        component: "addon collector",
        name: "kelpie-addon-collector",
        namespace: ADDON_NAMESPACE,
    };
}

const API: &str = "rbac.authorization.k8s.io";

/// The account, its roles and their bindings.
pub(super) fn file(account: &Account, needs: &[Need]) -> String {
    let Account {
        title,
        component,
        name,
        namespace,
    } = account;
    let mut text = format!(
        "# {title}\n\
         # Made by `cargo xtask gen` from the list that `kelpie check {component}` goes through. Edit that instead.\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
    );
    let mut by_namespace = BTreeMap::<Option<&str>, Vec<&Need>>::new();
    for need in needs {
        let namespace = need.namespace.as_deref();
        by_namespace.entry(namespace).or_default().push(need);
    }
    for (place, needs) in by_namespace {
        let kind = if place.is_some() {
            "Role"
        } else {
            "ClusterRole"
        };
        text.push_str(&head(kind, name, place));
        text.push_str("rules:\n");
        for need in needs {
            text.push_str(&rule(need));
        }
        text.push_str(&head(&format!("{kind}Binding"), name, place));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "roleRef:\n  apiGroup: {API}\n  kind: {kind}\n  name: {name}\n\
             subjects:\n- kind: ServiceAccount\n  name: {name}\n  namespace: {namespace}\n"
        );
    }
    text
}

fn head(kind: &str, name: &str, namespace: Option<&str>) -> String {
    let namespace = namespace.map(|namespace| format!("  namespace: {namespace}\n"));
    let namespace = namespace.unwrap_or_default();
    format!("---\napiVersion: {API}/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}")
}

fn rule(need: &Need) -> String {
    let mut text = format!("# {}.\n", sentence(need.reason));
    if let Some(lost) = need.lost {
        let _ = writeln!(text, "# Optional: without it there are no {lost}.");
    }
    let resource = match need.subresource {
        Some(subresource) => format!("{}/{subresource}", need.resource),
        None => need.resource.clone(),
    };
    let _ = write!(
        text,
        "- apiGroups: [{:?}]\n  resources: [{resource:?}]\n",
        need.group
    );
    if let Some(name) = &need.name {
        let _ = writeln!(text, "  resourceNames: [{name:?}]");
    }
    let verbs: Vec<String> = need.verbs.iter().map(|verb| format!("{verb:?}")).collect();
    let _ = writeln!(text, "  verbs: [{}]", verbs.join(", "));
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
