//! Exempt objects, which are not reviewed: objects in system namespaces, Rego policies, and the objects of this
//! controller. So everything on which the webhooks depend can always be repaired.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use policy_sync_api::names::GroupResource;
use policy_sync_api::{rego_policy, release};

/// The label of a Namespace whose objects are not reviewed. OPA's webhooks use the same label.
const LABEL: (&str, &str) = ("openpolicyagent.org/webhook", "ignore");

/// The suffixes of this controller's ClusterRoles and ClusterRoleBindings in the manifests.
const ROLES: [&str; 7] = ["", "-policies", "-policy-kinds", "-rego", "-tls-secrets", "-topology", "-viewer"];
/// The API group of ClusterRoles and ClusterRoleBindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The user name of the API server itself, which writes, for example, an IPAddress for each Service.
const API_SERVER: &str = "system:apiserver";
/// Kinds whose objects admission policies never review, by group and resource. The hub depends on some of these kinds.
/// Others are written all the time, or are themselves reviews. RegoPolicies are exempt so that a faulty RegoPolicy can
/// always be repaired.
const KINDS: [(&str, &str); 11] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "nodes"),
    ("authentication.k8s.io", "*"),
    ("authorization.k8s.io", "*"),
    ("certificates.k8s.io", "*"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("networking.k8s.io", "ipaddresses"),
    (rego_policy::GROUP, "*"),
];
/// CustomResourceDefinitions.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The exempt objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// Patterns of exempt namespaces; `*` matches any text.
    patterns: BTreeSet<String>,
    /// The name under which this controller is installed.
    own: Option<String>,
}

impl Exemptions {
    /// Exempts the namespaces that match any of `patterns`, where `*` matches any text.
    #[must_use]
    pub fn new(patterns: impl IntoIterator<Item = String>) -> Self {
        Self { patterns: patterns.into_iter().collect(), own: None }
    }

    /// Also exempts the cluster-scoped objects in the manifests of the controller that is installed as `name`. Without
    /// this exemption, a denial could prevent its reinstallation.
    #[must_use]
    pub fn with_own(self, name: &str) -> Self {
        Self { own: Some(name.to_owned()), ..self }
    }

    /// Whether a cluster-scoped object belongs to this controller.
    #[must_use]
    pub fn is_own(&self, kind: &GroupResource, name: &str) -> bool {
        let Some(own) = &self.own else { return false };
        match (&*kind.group, &*kind.resource) {
            (RBAC, "clusterroles" | "clusterrolebindings") => {
                name.strip_prefix(own.as_str()).is_some_and(|end| ROLES.contains(&end))
            }
            DEFINITIONS => name == rego_policy::crd_name(),
            _ => false,
        }
    }

    /// Whether admission policies never review objects of `kind`.
    #[must_use]
    pub fn is_exempt_kind(kind: &GroupResource) -> bool {
        KINDS.iter().any(|(group, resource)| {
            *group == &*kind.group && (*resource == "*" || *resource == &*kind.resource)
        })
    }

    /// The match condition of a webhook for all kinds, in CEL: it leaves out [exempt kinds](Self::is_exempt_kind).
    #[must_use]
    pub fn kinds_condition() -> Value {
        let conditions = KINDS.map(|(group, resource)| {
            let is_of_group = format!("request.resource.group == {}", quoted(group));
            match resource {
                "*" => format!("!({is_of_group})"),
                _ => format!("!({is_of_group} && request.resource.resource == {})", quoted(resource)),
            }
        });
        json!({"name": "gated", "expression": conditions.join(" && ")})
    }

    /// The match condition, in CEL, that excludes requests for this controller's own objects, if its name is known.
    #[must_use]
    pub fn own_condition(&self) -> Option<Value> {
        let own = self.own.as_ref()?;
        let roles = ROLES.map(|end| quoted(&format!("{own}{end}"))).join(", ");
        let (group, resource) = DEFINITIONS;
        let expression = format!(
            "!(request.resource.group == {} && request.resource.resource in [\"clusterroles\", \"clusterrolebindings\"] && \
             request.name in [{roles}]) && !(request.resource.group == {} && request.resource.resource == {} && request.name == {})",
            quoted(RBAC),
            quoted(group),
            quoted(resource),
            quoted(&rego_policy::crd_name())
        );
        Some(json!({"name": "not-own", "expression": expression}))
    }

    /// The patterns as a regular expression, valid in Go and Rust: `^(kube-.*|policies)$`.
    fn regex(&self) -> String {
        let pattern = |pattern: &String| {
            pattern.split('*').map(regex::escape).collect::<Vec<_>>().join(".*").replace("\\-", "-")
        };
        format!("^({})$", self.patterns.iter().map(pattern).collect::<Vec<_>>().join("|"))
    }

    /// Whether the objects of `namespace` are exempt because of its name.
    #[must_use]
    pub fn names(&self, namespace: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, namespace))
    }

    /// Whether the objects of this Namespace are exempt because of its labels.
    #[must_use]
    pub fn is_ignored(namespace: &regorus::Value) -> bool {
        namespace["metadata"]["labels"][LABEL.0] == LABEL.1.into()
    }

    /// The `namespaceSelector` of a webhook: excludes Namespaces that are exempt because of their labels.
    #[must_use]
    pub fn selector() -> Value {
        json!({"matchExpressions": [{"key": LABEL.0, "operator": "NotIn", "values": [LABEL.1]}]})
    }

    /// Match conditions of a webhook, in CEL. They exclude requests in exempt namespaces, and requests of `user` (this
    /// controller) and of the API server itself. They also exclude updates of a terminating object that change only its
    /// status, finalizers or managed fields.
    #[must_use]
    pub fn conditions(&self, user: Option<&str>) -> Vec<Value> {
        let condition = |name: &str, expression: String| json!({"name": name, "expression": expression});
        let mut conditions = vec![
            condition("not-released", release::cel()),
            condition("not-the-api-servers", format!("request.userInfo.username != {}", quoted(API_SERVER))),
        ];
        if !self.patterns.is_empty() {
            // Requests for cluster-scoped objects lack the field `namespace`.
            let regex = quoted(&self.regex());
            let expression = format!("!has(request.namespace) || !request.namespace.matches({regex})");
            conditions.push(condition("not-exempt", expression));
        }
        if let Some(user) = user {
            let expression = format!("request.userInfo.username != {}", quoted(user));
            conditions.push(condition("not-ours", expression));
        }
        conditions
    }
}

/// Whether `name` matches `pattern`, in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// A string literal in CEL, which has the same syntax as in JSON.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `namespace` is exempt. Asserts that the regular expression and `names` agree.
    fn have(exemptions: &Exemptions, namespace: &str) -> bool {
        let has = regex::Regex::new(&exemptions.regex()).unwrap().is_match(namespace);
        assert_eq!(exemptions.names(namespace), has, "{namespace}");
        has
    }

    #[test]
    fn only_stars_are_wildcards_in_patterns() {
        let exemptions = Exemptions::new(["kube-*", "policies", "*-own-*"].map(str::to_owned));
        for name in ["kube-system", "kube-", "policies", "a-own-b"] {
            assert!(have(&exemptions, name), "{name}");
        }
        for name in ["", "kube", "akube-system", "policies-a", "a-own", "policiesX"] {
            assert!(!have(&exemptions, name), "{name}");
        }
        let many = Exemptions::new(["a*b*b", "*x*"].map(str::to_owned));
        for name in ["abb", "ab", "aab-b", "axb", "b", "xx", "abbc"] {
            have(&many, name);
        }
        assert!(!have(&Exemptions::default(), "kube-system"));
        assert!(!have(&Exemptions::new(["a.c".to_owned()]), "abc"));
    }

    #[test]
    fn match_conditions_agree_with_the_patterns() {
        let exemptions = Exemptions::new(["kube-*", "policies"].map(str::to_owned));
        let expressions = |user| -> Vec<String> {
            let conditions = exemptions.conditions(user);
            conditions.iter().map(|condition| condition["expression"].as_str().unwrap().to_owned()).collect()
        };
        let released = release::cel();
        let always = [
            &*released,
            r#"request.userInfo.username != "system:apiserver""#,
            r#"!has(request.namespace) || !request.namespace.matches("^(kube-.*|policies)$")"#,
        ];
        assert_eq!(expressions(None), always);
        let ours = r#"request.userInfo.username != "system:serviceaccount:ours:policy-sync""#;
        let with_ours = [&always[..], &[ours]].concat();
        assert_eq!(expressions(Some("system:serviceaccount:ours:policy-sync")), with_ours);
        assert_eq!(Exemptions::default().conditions(None).len(), 2);
    }

    #[test]
    fn own_objects_are_exactly_those_of_the_manifests() {
        let exemptions = Exemptions::default().with_own("ours");
        let is_own = |group: &str, resource: &str, name: &str| {
            exemptions.is_own(&GroupResource::new(group, resource), name)
        };
        for name in
            ["ours", "ours-policies", "ours-policy-kinds", "ours-rego", "ours-tls-secrets", "ours-viewer"]
        {
            assert!(
                is_own(RBAC, "clusterroles", name) && is_own(RBAC, "clusterrolebindings", name),
                "{name}"
            );
            assert!(!is_own(RBAC, "roles", name) && !is_own("", "clusterroles", name), "{name}");
        }
        for name in ["our", "ours-", "ours-rego-2", "theirs-ours"] {
            assert!(!is_own(RBAC, "clusterroles", name), "{name}");
        }
        assert!(is_own(DEFINITIONS.0, DEFINITIONS.1, "regopolicies.policysync.kuadrant.io"));
        assert!(!is_own(DEFINITIONS.0, DEFINITIONS.1, "ours"));
        assert!(!Exemptions::default().is_own(&GroupResource::new(RBAC, "clusterroles"), ""));
        assert_eq!(Exemptions::default().own_condition(), None);
    }
}
