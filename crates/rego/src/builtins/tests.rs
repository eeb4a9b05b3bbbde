use super::*;

#[test]
fn builtins_are_in_only_one_list() {
    for name in LACKING {
        assert!(!BUILTINS.contains_key(name) && extensions::arity(name).is_none(), "{name}");
    }
    for (name, _) in FORBIDDEN {
        assert!(!LACKING.contains(&name) && matches!(builtin(name), Some(Builtin::Forbidden(_))), "{name}");
    }
}

#[test]
fn internal_functions_of_the_engine_are_not_builtins() {
    assert_eq!(builtin("__builtin_sets.union"), None);
    assert_eq!(builtin("policysync_walk"), None);
    assert_eq!(builtin("count"), Some(Builtin::Known { arity: 1, output: true }));
}
