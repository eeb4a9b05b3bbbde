//! Parse, run, exit code.

use std::process::ExitCode;

use policy_sync::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("policy-sync: another TLS provider is installed already");
        return ExitCode::from(2);
    }
    match cli::parse() {
        Ok(cli) => cli::run(cli).await,
        Err(code) => code,
    }
}
