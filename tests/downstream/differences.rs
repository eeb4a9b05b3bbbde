//! The known differences between this product and the real controllers, each with its reason.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// A field for which this product's result differs from the controller's result.
pub(crate) struct Difference {
    /// The result of this product and the result of the controller, without the names of objects.
    pub(crate) class: String,
    /// The object and its world.
    pub(crate) detail: String,
}

/// Patterns for the classes of differences from istiod, with the reasons. `*` matches any text.
pub(crate) const ISTIO: &[(&str, &str)] = &[
    // Listeners.
    (
        "* listener Conflicted on a port with *TCP*: True ProtocolConflict, istiod: False NoConflicts",
        "istiod accepts the first of several protocols on a port; in Gateway API all of them conflict",
    ),
    (
        "HTTP* listener Conflicted on a port with HTTP, HTTPS, TCP: False NoConflicts, istiod: True ProtocolConflict",
        "in istiod the Gateway's TCP listener keeps the port; in Policy Sync it conflicts, and the ListenerSet gets the port",
    ),
    (
        "HTTP listener Conflicted on a port with HTTP, HTTPS: False NoConflicts, istiod: True ProtocolConflict",
        "istiod does not distinguish HTTP and HTTPS listeners with the same port and hostname",
    ),
    (
        "TLS listener Conflicted on a port with HTTP, TLS: False NoConflicts, istiod: True ProtocolConflict",
        "istiod does not distinguish HTTP and TLS listeners with the same port and hostname",
    ),
    (
        "* listener Conflicted on a port with *UDP: False NoConflicts, istiod: True ProtocolConflict",
        "in istiod TCP and UDP listeners on one port conflict",
    ),
    (
        "conflicted listener Accepted: True Accepted, istiod: False ProtocolConflict",
        "istiod reports a conflict also in the condition Accepted",
    ),
    (
        "conflicted listener ResolvedRefs: *, istiod: none",
        "istiod does not check the references of a conflicted listener",
    ),
    ("attachedRoutes where Conflicted differs: *, istiod: *", "follows from Conflicted"),
    (
        "UDP listener Accepted: True Accepted, istiod: False UnsupportedProtocol",
        "istiod does not support UDP",
    ),
    (
        "* listener Accepted: True Accepted, istiod: False NoValidCACertificate",
        "istiod does not accept a listener with a certificate that no ReferenceGrant allows",
    ),
    (
        "HTTP listener ResolvedRefs: True ResolvedRefs, istiod: False InvalidRouteKinds",
        "istiod rejects a duplicate kind in allowedRoutes",
    ),
    // Routes.
    ("UDPRoute *: *, istiod: none", "istiod does not support UDPRoutes"),
    ("route Accepted where Conflicted differs: *, istiod: *", "follows from Conflicted"),
    (
        "route of a ListenerSet *: *, istiod: none",
        "istiod reports nothing if the Gateway rejects the ListenerSet, or if all its listeners conflict",
    ),
    (
        "route of a ListenerSet Accepted: False NotAllowedByListeners, istiod: False NoMatchingParent",
        "the listener is for UDP, which istiod does not support",
    ),
    (
        "route Accepted: False NotAllowedByListeners, istiod: False NoMatchingListenerHostname",
        "both apply: istiod compares hosts before kinds and namespaces",
    ),
    (
        "route ResolvedRefs: False BackendNotFound (no port), istiod: True ResolvedRefs",
        "istiod does not check the ports of a Service",
    ),
    (
        "route ResolvedRefs: False InvalidKind, istiod: False BackendNotFound",
        "both apply: istiod reports the last of several faults",
    ),
    (
        "route ResolvedRefs: Unknown ImplementationSpecific, istiod: True ResolvedRefs",
        "istiod supports Services of the type ExternalName",
    ),
    (
        "route ResolvedRefs: Unknown UnknownKind, istiod: False InvalidKind",
        "the supported kinds of backends are specific to the implementation",
    ),
];

/// Patterns for the classes of differences from the Kuadrant operator, with the reasons.
pub(crate) const KUADRANT: &[(&str, &str)] = &[
    ("only the operator's: NotAllowedByListeners", "the operator does not evaluate allowedRoutes"),
    (
        "only the operator's: NoMatchingListenerHostname",
        "the operator does not compare the hosts of listeners and routes",
    ),
    (
        "only the operator's: Conflicted",
        "the operator does not detect conflicts between HTTPRoutes and GRPCRoutes",
    ),
    (
        "TokenRateLimitPolicy: other sources",
        "for this kind the operator lists all policies on the path, including those without a rule in force",
    ),
];

/// Fails if a difference is not in `known`, or if an entry of `known` has no difference.
pub(crate) fn check(found: &[Difference], known: &[(&str, &str)]) -> Result<()> {
    let mut classes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for difference in found {
        classes.entry(&difference.class).or_default().push(&difference.detail);
    }
    let is_known = |class: &str| known.iter().any(|(known, _)| matches(known, class));
    let mut faults: Vec<String> = Vec::new();
    for (class, details) in classes.iter().filter(|(class, _)| !is_known(class)) {
        faults.push(format!("{} times {class}, first: {}", details.len(), details[0]));
    }
    for (known, _) in known.iter().filter(|(known, _)| !classes.keys().any(|class| matches(known, class))) {
        faults.push(format!("this no longer occurs: {known}"));
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n\n")) }
}

/// Whether `pattern` matches `text`. `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| matches(rest, text)))
        }),
    }
}

#[test]
fn unknown_and_obsolete_differences_are_reported() {
    let found = |class: &str| [Difference { class: class.to_owned(), detail: "here".to_owned() }];
    let known = [("a * listener: 1", "a reason")];
    assert!(check(&found("a TCP listener: 1"), &known).is_ok());
    let unknown = check(&found("a TCP listener: 2"), &known).map_err(|fault| fault.to_string());
    assert_eq!(
        unknown,
        Err("1 times a TCP listener: 2, first: here\n\nthis no longer occurs: a * listener: 1".to_owned())
    );
}
