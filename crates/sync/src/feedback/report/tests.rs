use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn dropped(status: &str, message: &str, absent: &[&str]) -> Vec<String> {
    let condition = Condition {
        type_: "StatusFeedbackSynced".into(),
        status: status.into(),
        reason: "StatusFeedbackSyncFailed".into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Default::default()),
    };
    let conditions = [condition];
    let names = absent.iter().filter(|name| is_dropped_by_agent(&conditions, name));
    names.map(|name| (*name).to_owned()).collect()
}

#[test]
fn values_named_by_the_agent_are_dropped() {
    let message = "Sync status feedback failed with error [the type []interface {} of the value for list is not found, \
                   the length of returned json raw string for name long is larger than the maximum length 1024, \
                   failed to find value for past with error: array index out of bounds]";
    assert_eq!(dropped("False", message, &["list", "long", "past"]), ["list", "long", "past"]);
}

/// A value may have a name that is also a word in the agent's messages.
#[test]
fn value_that_the_agent_does_not_name_is_absent() {
    let message =
        "Sync status feedback failed with error the type float64 of the value for half is not found";
    let others = ["value", "type", "the", "hal", "alf", "for", "error", "float64", "is"];
    assert_eq!(dropped("False", message, &others), [""; 0]);
    assert_eq!(dropped("False", message, &["half"]), ["half"]);
    let of_name = message.replace("half", "name");
    assert_eq!(dropped("False", &of_name, &["name", "half"]), ["name"]);
}

#[test]
fn nothing_is_dropped_without_a_failure() {
    assert_eq!(dropped("True", "the type float64 of the value for half is not found", &["half"]), [""; 0]);
    assert!(!is_dropped_by_agent(&[], "half"));
}
