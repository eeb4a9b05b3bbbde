use super::*;

fn contest(stands: bool, others: &[&str]) -> Contest {
    Contest { others: others.iter().map(|other| (*other).into()).collect(), stands }
}

fn standing(others: &[&str]) -> BTreeSet<Arc<str>> {
    others.iter().map(|other| (*other).into()).collect()
}

#[test]
fn of_those_that_have_works_the_first_by_name_writes() {
    assert!(contest(true, &["b", "c"]).is_won("a", &standing(&["b", "c"])));
    assert!(!contest(true, &["a", "c"]).is_won("b", &standing(&["a"])));
    assert!(contest(true, &["a", "c"]).is_won("b", &standing(&["c"])), "a is gone");
}

#[test]
fn one_without_works_writes_only_where_none_has_some() {
    assert!(!contest(false, &["b"]).is_won("a", &standing(&["b"])));
    assert!(contest(false, &["b"]).is_won("a", &standing(&[])));
    assert!(!contest(false, &["a"]).is_won("b", &standing(&[])));
}

#[test]
fn exactly_one_of_all_writes_whatever_works_there_are() {
    let all = ["a", "b", "c"];
    for works in 0..8 {
        let stands = |index: usize| works & (1 << index) != 0;
        let standing: BTreeSet<Arc<str>> = (0..3).filter(|n| stands(*n)).map(|n| all[n].into()).collect();
        let wins = (0..3).filter(|index| {
            let others: Vec<&str> = all.into_iter().filter(|name| name != &all[*index]).collect();
            contest(stands(*index), &others).is_won(all[*index], &standing)
        });
        assert_eq!(wins.count(), 1, "{standing:?}");
    }
}

#[test]
fn only_the_first_with_works_need_not_look_at_those_of_others() {
    assert!(contest(true, &["b"]).is_won_anyway("a"));
    assert!(!contest(false, &["b"]).is_won_anyway("a"));
    assert!(!contest(true, &["a"]).is_won_anyway("b"));
}
