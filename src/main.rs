//! Parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use policy_sync::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("policy-sync: another TLS provider is installed already");
        return ExitCode::from(2);
    }
    cli::run(Cli::parse()).await
}
