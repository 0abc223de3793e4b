//! The list of behaviours.

mod access;
mod custom_resources;
mod deletion;
mod discovery;
mod events;
mod leases;
mod lists;
mod objects;
mod patches;
mod scale;
mod watches;

use super::Behaviour;

/// Pairs each function with its name.
macro_rules! behaviours {
    ($($name:path),* $(,)?) => {
        vec![$((stringify!($name), |fixture| Box::pin($name(fixture)))),*]
    };
}

/// Returns all behaviours that Kelpie and the real clients rely on.
pub(super) fn all() -> Vec<Behaviour> {
    behaviours![
        access::unknown_token_is_unauthorized,
        access::missing_permission_is_forbidden,
        access::self_subject_access_review,
        access::self_subject_review,
        access::health_and_version,
        custom_resources::objects_are_served,
        custom_resources::scale_uses_replicas_path,
        custom_resources::compacted_version_expires,
        custom_resources::status_subresource,
        deletion::delete_response,
        deletion::finalizers_delay_deletion,
        deletion::preconditions,
        deletion::collection_by_selector,
        deletion::pod_grace_period,
        deletion::terminating_namespace,
        discovery::groups_and_versions,
        discovery::resources,
        discovery::aggregated,
        discovery::unknown_groups,
        events::create_and_count,
        events::shared_by_both_groups,
        leases::acquire_renew_conflict,
        leases::update_creates_missing,
        leases::protobuf_matches_json,
        leases::node_protobuf_matches_json,
        lists::order_and_version,
        lists::pages_share_a_version,
        lists::invalid_continue_token,
        lists::label_selectors,
        lists::field_selectors,
        lists::resource_version_match,
        lists::exact_past_version,
        lists::table_of_config_maps,
        lists::table_of_nodes,
        lists::metadata_only,
        objects::create_read_create_again,
        objects::generate_name,
        objects::not_found,
        objects::invalid_objects,
        objects::update_conflicts,
        objects::update_must_match_path,
        objects::no_op_keeps_version,
        objects::status_subresource,
        objects::generation_counts_spec_changes,
        objects::secret_string_data,
        objects::dry_run,
        objects::content_types,
        patches::merge_patch,
        patches::merge_patch_conflicts,
        patches::json_patch,
        patches::strategic_merge_of_conditions,
        patches::strategic_merge_of_containers,
        patches::server_side_apply,
        patches::invalid_patches,
        patches::wrong_field_types,
        scale::scale_deployment,
        scale::scale_conflicts,
        scale::replace_scale,
        watches::events_in_order,
        watches::selector_changes,
        watches::no_version,
        watches::timeout,
        watches::negative_timeout,
        watches::send_initial_events,
        watches::single_object,
    ]
}
