//! Runs in the check process: sets the limits of the process, checks the texts, and writes progress.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write};
use std::time::Duration;

use regorus::Value;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{CheckResult, Extent, Request};
use crate::bundle::{self, Bundle};
use crate::bundle_check;
use crate::embedded::Embedded;
use crate::engine::EngineKind;
use crate::module::{Module, ModuleId, Text};
use crate::queries::{QueriedPackages, query};
use crate::secrets;

/// The base processor time for reading one module. The size of the module adds more (see [`MODULE_BYTES_PER_SECOND`]).
pub(super) const MODULE_READ_TIME: Duration = Duration::from_millis(500);
/// The number of bytes of a module for which one second is added to the base time.
const MODULE_BYTES_PER_SECOND: u32 = 256 << 10;
/// The additional processor time for evaluating one module.
const MODULE_EVALUATION_TIME: Duration = Duration::from_secs(2);
/// The base processor time for a bundle, in seconds. The bytes and modules of the bundle add more.
const BUNDLE_SECONDS: u64 = 2;
/// The number of bytes of a bundle for which one second is added to the base time. Most bundles need a fifth of the
/// resulting time.
const BUNDLE_BYTES_PER_SECOND: usize = 64 << 10;
/// The number of modules of a bundle for which one second is added to the base time.
const BUNDLE_MODULES_PER_SECOND: usize = 250;
/// The maximum processor time for a bundle, in seconds.
const MAX_BUNDLE_SECONDS: u64 = 60;
/// The memory limit of the process, in bytes of its data segment: heap and thread stacks, without the program and its
/// libraries.
pub const MEMORY_LIMIT: u64 = 384 << 20;
/// The stack of the checking thread, in bytes. Threads that parse checked modules later have at least twice this stack.
const STACK_BYTES: usize = 1 << 20;
/// The interval at which a thread compares the used processor time with the limit of the current module.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The exit code if reading one module exceeds its time limit.
pub(super) const TIME_LIMIT_EXIT_CODE: i32 = 75;
/// The first word of a progress line. The number of the next module follows, and the processor time that was used until
/// then, in microseconds.
const AT: &str = "at";
/// The first word of the progress line after the last module. The processor time follows.
const READ: &str = "read";

/// The processor time that reading `text` may take.
pub(super) fn module_time_limit(text: &Text) -> Duration {
    MODULE_READ_TIME
        + Duration::from_secs(1) * u32::try_from(text.text.len()).unwrap_or(u32::MAX)
            / MODULE_BYTES_PER_SECOND
}

/// The processor time that checking `texts` with these `factors` may take.
pub(super) fn bundle_time_limit(texts: &[Text], factors: &[u32]) -> Duration {
    let bytes: usize = texts.iter().map(|text| text.text.len()).sum();
    let more = u64::try_from(bytes / BUNDLE_BYTES_PER_SECOND + texts.len() / BUNDLE_MODULES_PER_SECOND)
        .unwrap_or(u64::MAX);
    // If the factors differ, all texts get the factor for loads. A new module must not be rejected because modules that
    // passed an earlier check take long.
    let are_equal = factors.windows(2).all(|pair| pair[0] == pair[1]);
    let factor = if are_equal { factors.first().copied().unwrap_or(1) } else { super::LOAD_FACTOR };
    Duration::from_secs(
        BUNDLE_SECONDS.saturating_add(more).saturating_mul(factor.into()).min(MAX_BUNDLE_SECONDS),
    )
}

/// The parsed output of a check process, which may be incomplete.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProcessOutput<'w> {
    /// The number of the module that was being read.
    pub(super) at: Option<usize>,
    /// The processor time for each module that was read completely.
    pub(super) times: BTreeMap<usize, Duration>,
    /// The output after the progress lines.
    pub(super) result: &'w [u8],
}

impl<'w> ProcessOutput<'w> {
    pub(super) fn of(written: &'w [u8]) -> Self {
        let mut progressed = Self { result: written, ..Self::default() };
        let mut since = Duration::ZERO;
        while let Some(end) = progressed.result.iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&progressed.result[..end]).unwrap_or_default();
            let mut words = line.split(' ');
            let cpu_time =
                |word: Option<&str>| word.and_then(|word| word.parse().ok()).map(Duration::from_micros);
            let (next, now) = match (words.next(), words.next()) {
                (Some(AT), Some(number)) => (number.parse().ok(), cpu_time(words.next())),
                (Some(READ), now) => (None, cpu_time(now)),
                _ => break,
            };
            let now = now.unwrap_or(since);
            if let Some(number) = progressed.at {
                progressed.times.insert(number, now.saturating_sub(since));
            }
            (progressed.at, since) = (next, now);
            progressed.result = &progressed.result[end + 1..];
        }
        progressed
    }
}

/// Runs one check: reads the request from standard input, writes progress to standard output, and returns the result as
/// JSON.
///
/// # Errors
///
/// When a limit cannot be set, or the request is invalid.
pub fn serve(evaluator: EngineKind, packages: QueriedPackages) -> anyhow::Result<String> {
    let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
    // The hard limit is higher than the soft one. With equal limits the kernel would send SIGKILL, which does not show
    // the cause.
    let cpu_rlimit = |seconds: u64| Rlimit { current: Some(seconds), maximum: Some(2 * MAX_BUNDLE_SECONDS) };
    setrlimit(Resource::Cpu, cpu_rlimit(BUNDLE_SECONDS))?;
    setrlimit(Resource::Data, limit(MEMORY_LIMIT))?;
    // A text that ends the process leaves no core dump.
    setrlimit(Resource::Core, limit(0))?;
    // If the node is short of memory, the kernel kills this process first. If the write fails, the check runs without
    // this protection.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let Request { texts, factors, extent, secrets } = serde_json::from_slice(&request)?;
    drop(request);
    // If texts are read separately, `Progress` limits the time of each.
    let seconds = if extent == Extent::Bundle {
        bundle_time_limit(&texts, &factors).as_secs()
    } else {
        MAX_BUNDLE_SECONDS
    };
    setrlimit(Resource::Cpu, cpu_rlimit(seconds))?;
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checking = thread.spawn(move || match extent {
        Extent::Bundle => check_bundle(&texts, evaluator, &packages, &secrets, Progress::start(factors)),
        Extent::Each | Extent::EachEvaluated => {
            each(&texts, extent, evaluator, &packages, Progress::start(factors))
        }
    })?;
    let checked = checking.join().map_err(|_| anyhow::anyhow!("the check panicked"))?;
    Ok(serde_json::to_string(&checked)?)
}

/// Checks `texts` as one bundle in this process, without aliases for Secrets. The check may take minutes and all
/// memory, and may end the process.
#[must_use]
pub fn checked(texts: &[Text], evaluator: EngineKind, packages: &QueriedPackages) -> CheckResult {
    check_bundle(texts, evaluator, packages, &secrets::names(&BTreeMap::new()), Progress::default())
}

fn check_bundle(
    texts: &[Text],
    evaluator: EngineKind,
    packages: &QueriedPackages,
    secrets: &BTreeSet<String>,
    mut progress: Progress,
) -> CheckResult {
    // Modules that may need much time are read last. If the time limit ends the process, most other modules are read.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_cached_key(|number| super::depth(&texts[*number].text));
    let ordered: Vec<Text> = order.iter().map(|number| texts[*number].clone()).collect();
    let (mut modules, unread) = bundle::parsed(&ordered, packages, |nth| {
        let number = order[nth];
        progress.at(number, module_time_limit(&texts[number]));
    });
    progress.read();
    let positions: HashMap<&ModuleId, usize> =
        texts.iter().enumerate().map(|(number, text)| (&text.id, number)).collect();
    modules.sort_by_key(|module| positions.get(module.id()));
    let packages = modules.iter().map(|module| (module.id().clone(), module.package())).collect();
    let unread_ids = unread.iter().map(|fault| fault.module.clone()).collect();
    let checked = CheckResult { packages, unread: unread_ids, ..CheckResult::default() };
    match bundle_check::check_bundle(modules, unread, evaluator, secrets) {
        Ok((_, secrets)) => CheckResult { secrets, ..checked },
        Err(faults) => CheckResult { faults, ..checked },
    }
}

/// Parses each of `texts`, and evaluates it if `extent` requires that. Ignores the faults of texts: the parent only
/// needs to know whether the process ends.
fn each(
    texts: &[Text],
    extent: Extent,
    evaluator: EngineKind,
    packages: &QueriedPackages,
    mut progress: Progress,
) -> CheckResult {
    let is_evaluated = extent == Extent::EachEvaluated && evaluator == EngineKind::Embedded;
    for (number, text) in texts.iter().enumerate() {
        let more = if is_evaluated { MODULE_EVALUATION_TIME } else { Duration::ZERO };
        progress.at(number, module_time_limit(text) + more);
        let Ok(module) = Module::parse(text) else { continue };
        let bundle = Bundle::of([module.with_purpose(packages)], Vec::new(), drop);
        if let Ok(bundle) = bundle.as_ref()
            && is_evaluated
            && let Ok(engine) = Embedded::new(bundle, Value::new_object())
        {
            for package in bundle.packages() {
                // The check of the whole bundle reports failed evaluations.
                let _ = engine.query_value(&query(&package), &bundle_check::empty_review());
            }
        }
    }
    CheckResult::default()
}

/// Writes the number of the current module, and ends the process if that module takes too long.
#[derive(Default)]
struct Progress {
    /// The processor time of this process at which the time limit of the current module ends. `None` disables the
    /// limit.
    until: Option<std::sync::Arc<parking_lot::Mutex<Option<Duration>>>>,
    /// The factor by which the time limit of each module is multiplied.
    factors: Vec<u32>,
}

impl Progress {
    fn start(factors: Vec<u32>) -> Self {
        let until = std::sync::Arc::new(parking_lot::Mutex::new(None::<Duration>));
        let looking = until.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(POLL_INTERVAL);
                // The lock is held until the process ends, so that no other thread writes the number of another module.
                let until = looking.lock();
                if until.is_some_and(|until| until < cpu_time()) {
                    std::process::exit(TIME_LIMIT_EXIT_CODE);
                }
            }
        });
        Self { until: Some(until), factors }
    }

    fn at(&mut self, number: usize, limit: Duration) {
        if let Some(until) = &self.until {
            let mut until = until.lock();
            let cpu_time = cpu_time();
            write(&format!("{AT} {number} {}\n", cpu_time.as_micros()));
            *until = Some(cpu_time + limit * self.factors.get(number).copied().unwrap_or(1));
        }
    }

    fn read(&mut self) {
        if let Some(until) = &self.until {
            *until.lock() = None;
            write(&format!("{READ} {}\n", cpu_time().as_micros()));
        }
    }
}

/// The processor time that this process has used.
fn cpu_time() -> Duration {
    // The conversion fails only for a negative time.
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}

fn write(line: &str) {
    let mut out = std::io::stdout().lock();
    // If the reader is gone, the result is not needed.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ModuleId;

    fn text(bytes: usize) -> Text {
        Text { id: ModuleId::new("a"), text: "a".repeat(bytes).into() }
    }

    #[test]
    fn processor_time_grows_with_the_bundle_up_to_a_limit() {
        assert_eq!(bundle_time_limit(&[], &[]), Duration::from_secs(2));
        assert_eq!(bundle_time_limit(&vec![text(400); 2_000], &[]), Duration::from_secs(22));
        assert_eq!(bundle_time_limit(&vec![text(1 << 20); 40], &[]), Duration::from_secs(60));
        assert_eq!(module_time_limit(&text(400)), Duration::from_micros(501_525) + Duration::from_nanos(878));
        assert_eq!(module_time_limit(&text(1 << 20)), Duration::from_millis(4_500));
    }

    #[test]
    fn progress_names_the_module_that_is_read() {
        let of = |written: &'static str| {
            let ProcessOutput { at, times, result } = ProcessOutput::of(written.as_bytes());
            let times =
                times.into_iter().map(|(number, time)| (number, time.as_micros())).collect::<Vec<_>>();
            (at, times, std::str::from_utf8(result).unwrap())
        };
        assert_eq!(of(""), (None, vec![], ""));
        assert_eq!(of("at 7 100\nat 1 350\n"), (Some(1), vec![(7, 250)], ""));
        assert_eq!(of("at 0 100\nat 1 350\nread 400\n"), (None, vec![(0, 250), (1, 50)], ""));
        assert_eq!(of("at 0 100\nread 100\n{\"a\":1}\n"), (None, vec![(0, 0)], "{\"a\":1}\n"));
        assert_eq!(of("at 0 100\nat 1 3"), (Some(0), vec![], "at 1 3"));
    }
}
