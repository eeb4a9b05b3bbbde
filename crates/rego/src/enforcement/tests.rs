use super::*;
use crate::module::Text;

fn fault_text(enforcement: EnforcementAction, text: &str) -> Option<String> {
    let text = Text { id: ModuleId::new("m"), text: text.into() };
    fault(&LoadedModule::of(&Module::parse(&text).unwrap()).unwrap().0, enforcement)
        .map(|fault| fault.to_string())
}

const OBJECTS: &str = "package admission\ndeny[{\"id\": \"a\"}] { true }\ndeny[{\"id\": \"b\"}] { true }";
const MIXED: &str = "package admission\ndeny[{\"id\": \"a\"}] { true }\ndeny[\"b\"] { true }";
const PLACEMENT: &str = "package io.k8s.federation.admission\nerrors[\"no\"] { true }";

#[test]
fn only_denials_that_are_objects_can_be_warnings() {
    let refused = |enforcement: &str| {
        Some(format!("m: enforcement {enforcement} requires that each element of the rule deny is an object"))
    };
    for text in [OBJECTS, MIXED, PLACEMENT] {
        assert_eq!(fault_text(EnforcementAction::Deny, text), None);
    }
    assert_eq!(fault_text(EnforcementAction::Warn, OBJECTS), None);
    assert_eq!(fault_text(EnforcementAction::Warn, MIXED), refused("warn"));
    assert_eq!(fault_text(EnforcementAction::Dryrun, PLACEMENT), refused("dryrun"));
    let access = OBJECTS.replace("package admission", "package authorization");
    let nothing = "m: enforcement warn is not supported for package authorization: the API server shows no warnings for authorization";
    assert_eq!(fault_text(EnforcementAction::Warn, &access).as_deref(), Some(nothing));
    assert_eq!(fault_text(EnforcementAction::Dryrun, &access), None);
}
