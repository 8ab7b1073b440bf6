//! Conditions of our own kinds, both ways.

use causeway_planner::{
    conditions::{Condition, Truth},
    snapshot::Moment,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition as ApiCondition, Time},
    jiff::Timestamp,
};

/// A condition as it stands in a status. Times have whole seconds, as the API serves them.
pub fn condition_to_api(condition: &Condition) -> ApiCondition {
    let since = Timestamp::from_second(condition.since.0.div_euclid(1000)).unwrap_or_default();
    ApiCondition {
        type_: condition.kind.to_string(),
        status: condition.status.to_string(),
        reason: condition.reason.to_string(),
        message: condition.message.clone(),
        observed_generation: Some(condition.observed_generation),
        last_transition_time: Time(since),
    }
}

/// The conditions that are ours; others are left to who wrote them.
pub(super) fn conditions(all: &[ApiCondition]) -> Vec<Condition> {
    all.iter().filter_map(condition).collect()
}

fn condition(condition: &ApiCondition) -> Option<Condition> {
    Some(Condition {
        kind: condition.type_.parse().ok()?,
        status: match condition.status.as_str() {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        },
        reason: condition.reason.parse().ok()?,
        message: condition.message.clone(),
        observed_generation: condition.observed_generation.unwrap_or(0),
        since: Moment(condition.last_transition_time.0.as_millisecond()),
    })
}
