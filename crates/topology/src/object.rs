//! The traits of the objects and policies in a topology.

use std::cmp::Reverse;

use crate::locator::Locator;
use crate::merge::{AtomicDefaults, MergeStrategy};
use crate::rows::Created;
use crate::rules::PolicyRule;

/// A Kubernetes object, or a section of an object, such as a listener.
pub trait Object {
    /// The object's kind and name. Two objects of a topology must have different locators, and so must two policies.
    fn locator(&self) -> Locator<'_>;
}

/// An object that policies can target.
pub trait Targetable: Object {}

/// A policy: an object that targets other objects and has rules.
pub trait Policy: Object {
    /// The objects and sections that the policy targets. A target that is listed twice counts once. A policy with
    /// several targets on a path is merged at each of them.
    ///
    /// A target is ignored if the topology does not have it, or if policies cannot target it. To find such targets, use
    /// [`Topology::find`](crate::Topology::find) and [`Node::is_targetable`](crate::Node::is_targetable).
    fn targets(&self) -> Vec<Locator<'_>>;

    /// The rules of the policy, in any order. A policy that is merged as a whole has one rule.
    ///
    /// Each rule needs a different key. Of rules with the same key, only the first counts; with debug assertions,
    /// [`Topology::effective`](crate::Topology::effective) panics.
    fn rules(&self) -> &[PolicyRule];

    /// The strategy to merge the policy with more specific policies. The default is [`AtomicDefaults`]: a more specific
    /// policy with rules replaces this one as a whole.
    fn strategy(&self) -> &dyn MergeStrategy {
        &AtomicDefaults
    }

    /// The creation time, which decides between policies with the same target. By default there is no creation time.
    /// Such a policy is younger than all policies with a creation time.
    fn created(&self) -> Created {
        Created::default()
    }

    /// The order among policies of the same kind with the same target. A policy with a lower precedence counts as less
    /// specific, so it is merged later.
    ///
    /// The default is [`Precedence::oldest_first`], as in
    /// [GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/#established-and-challenger-policy-specs). The older
    /// policy has the lower precedence. So the newer of two defaults applies, and the older of two overrides.
    fn precedence(&self) -> Precedence {
        Precedence::oldest_first(self.created(), &self.locator())
    }

    /// Whether the policy applies to its target and all nodes below it (inherited), or to its target only (direct). The
    /// default is true. See the [classes of
    /// policies](https://gateway-api.sigs.k8s.io/geps/gep-713/#classes-of-policies) in GEP-713.
    ///
    /// A direct policy counts only on paths whose last node is its target. For other paths,
    /// [`Topology::effective`](crate::Topology::effective) does not report it, not even in
    /// [`lost`](crate::EffectivePolicy::lost).
    fn is_inherited(&self) -> bool {
        true
    }
}

/// A locator can be used as an object without further data.
impl Object for Locator<'_> {
    fn locator(&self) -> Locator<'_> {
        *self
    }
}

impl Targetable for Locator<'_> {}

impl<T: Object + ?Sized> Object for &T {
    fn locator(&self) -> Locator<'_> {
        (**self).locator()
    }
}

impl<T: Targetable + ?Sized> Targetable for &T {}

impl<T: Policy + ?Sized> Policy for &T {
    fn targets(&self) -> Vec<Locator<'_>> {
        (**self).targets()
    }

    fn rules(&self) -> &[PolicyRule] {
        (**self).rules()
    }

    fn strategy(&self) -> &dyn MergeStrategy {
        (**self).strategy()
    }

    fn created(&self) -> Created {
        (**self).created()
    }

    fn precedence(&self) -> Precedence {
        (**self).precedence()
    }

    fn is_inherited(&self) -> bool {
        (**self).is_inherited()
    }
}

/// The order of policies of one kind with the same target. A lower precedence counts as less specific.
///
/// Policies with [`oldest_first`](Self::oldest_first) have a lower precedence than all policies with
/// [`newest_first`](Self::newest_first), at any age. So policies with `oldest_first` are merged later. For example, a
/// cap uses `oldest_first`, and the policies that it limits use `newest_first`:
///
/// ```
/// use policy_sync_topology::Moment;
/// use policy_sync_topology::locator::{KindRef, Locator};
/// use policy_sync_topology::object::Precedence;
/// use policy_sync_topology::rows::Created;
///
/// let policy = |name| Locator::new(KindRef { group: "example.com", kind: "QuotaPolicy" }, "shop", name);
/// let created = |seconds: i64| Created::from(Some(Moment(seconds * 1000)));
/// let cap = Precedence::oldest_first(created(30), &policy("cap"));
/// let newer = Precedence::newest_first(created(20), &policy("newer"));
/// let older = Precedence::newest_first(created(10), &policy("older"));
/// // `older` applies first, `newer` is merged with it, and `cap` is merged last.
/// assert!(cap < newer && newer < older);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence(Order);

/// The creation time of a policy, and its `<namespace>/<name>`.
type Age = (Created, String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    OldestFirst(Age),
    NewestFirst(Reverse<Age>),
}

impl Precedence {
    /// The older policy has the lower precedence. Of two policies with the same time, the first by `<namespace>/<name>`
    /// has the lower precedence.
    #[must_use]
    pub fn oldest_first(created: Created, locator: &Locator<'_>) -> Self {
        Self(Order::OldestFirst((created, locator.object())))
    }

    /// The newer policy has the lower precedence. Of two policies with the same time, the last by `<namespace>/<name>`
    /// has the lower precedence. All policies with [`oldest_first`](Self::oldest_first) have a lower precedence than
    /// policies with `newest_first`.
    #[must_use]
    pub fn newest_first(created: Created, locator: &Locator<'_>) -> Self {
        Self(Order::NewestFirst(Reverse((created, locator.object()))))
    }
}
