//! How objects are remediated.

use std::fmt;

use regorus::Value;

use crate::api::annotations::REMEDIATE;
use crate::rego::exemptions::Exemptions;

/// How objects are remediated.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether what policies say is written.
    pub mode: Mode,
    /// Whose objects are left alone.
    pub exemptions: Exemptions,
}

/// Whether what policies say of objects that stand is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// It is.
    #[default]
    Automatic,
    /// It is told.
    Manual,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Automatic => "automatic",
            Self::Manual => "manual",
        })
    }
}

impl Mode {
    /// The mode of `object`, which is of this Namespace: what it says itself comes before what its Namespace does. What cannot be read
    /// is a wish to be left alone.
    #[must_use]
    pub(super) fn of(self, object: &Value, namespace: Option<&Value>) -> Self {
        let says = |object: &Value| {
            let says = &object["metadata"]["annotations"][REMEDIATE];
            says.as_string().ok().map(|text| text.as_ref() != Self::Automatic.to_string())
        };
        match says(object).or_else(|| says(namespace?)) {
            _ if self == Self::Manual => Self::Manual,
            Some(true) => Self::Manual,
            Some(false) | None => Self::Automatic,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_comes_before_its_namespace_and_the_controller_before_both() {
        let says = |text: &str| Value::from(json!({"metadata": {"annotations": {REMEDIATE: text}}}));
        let nothing = Value::from(json!({"metadata": {}}));
        let mode = |object: &Value, namespace: &Value| Mode::Automatic.of(object, Some(namespace));
        assert_eq!(mode(&nothing, &nothing), Mode::Automatic);
        assert_eq!(mode(&nothing, &says("manual")), Mode::Manual);
        assert_eq!(mode(&says("automatic"), &says("manual")), Mode::Automatic);
        assert_eq!(mode(&says("manual"), &says("automatic")), Mode::Manual);
        assert_eq!(mode(&says("Manuel"), &nothing), Mode::Manual, "it cannot be read");
        assert_eq!(Mode::Manual.of(&says("automatic"), Some(&nothing)), Mode::Manual);
        assert_eq!(Mode::Automatic.of(&nothing, None), Mode::Automatic);
    }
}
