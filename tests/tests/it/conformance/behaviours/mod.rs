//! The list.

mod access;
mod custom;
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

/// Names and functions.
macro_rules! behaviours {
    ($($name:path),* $(,)?) => {
        vec![$((stringify!($name), |stage| Box::pin($name(stage)))),*]
    };
}

/// Every behaviour that our clients rely on.
pub(super) fn all() -> Vec<Behaviour> {
    behaviours![
        access::what_is_nobodys_is_unauthorized,
        access::what_one_may_not_do_is_forbidden,
        access::one_can_ask_what_one_may_do,
        access::one_can_ask_who_one_is,
        access::health_and_version_are_told,
        custom::a_definition_is_served_and_its_objects_are_kept,
        custom::custom_objects_are_scaled_where_the_definition_says,
        custom::a_watch_from_before_the_history_is_told_so,
        custom::custom_status_is_apart,
        deletion::an_object_goes_and_its_last_state_is_told,
        deletion::finalizers_hold_it_up,
        deletion::preconditions_are_checked,
        deletion::a_collection_is_deleted_by_selector,
        deletion::a_pod_on_a_node_has_grace,
        deletion::a_namespace_lingers,
        discovery::groups_and_versions,
        discovery::resources_of_a_version,
        discovery::all_at_once,
        discovery::what_is_not_there,
        events::an_event_is_posted_and_counted,
        events::events_are_one_in_two_groups,
        leases::a_lease_is_taken_renewed_and_lost,
        leases::an_update_makes_what_is_not_there,
        leases::protobuf_says_the_same_as_json,
        leases::nodes_as_protobuf,
        lists::a_list_has_a_version_and_an_order,
        lists::pages_are_of_one_version,
        lists::a_token_that_is_none,
        lists::labels_select,
        lists::fields_select,
        lists::versions_and_matches,
        lists::a_list_of_the_past,
        lists::a_table_for_people,
        lists::a_table_of_nodes,
        lists::metadata_alone,
        objects::create_read_and_twice,
        objects::names_are_generated,
        objects::what_is_not_there,
        objects::what_is_no_object,
        objects::updates_rest_on_versions,
        objects::updates_must_fit_their_address,
        objects::what_changes_nothing_makes_no_version,
        objects::status_is_apart,
        objects::generations_count_what_is_wanted,
        objects::secrets_take_plain_text,
        objects::trials_leave_nothing,
        objects::content_types,
        patches::merge_patches,
        patches::merge_patches_rest_on_versions,
        patches::json_patches,
        patches::strategic_patches_know_conditions,
        patches::strategic_patches_know_containers,
        patches::apply_creates_and_changes,
        patches::wrong_patches,
        patches::built_in_kinds_keep_their_types,
        scale::a_deployment_is_scaled,
        scale::scaling_rests_on_versions,
        scale::a_scale_is_replaced,
        watches::changes_come_in_order,
        watches::selected_objects_come_and_go,
        watches::a_watch_without_a_version,
        watches::a_watch_ends_in_time,
        watches::a_watch_that_should_have_ended_already,
        watches::a_watch_that_begins_with_a_list,
        watches::a_watch_of_one_object,
    ]
}
