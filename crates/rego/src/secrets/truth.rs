//! Whether a condition holds for Secrets.

/// The truth of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    /// `true`: for all Secrets; `false`: for none; `None`: unknown.
    pub(super) for_secrets: Option<bool>,
    /// Whether it is false for all other kinds.
    pub(super) only_secrets: bool,
}

impl Truth {
    pub(super) const UNKNOWN: Self = Self { for_secrets: None, only_secrets: false };
    pub(super) const ALWAYS: Self = Self { for_secrets: Some(true), only_secrets: false };
    pub(super) const NEVER: Self = Self { for_secrets: Some(false), only_secrets: false };

    pub(super) fn is_never(self) -> bool {
        self.for_secrets == Some(false)
    }

    pub(super) fn is_always(self) -> bool {
        self.for_secrets == Some(true)
    }

    pub(super) fn and(self, other: Self) -> Self {
        let for_secrets = match (self.for_secrets, other.for_secrets) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        Self { for_secrets, only_secrets: self.only_secrets || other.only_secrets }
    }

    pub(super) fn not(self) -> Self {
        Self { for_secrets: self.for_secrets.map(|holds| !holds), only_secrets: false }
    }
}
