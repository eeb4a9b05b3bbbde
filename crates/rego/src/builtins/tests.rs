use super::*;

#[test]
fn no_name_is_in_two_lists() {
    for name in LACKING {
        assert!(!BUILTINS.contains_key(name) && extensions::arity(name).is_none(), "{name}");
    }
    for (name, _) in FORBIDDEN {
        assert!(!LACKING.contains(&name) && matches!(builtin(name), Some(Builtin::Forbidden(_))), "{name}");
    }
}

#[test]
fn the_engines_own_parts_are_no_builtins() {
    assert_eq!(builtin("__builtin_sets.union"), None);
    assert_eq!(builtin("policysync_walk"), None);
    assert_eq!(builtin("count"), Some(Builtin::Known { arity: 1, output: true }));
}
