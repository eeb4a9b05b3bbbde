use super::*;

fn contest(has_work: bool, others: &[&str]) -> Contest {
    Contest { others: others.iter().map(|other| (*other).into()).collect(), has_work }
}

fn standing(others: &[&str]) -> BTreeSet<Arc<str>> {
    others.iter().map(|other| (*other).into()).collect()
}

#[test]
fn first_by_name_wins_among_controllers_with_works() {
    assert!(contest(true, &["b", "c"]).is_won("a", &standing(&["b", "c"])));
    assert!(!contest(true, &["a", "c"]).is_won("b", &standing(&["a"])));
    assert!(contest(true, &["a", "c"]).is_won("b", &standing(&["c"])), "a is gone");
}

#[test]
fn controller_without_works_wins_only_if_none_has_works() {
    assert!(!contest(false, &["b"]).is_won("a", &standing(&["b"])));
    assert!(contest(false, &["b"]).is_won("a", &standing(&[])));
    assert!(!contest(false, &["a"]).is_won("b", &standing(&[])));
}

#[test]
fn exactly_one_controller_wins_for_any_distribution_of_works() {
    let all = ["a", "b", "c"];
    for works in 0..8 {
        let has_work = |index: usize| works & (1 << index) != 0;
        let standing: BTreeSet<Arc<str>> = (0..3).filter(|n| has_work(*n)).map(|n| all[n].into()).collect();
        let wins = (0..3).filter(|index| {
            let others: Vec<&str> = all.into_iter().filter(|name| name != &all[*index]).collect();
            contest(has_work(*index), &others).is_won(all[*index], &standing)
        });
        assert_eq!(wins.count(), 1, "{standing:?}");
    }
}

#[test]
fn only_the_first_with_works_wins_without_a_lookup() {
    assert!(contest(true, &["b"]).is_won_anyway("a"));
    assert!(!contest(false, &["b"]).is_won_anyway("a"));
    assert!(!contest(true, &["a"]).is_won_anyway("b"));
}
