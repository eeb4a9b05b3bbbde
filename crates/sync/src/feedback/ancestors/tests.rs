use proptest::prelude::*;

use super::*;

/// A condition in an entry of `status.ancestors`.
#[derive(Clone, Debug)]
struct TestCondition {
    condition: [String; 4],
    message: String,
}

/// A builder for an entry of `status.ancestors`.
#[derive(Clone, Debug)]
pub(crate) struct Ancestor {
    name: [String; 3],
    test_conditions: Vec<TestCondition>,
}

pub(crate) fn ancestor(gateway: &str, section: &str, controller: &str) -> Ancestor {
    Ancestor { name: [gateway, section, controller].map(str::to_owned), test_conditions: Vec::new() }
}

impl Ancestor {
    /// Adds a condition with the observed generation 1.
    pub(crate) fn with_condition(self, condition: &str, status: &str, reason: &str, message: &str) -> Self {
        self.with_condition_for("1", condition, status, reason, message)
    }

    pub(crate) fn with_condition_for(
        mut self,
        observed: &str,
        condition: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Self {
        let condition = [condition, status, observed, reason].map(str::to_owned);
        self.test_conditions.push(TestCondition { condition, message: message.to_owned() });
        self
    }
}

fn text(text: &str) -> String {
    format!("{}:{text}", text.chars().count())
}

fn texts<T: AsRef<str>>(items: &[T]) -> String {
    items.iter().map(|item| text(item.as_ref())).collect()
}

/// The message that an agent reports for these ancestors.
pub(crate) fn message(revision: &str, generation: i64, ancestors: &[Ancestor]) -> String {
    let encoded = ancestors.iter().map(|ancestor| {
        let conditions: Vec<String> =
            ancestor.test_conditions.iter().map(|found| texts(&found.condition)).collect();
        texts(&ancestor.name) + &text(&texts(&conditions))
    });
    let encoded: Vec<String> = encoded.collect();
    let messages: Vec<&String> =
        ancestors.iter().flat_map(|ancestor| &ancestor.test_conditions).map(|found| &found.message).collect();
    let whole = texts(&[revision, &generation.to_string(), &texts(&encoded), &texts(&messages)]);
    format!("{HEADER}{whole}").chars().take(MESSAGE_LIMIT).collect()
}

fn read(message: &str) -> ReportedAncestors {
    match Ancestors::read(message) {
        Ancestors::Reported(reported) => *reported,
        other => panic!("{other:?}"),
    }
}

fn unreadable(message: &str) -> String {
    match Ancestors::read(message) {
        Ancestors::Unreadable(fault) => fault.into(),
        other => panic!("{other:?}"),
    }
}

/// One line for each condition: `web (example.com/a): Enforced=False/Overridden@1 by local`.
fn rendered(reported: &ReportedAncestors) -> Vec<String> {
    let of = |AncestorCondition { ancestor, condition }: &AncestorCondition| {
        let observed =
            condition.observed_generation.map(|observed| format!("@{observed}")).unwrap_or_default();
        let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or("-").to_owned();
        let (condition_type, status) = (&condition.condition_type, &condition.status);
        let (reason, message) = (text(&condition.reason), text(&condition.message));
        format!("{ancestor}: {condition_type}={status}/{reason}{observed} {message}")
    };
    reported.conditions.iter().map(of).collect()
}

#[test]
fn message_round_trips() {
    let ancestors = [
        ancestor("web", "", "example.com/a")
            .with_condition("Accepted", "True", "Accepted", "fine")
            .with_condition("Enforced", "False", "Overridden", "by local"),
        ancestor("api", "http", "").with_condition_for("", "Ready", "Odd", "", ""),
        ancestor("silent", "", "example.com/b"),
    ];
    let reported = read(&message("r-1", 3, &ancestors));
    assert_eq!((&*reported.revision, reported.generation), ("r-1", 3));
    let expected = [
        "web (example.com/a): Accepted=True/Accepted@1 fine",
        "web (example.com/a): Enforced=False/Overridden@1 by local",
        "api/http: Ready=Unknown/- -",
    ];
    assert_eq!(rendered(&reported), expected);
}

#[test]
fn invalid_reason_is_dropped() {
    for (odd, rendered_reason) in [("by local", "-"), ("x,", "-"), (&*"x".repeat(1_025), "-"), ("A_1", "A_1")]
    {
        let reported =
            read(&message("r", 1, &[ancestor("web", "", "").with_condition("Ready", "True", odd, "")]));
        assert_eq!(rendered(&reported), [format!("web: Ready=True/{rendered_reason}@1 -")]);
    }
}

#[test]
fn message_without_ancestors_is_readable() {
    assert_eq!(rendered(&read(&message("r", 1, &[]))), [""; 0]);
}

#[test]
fn message_without_the_header_is_unreadable() {
    for odd in [
        "",
        "Manifest is PolicySyncAncestors",
        "no such key: conditions",
        "policy-sync/2 1:r1:10:0:",
        "policy-sync/1",
    ] {
        assert_eq!(unreadable(odd), format!("the agent cannot report status.ancestors: {odd}"));
    }
}

#[test]
fn malformed_message_is_unreadable() {
    let whole = message("r", 1, &[ancestor("web", "", "c").with_condition("Ready", "True", "R", "m")]);
    for odd in [
        format!("{whole}1:x"),
        whole.replace("1:1", "1:x"),
        whole.replace("3:web", "4:web"),
        whole.replace("5:Ready", "5:Other"),
        whole.replace("1:m", "1:m1:n"),
        whole.chars().take(whole.len() - 1).collect(),
        format!("{HEADER}1:r"),
        format!("{HEADER}99999999999999999999:r"),
        format!("{HEADER}-1:r"),
    ] {
        assert_eq!(unreadable(&odd), "the agent's report of status.ancestors cannot be parsed", "{odd}");
    }
}

#[test]
fn long_texts_are_cut_and_marked() {
    let long = ancestor("web", &"s".repeat(254), &"c".repeat(254)).with_condition(
        "Ready",
        "False",
        &"R".repeat(254),
        &"ü".repeat(1025),
    );
    let reported = read(&message("r", 1, &[long]));
    let AncestorCondition { ancestor, condition } = &reported.conditions[0];
    let cut = |letter: &str| format!("{}…", letter.repeat(250));
    assert_eq!(**ancestor, format!("web/{} ({})", cut("s"), cut("c")));
    assert_eq!(condition.reason, None, "it has come without its end");
    assert_eq!(condition.message.as_deref(), Some(&*format!("{}…", "ü".repeat(510))));
}

#[test]
fn message_cut_in_its_last_part_keeps_all_conditions() {
    let many: Vec<Ancestor> = (0..16)
        .map(|n| {
            ancestor(&format!("web-{n}"), "", "example.com/a").with_condition(
                "Ready",
                "False",
                "Why",
                &"x".repeat(1025),
            )
        })
        .collect();
    let message = message("r", 1, &many);
    assert_eq!(message.chars().count(), MESSAGE_LIMIT);
    let reported = read(&message);
    assert_eq!(reported.conditions.len(), 16);
    let messages: Vec<&str> =
        reported.conditions.iter().map(|found| found.condition.message.as_deref().unwrap_or("-")).collect();
    assert_eq!(messages[0], format!("{}…", "x".repeat(1021)));
    assert_eq!(messages[15], "…");
}

#[test]
fn message_cut_before_its_last_part_is_unreadable() {
    let many: Vec<Ancestor> = (0..200)
        .map(|n| ancestor(&format!("web-{n}"), "", &"c".repeat(200)).with_condition("Ready", "True", "", ""))
        .collect();
    assert_eq!(unreadable(&message("r", 1, &many)), "status.ancestors is too large for the agent's report");
}

#[test]
fn condition_counts_only_if_its_rule_was_evaluated() {
    let condition = |reason: &str, text: &str| Condition {
        type_: CONDITION.into(),
        status: "True".into(),
        reason: reason.into(),
        message: text.into(),
        observed_generation: None,
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Default::default()),
    };
    let whole = message("r", 1, &[]);
    assert!(matches!(
        Ancestors::new(&[condition(EVALUATED, &whole)], &mut TextBudget::default()),
        Ancestors::Reported(_)
    ));
    let other = condition("ConditionRuleExpressionError", &whole);
    assert!(matches!(Ancestors::new(&[other], &mut TextBudget::default()), Ancestors::Unreadable(_)));
    assert_eq!(Ancestors::new(&[], &mut TextBudget::default()), Ancestors::NotReported);
}

/// Texts that other users of the spoke may write. Some of these texts imitate the format of the message.
fn odd_text() -> impl Strategy<Value = String> {
    let imitation =
        message("r", 1, &[ancestor("other", "", "c").with_condition("Enforced", "True", "Enforced", "")]);
    prop_oneof![
        ".{0,40}",
        "[0-9]{1,3}:[a-zü:]{0,12}",
        Just(imitation.clone()),
        Just(imitation.replace(HEADER, "")),
        Just("1:".to_owned()),
    ]
}

proptest! {
    #[test]
    fn texts_cannot_imitate_other_conditions(
        texts in proptest::collection::vec((odd_text(), odd_text(), odd_text(), odd_text()), 0..4),
    ) {
        let build = |(section, controller, reason, message): &(String, String, String, String)| {
            ancestor("web", section, controller).with_condition("Enforced", "False", reason, message)
        };
        let ancestors: Vec<Ancestor> = texts.iter().map(build).collect();
        let reported = read(&message("r", 1, &ancestors));
        prop_assert_eq!(reported.conditions.len(), texts.len());
        for (found, (section, controller, reason, message)) in reported.conditions.iter().zip(&texts) {
            let text = |text: &str| (!text.is_empty()).then(|| Box::from(text));
            prop_assert_eq!(&*found.condition.status, "False");
            prop_assert_eq!(&found.condition.reason, &text(reason).filter(|reason| is_reason(reason)));
            prop_assert_eq!(&found.condition.message, &text(message));
            let mut name = "web".to_owned();
            if !section.is_empty() {
                name = format!("{name}/{section}");
            }
            if !controller.is_empty() {
                name = format!("{name} ({controller})");
            }
            prop_assert_eq!(&*found.ancestor, &*name);
        }
    }

    #[test]
    fn any_message_is_read_without_a_panic(text in ".{0,200}", at in 0_usize..200) {
        let whole = message("r", 1, &[ancestor("web", "", "c").with_condition("Ready", "True", "R", &text)]);
        let mut odd: Vec<char> = whole.chars().collect();
        odd.truncate(at);
        let _ = Ancestors::read(&odd.into_iter().collect::<String>());
        let _ = Ancestors::read(&format!("{HEADER}{text}"));
    }
}
