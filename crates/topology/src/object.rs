//! The traits of objects that make a topology.

use std::cmp::Reverse;

use crate::locator::Locator;
use crate::merge::{AtomicDefaults, MergeStrategy};
use crate::rows::Created;
use crate::rules::PolicyRule;

/// A Kubernetes object, or a section of one, such as a listener.
pub trait Object {
    /// Its kind and name. Two objects of a topology must have different ones.
    fn locator(&self) -> Locator<'_>;
}

/// An object that policies can target.
pub trait Targetable: Object {}

/// A policy: an object that targets others and has rules.
pub trait Policy: Object {
    /// The objects and sections that the policy targets. One that the topology does not have is ignored.
    fn targets(&self) -> Vec<Locator<'_>>;

    /// The rules of the policy, in any order. A policy that is merged as a whole has one rule.
    ///
    /// Each rule needs a different key. Of rules with the same key, only the first counts; with debug assertions,
    /// [`Topology::effective`](crate::Topology::effective) panics.
    fn rules(&self) -> &[PolicyRule];

    /// The strategy to merge the policy with those of more specific targets.
    fn strategy(&self) -> &dyn MergeStrategy {
        &AtomicDefaults
    }

    /// The creation time, which decides between policies with the same target. By default a policy is younger than all with a time.
    fn created(&self) -> Created {
        Created::default()
    }

    /// The precedence among policies of the same kind with the same target: those with a lower one are merged as if they were less
    /// specific. By default the older one comes first, then the first by namespace and name, as Gateway API requires.
    fn precedence(&self) -> Precedence {
        Precedence::oldest_first(self.created(), &self.locator())
    }

    /// Whether the policy applies to all that is below its target
    /// ([inherited](https://gateway-api.sigs.k8s.io/geps/gep-713/#inherited-policy-attachment)), not only to the target itself (direct).
    fn is_inherited(&self) -> bool {
        true
    }
}

/// An object of which only the kind and the name matter.
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

/// The order of policies of one kind with the same target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence(Order);

/// A policy: its creation time, and its namespace and name.
type Age = (Created, String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    OldestFirst(Age),
    NewestFirst(Reverse<Age>),
}

impl Precedence {
    /// The older policy first, then the first by namespace and name.
    #[must_use]
    pub fn oldest_first(created: Created, locator: &Locator<'_>) -> Self {
        Self(Order::OldestFirst((created, locator.object())))
    }

    /// The newer policy first, and after all policies that have the other order.
    #[must_use]
    pub fn newest_first(created: Created, locator: &Locator<'_>) -> Self {
        Self(Order::NewestFirst(Reverse((created, locator.object()))))
    }
}
