#![no_main]

use libfuzzer_sys::fuzz_target;
use policy_sync_fuzz::bodies;

/// As in the product: the limits of an evaluation's memory read the counters of this allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Bytes are choices: there is no form that a mutation could break.
fuzz_target!(|data: &[u8]| bodies::run("builtins", data));
