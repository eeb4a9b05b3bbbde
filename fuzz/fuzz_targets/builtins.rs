#![no_main]

use libfuzzer_sys::fuzz_target;
use policy_sync_fuzz::bodies;

/// As in the product: the memory limits of evaluations read the counters of this allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Each byte selects a part of the module, so any bytes are a valid input.
fuzz_target!(|data: &[u8]| bodies::run("builtins", data));
