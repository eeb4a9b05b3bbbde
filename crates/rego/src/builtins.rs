//! The builtin functions that policies may call.

use regorus::unstable::BUILTINS;

use super::extensions;
use super::metadata::Function;
use super::rewrites::RESERVED;

/// A builtin function, and whether policies can call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    /// A function with a fixed number of arguments.
    Known {
        /// The number of arguments.
        arity: usize,
        /// Whether a call may have one more argument, which receives the result, as in Rego before version 1.
        output: bool,
    },
    /// A function with any number of arguments.
    Variadic,
    /// A function that policies must not call, with the reason.
    Forbidden(&'static str),
    /// A function that OPA has and the embedded engine lacks.
    Lacking,
}

/// Functions that are not deterministic, or that depend on the network or the environment.
const FORBIDDEN: [(&str, &str); 6] = [
    ("http.send", "a Rego policy cannot access the network"),
    ("net.lookup_ip_addr", "a Rego policy cannot access the network"),
    ("opa.runtime", "a Rego policy cannot read the environment"),
    ("providers.aws.sign_req", "a Rego policy has no credentials"),
    ("rand.intn", "a Rego policy must be deterministic"),
    ("uuid.rfc4122", "a Rego policy must be deterministic"),
];

/// Functions of OPA 1.22 that the embedded engine lacks, according to OPA's capabilities file.
#[rustfmt::skip]
const LACKING: [&str; 4] = [
    "io.jwt.encode_sign", "io.jwt.encode_sign_raw", "rego.parse_module", "strings.render_template",
];

/// `name` as a static string, if it is the name of a builtin.
pub(super) fn name(name: &str) -> Option<&'static str> {
    extensions::name(name).or_else(|| BUILTINS.get_key_value(name).map(|(name, _)| *name))
}

/// Whether policies must not call the builtin of this name.
pub(super) fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.iter().any(|(forbidden, _)| *forbidden == name)
}

/// The builtin of this name.
pub(super) fn builtin(name: &str) -> Option<Builtin> {
    if let Some((_, why)) = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == name) {
        return Some(Builtin::Forbidden(why));
    }
    if name == "print" {
        return Some(Builtin::Variadic);
    }
    if let Some(arity) = extensions::arity(name).filter(|_| !name.starts_with(RESERVED)) {
        return Some(Builtin::Known { arity, output: false });
    }
    if Function::of(name).is_some() {
        return Some(Builtin::Known { arity: 0, output: false });
    }
    if LACKING.contains(&name) {
        return Some(Builtin::Lacking);
    }
    let (_, arity) = BUILTINS.get(name).filter(|_| !name.starts_with("__"))?;
    Some(Builtin::Known { arity: usize::from(*arity), output: true })
}

#[cfg(test)]
mod tests;
