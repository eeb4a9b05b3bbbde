//! The tenant to which the cost of a request, or of an Event, is attributed.

use std::sync::Arc;

/// The API server's prefix for names of ServiceAccounts: `system:serviceaccount:<namespace>:<name>`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The maximum length of a user name in bytes. A longer name is replaced by its hash.
const USER_NAME_LIMIT: usize = 256;

/// A namespace, a user, or a cluster-scoped object. Rate limits and shares of evaluation time apply per tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The users of `namespace`.
    #[must_use]
    pub fn namespace(namespace: &str) -> Self {
        Self(format!("namespace/{namespace}").into())
    }

    /// The user of this name. The tenant of a ServiceAccount is its namespace, whose users can create any number of
    /// ServiceAccounts.
    #[must_use]
    pub fn user(name: &str) -> Self {
        if let Some((namespace, _)) = name.strip_prefix(SERVICE_ACCOUNT).and_then(|name| name.split_once(':'))
        {
            return Self::namespace(namespace);
        }
        if name.len() > USER_NAME_LIMIT {
            return Self(format!("user/{}", blake3::hash(name.as_bytes()).to_hex()).into());
        }
        Self(format!("user/{name}").into())
    }

    /// The writers of a cluster-scoped object, such as the agent of a ManagedCluster.
    #[must_use]
    pub fn object(kind: &str, name: &str) -> Self {
        Self(format!("object/{kind}/{name}").into())
    }
}

impl From<Tenant> for Arc<str> {
    fn from(tenant: Tenant) -> Self {
        tenant.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_of_a_namespace_are_one_tenant_and_users_are_each_their_own() {
        let builder = Tenant::user("system:serviceaccount:shop:builder");
        assert_eq!(builder, Tenant::user("system:serviceaccount:shop:other"));
        assert_eq!(builder, Tenant::namespace("shop"));
        assert_ne!(builder, Tenant::user("system:serviceaccount:bank:builder"));
        assert_ne!(Tenant::user("shop"), Tenant::namespace("shop"));
        assert_ne!(Tenant::user("jane"), Tenant::user("joe"));
        let long = |last: &str| Tenant::user(&format!("{}{last}", "x".repeat(10_000)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").0.len() < 2 * USER_NAME_LIMIT);
    }
}
