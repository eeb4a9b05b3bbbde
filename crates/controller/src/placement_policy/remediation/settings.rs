//! How objects are remediated.

use std::fmt;

use regorus::Value;

use policy_sync_api::annotations::REMEDIATE;
use policy_sync_rego::exemptions::Exemptions;

/// How objects are remediated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The default mode for all objects.
    pub mode: Mode,
    /// Whether objects and Namespaces may choose [`Mode::Manual`] by their annotation.
    pub allows_manual: bool,
    /// The objects that remediation does not change.
    pub exemptions: Exemptions,
}

/// Whether the results of Rego policies are written to existing objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Patch the objects.
    #[default]
    Automatic,
    /// Only report the difference.
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

/// How one object is remediated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectMode {
    Automatic,
    Manual,
    /// The annotation of the object or its Namespace requests manual mode, which is not allowed.
    ManualIgnored,
}

impl ObjectMode {
    /// A suffix for the note of the Event `PlacementChanged`.
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::ManualIgnored => {
                " (kuadrant.io/remediate: manual is ignored, because of --allow-manual-remediation=false)"
            }
            Self::Automatic | Self::Manual => "",
        }
    }
}

impl Default for Settings {
    /// The defaults of the controller's flags.
    fn default() -> Self {
        Self { mode: Mode::default(), allows_manual: true, exemptions: Exemptions::default() }
    }
}

impl Settings {
    /// How `object` of `namespace` is remediated. The annotation of the object takes precedence over that of its
    /// Namespace. Any value other than `automatic` counts as `manual`.
    #[must_use]
    pub(super) fn mode_of(&self, object: &Value, namespace: Option<&Value>) -> ObjectMode {
        let is_manual = |object: &Value| {
            let value = &object["metadata"]["annotations"][REMEDIATE];
            value.as_string().ok().map(|text| text.as_ref() != Mode::Automatic.to_string())
        };
        match is_manual(object).or_else(|| is_manual(namespace?)) {
            _ if self.mode == Mode::Manual => ObjectMode::Manual,
            Some(true) if self.allows_manual => ObjectMode::Manual,
            Some(true) => ObjectMode::ManualIgnored,
            Some(false) | None => ObjectMode::Automatic,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(mode: Mode, allows_manual: bool) -> Settings {
        Settings { mode, allows_manual, exemptions: Exemptions::default() }
    }

    fn annotated(text: &str) -> Value {
        Value::from(json!({"metadata": {"annotations": {REMEDIATE: text}}}))
    }

    fn nothing() -> Value {
        Value::from(json!({"metadata": {}}))
    }

    #[test]
    fn controller_mode_overrides_object_which_overrides_namespace() {
        let nothing = nothing();
        let automatic = settings(Mode::Automatic, true);
        let mode = |object: &Value, namespace: &Value| automatic.mode_of(object, Some(namespace));
        assert_eq!(mode(&nothing, &nothing), ObjectMode::Automatic);
        assert_eq!(mode(&nothing, &annotated("manual")), ObjectMode::Manual);
        assert_eq!(mode(&annotated("automatic"), &annotated("manual")), ObjectMode::Automatic);
        assert_eq!(mode(&annotated("manual"), &annotated("automatic")), ObjectMode::Manual);
        assert_eq!(mode(&annotated("Manuel"), &nothing), ObjectMode::Manual, "it cannot be read");
        let manual = settings(Mode::Manual, true);
        assert_eq!(manual.mode_of(&annotated("automatic"), Some(&nothing)), ObjectMode::Manual);
        assert_eq!(automatic.mode_of(&nothing, None), ObjectMode::Automatic);
    }

    #[test]
    fn manual_annotation_is_ignored_where_it_is_not_allowed() {
        let nothing = nothing();
        let settings_of = |mode| settings(mode, false);
        let strict = settings_of(Mode::Automatic);
        assert_eq!(strict.mode_of(&annotated("manual"), Some(&nothing)), ObjectMode::ManualIgnored);
        assert_eq!(strict.mode_of(&nothing, Some(&annotated("manual"))), ObjectMode::ManualIgnored);
        assert_eq!(strict.mode_of(&annotated("no such mode"), None), ObjectMode::ManualIgnored);
        assert_eq!(strict.mode_of(&annotated("automatic"), None), ObjectMode::Automatic);
        assert_eq!(strict.mode_of(&nothing, Some(&nothing)), ObjectMode::Automatic);
        let by_flag = settings_of(Mode::Manual).mode_of(&nothing, None);
        assert_eq!(by_flag, ObjectMode::Manual, "the administrator's flag is no annotation");
    }
}
