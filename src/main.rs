//! Parse, run, exit code; or complete what is being typed.

use std::process::ExitCode;

use policy_sync::cli;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// More would not be faster: it waits for the hub. Each has memory of its own.
#[tokio::main(worker_threads = 4)]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("policy-sync: another TLS provider is installed already");
        return ExitCode::from(2);
    }
    policy_sync_rego::panics::log_places_only();
    cli::complete();
    match cli::parse() {
        Ok(cli) => cli::run(cli).await,
        Err(code) => code,
    }
}
