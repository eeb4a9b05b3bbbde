//! Entry point of `policy-sync`: parses the arguments, runs the command and sets the exit code. Also prints
//! completions for shells.

use std::process::ExitCode;

use policy_sync::cli;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// More threads would not be faster, because the process mostly waits for the hub. Each thread would use extra memory.
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
