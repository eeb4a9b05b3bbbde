//! `policy-sync plan`: manifests to the works that the controller would make of them, without a hub.
//!
//! ```text
//! files ─▶ documents ─▶ manifests ─▶ inventory ─▶ mirror ─▶ plan ─▶ works on stdout
//!                                                    └─────────┴──▶ remarks on stderr
//! ```
//!
//! The mirror and the plans are the controller's own. What only an API server does is not done: no defaults of a
//! schema are filled in, nothing is validated by it, and no version is converted into another.

mod fill;
mod inventory;
mod kinds;
mod remark;
mod works;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::output::{self, print, say};
use super::settings::SettingsArguments;
use super::{Answer, manifests};
use inventory::Inventory;
use remark::Severity;

/// Arguments of `policy-sync plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A file, a directory (its *.yaml, *.yml and *.json files), or - for standard input. Repeatable.
    #[arg(short, long = "filename", required = true, value_name = "FILE|DIR|-")]
    filenames: Vec<PathBuf>,
    /// The namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    /// How to print the works.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One document for each work.
    Yaml,
    /// One List.
    Json,
}

/// Prints the works that the controller would make of the manifests.
///
/// # Errors
///
/// Where an argument is wrong, or a file cannot be read.
pub fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let inventory = Inventory::new(manifests::read(&arguments.filenames)?, &arguments.namespace);
    let (works, remarks) = works::plan(fill::fill(&inventory, &controller), &settings)?;
    for remark in &remarks {
        say(remark);
    }
    print(&match arguments.output {
        Format::Yaml => output::yaml_documents(&works)?,
        Format::Json => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": works}))?,
    })?;
    let invalid = remarks.iter().any(|remark| remark.severity == Severity::Error);
    Ok(if invalid { Answer::No } else { Answer::Fine })
}
