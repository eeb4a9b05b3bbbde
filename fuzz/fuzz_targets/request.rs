#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use policy_sync_fuzz::{bodies, mutator};

fuzz_target!(|data: &[u8]| bodies::run("request", data));
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
