//! The kinds of an API server: the built-in ones, and those that CRDs add.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::resource::{EVENTS, GroupResource, NAMESPACES};

/// A kind of object and the API server's behaviour for its resource.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "traits of their own, as the table has them"
)]
pub(crate) struct ResourceKind {
    /// The resource under which the kind is addressed.
    pub(crate) resource: GroupResource,
    /// The resource under which its objects are stored; two groups may serve the same objects.
    pub(crate) storage: GroupResource,
    pub(crate) version: String,
    /// The kind's name, such as `Pod`.
    pub(crate) name: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) is_namespaced: bool,
    /// The treatment of `status` in writes to the object itself.
    pub(crate) status: StatusMode,
    pub(crate) scale: Option<ScalePaths>,
    /// `metadata.generation` counts changes of the spec.
    pub(crate) tracks_generation: bool,
    /// An update may omit `resourceVersion`.
    pub(crate) allows_unconditional_update: bool,
    /// An update of a missing object creates it.
    pub(crate) allows_create_on_update: bool,
    /// A deletion returns the deleted object instead of a `Status`.
    pub(crate) returns_deleted_object: bool,
    /// The kind comes from a CRD.
    pub(crate) is_custom: bool,
    /// The schema of a CRD. `None` keeps all fields.
    pub(crate) schema: Option<Value>,
    pub(crate) columns: Vec<PrinterColumn>,
}

/// The treatment of `status` in writes to the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusMode {
    /// An ordinary field of the object.
    Field,
    /// A subresource: writes to the object leave it unchanged.
    Subresource,
    /// A subresource that may be set when the object is created.
    SubresourceAfterCreate,
}

/// The fields of an object that its `scale` subresource shows, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// The desired replica count.
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// The field with a serialized label selector. `None` for built-in kinds, whose `spec.selector`
    /// is used.
    pub(crate) label_selector: Option<String>,
}

/// A column of kubectl's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) value_type: String,
    pub(crate) json_path: String,
    pub(crate) priority: i64,
}

/// The kinds of one API server by resource.
pub(crate) type ResourceKinds = BTreeMap<GroupResource, Arc<ResourceKind>>;

/// The built-in kinds, which all stores share.
pub(crate) static KINDS: LazyLock<Arc<ResourceKinds>> = LazyLock::new(|| {
    let kinds = BUILT_IN_KINDS
        .into_iter()
        .filter_map(ResourceKind::from_row);
    let kinds = kinds.map(|kind| (kind.resource.clone(), Arc::new(kind)));
    Arc::new(kinds.collect())
});

/// The verbs of the API.
pub(crate) const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The built-in kinds: API version, kind, plural, traits as letters, and short names.
///
/// The traits: `N` namespaced; `S` status subresource; `s` status subresource that may be set on
/// create; `R` scale subresource; `G` tracks the generation; `U` allows unconditional updates; `C`
/// allows create on update; `D` returns the deleted object; `A` in the category `all`.
const BUILT_IN_KINDS: [&str; 22] = [
    "v1 Namespace namespaces SU ns",
    "v1 Node nodes sU no",
    "v1 Pod pods NSGUDA po",
    "v1 Service services NSUDAC svc",
    "v1 ServiceAccount serviceaccounts NUD sa",
    "v1 Endpoints endpoints NUC ep",
    "v1 Secret secrets NU",
    "v1 ConfigMap configmaps NU cm",
    "v1 Event events NUC ev",
    "events.k8s.io/v1 Event events NUC ev",
    "discovery.k8s.io/v1 EndpointSlice endpointslices NGUC",
    "coordination.k8s.io/v1 Lease leases NC",
    "apps/v1 Deployment deployments NSRGUA deploy",
    "apps/v1 ReplicaSet replicasets NSRGUA rs",
    "apps/v1 StatefulSet statefulsets NSRGUA sts",
    "apps/v1 DaemonSet daemonsets NSGUA ds",
    "rbac.authorization.k8s.io/v1 ClusterRole clusterroles U",
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings U",
    "policy/v1 PodDisruptionBudget poddisruptionbudgets NSG pdb",
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies SG",
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding \
     validatingadmissionpolicybindings G",
    "apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions SG crd crds",
];

impl ResourceKind {
    /// Builds a built-in kind from its row in the table.
    fn from_row(row: &'static str) -> Option<Self> {
        let mut columns = row.split(' ');
        let api_version = columns.next()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (kind, plural, traits) = (columns.next()?, columns.next()?, columns.next()?);
        let has = |letter| traits.contains(letter);
        let resource = GroupResource::from_static(group, plural);
        let is_event = plural == EVENTS.plural();
        Some(Self {
            storage: if is_event { EVENTS } else { resource.clone() },
            resource,
            version: version.into(),
            name: kind.into(),
            singular: kind.to_lowercase(),
            short_names: columns.map(str::to_owned).collect(),
            categories: has('A').then(|| "all".to_owned()).into_iter().collect(),
            is_namespaced: has('N'),
            status: match (has('S'), has('s')) {
                (true, _) => StatusMode::Subresource,
                (_, true) => StatusMode::SubresourceAfterCreate,
                _ => StatusMode::Field,
            },
            scale: has('R').then(|| ScalePaths {
                spec_replicas: "/spec/replicas".into(),
                status_replicas: "/status/replicas".into(),
                label_selector: None,
            }),
            tracks_generation: has('G'),
            allows_unconditional_update: has('U'),
            allows_create_on_update: has('C'),
            returns_deleted_object: has('D'),
            is_custom: false,
            schema: None,
            columns: Vec::new(),
        })
    }

    /// Returns `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        match self.resource.group() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns the group with the kind's name in place of the plural, as some messages have it:
    /// `Lease.coordination.k8s.io`.
    pub(crate) fn group_kind(&self) -> GroupResource {
        GroupResource::new(self.resource.group(), &self.name)
    }

    /// Returns the verbs that the resource supports.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let mut verbs = VERBS.to_vec();
        // Namespaces cannot be deleted as a collection.
        verbs.retain(|verb| *verb != "deletecollection" || self.storage != NAMESPACES);
        verbs
    }

    /// Returns whether the kind has the subresource.
    pub(crate) fn has_subresource(&self, subresource: &str) -> bool {
        match subresource {
            "status" => self.status != StatusMode::Field,
            "scale" => self.scale.is_some(),
            _ => false,
        }
    }

    /// Builds the kind of a CRD. Returns `None` if the definition is incomplete.
    pub(crate) fn from_crd(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let texts = |value: &Value| items(value).filter_map(text).collect();
        let versions = spec["versions"].as_array()?;
        let version = versions.iter().find(|version| version["storage"] == true)?;
        let subresources = &version["subresources"];
        let resource = GroupResource::new(spec["group"].as_str()?, names["plural"].as_str()?);
        let name = text(&names["kind"])?;
        let has_status = subresources.get("status").is_some();
        Some(Self {
            storage: resource.clone(),
            resource,
            version: text(&version["name"])?,
            singular: text(&names["singular"]).unwrap_or_else(|| name.to_lowercase()),
            name,
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            is_namespaced: spec["scope"] == "Namespaced",
            status: if has_status {
                StatusMode::Subresource
            } else {
                StatusMode::Field
            },
            scale: ScalePaths::from_crd(&subresources["scale"]),
            tracks_generation: true,
            allows_unconditional_update: false,
            allows_create_on_update: false,
            returns_deleted_object: false,
            is_custom: true,
            schema: version["schema"].get("openAPIV3Schema").cloned(),
            columns: PrinterColumn::from_crd(&version["additionalPrinterColumns"]),
        })
    }
}

impl ScalePaths {
    fn from_crd(scale: &Value) -> Option<Self> {
        let pointer = |field: &str| Some(scale[field].as_str()?.replace('.', "/"));
        Some(Self {
            spec_replicas: pointer("specReplicasPath")?,
            status_replicas: pointer("statusReplicasPath")?,
            label_selector: pointer("labelSelectorPath"),
        })
    }
}

impl PrinterColumn {
    fn from_crd(columns: &Value) -> Vec<Self> {
        let column = |column: &Value| {
            Some(Self {
                name: column["name"].as_str()?.to_owned(),
                value_type: column["type"].as_str()?.to_owned(),
                json_path: column["jsonPath"].as_str()?.to_owned(),
                priority: column["priority"].as_i64().unwrap_or(0),
            })
        };
        items(columns).filter_map(column).collect()
    }
}

/// Returns the items of a list; none if it is no list.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
