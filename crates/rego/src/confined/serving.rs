//! The check process: its limits and its work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write};
use std::time::Duration;

use regorus::Value;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{Checked, Extent, Request};
use crate::asked::{Packages, query};
use crate::bundle::{self, Bundle};
use crate::checking;
use crate::embedded::Embedded;
use crate::evaluated_by::EvaluatedBy;
use crate::module::{Module, ModuleId, Text};
use crate::secrets;

/// The processor time for reading one module, before the share for its bytes (see [`RATE`]).
pub(super) const READING: Duration = Duration::from_millis(500);
/// Each further second allows this many bytes of a module.
const RATE: u32 = 256 << 10;
/// The additional processor time for evaluating one module.
const EVALUATING: Duration = Duration::from_secs(2);
/// The processor time for a bundle in seconds, before the shares for bytes and modules.
const PROCESSOR: u64 = 2;
/// Each further second allows this many bytes of a bundle: about five times the usual need.
const BUNDLE_RATE: usize = 64 << 10;
/// Each further second allows this many modules of a bundle.
const MODULES_RATE: usize = 250;
/// The most processor time for a bundle, in seconds.
const PROCESSOR_LIMIT: u64 = 60;
/// The memory limit of the process, in bytes of its data segment: heap and thread stacks, without the program and its libraries.
pub const MEMORY: u64 = 384 << 20;
/// The stack of the checking thread, in bytes. Threads that parse checked modules later have at least twice as much.
const STACK: usize = 1 << 20;
/// The interval at which a thread compares the used processor time with the limit of the current module.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The exit code if one module exceeds its time.
pub(super) const SLOW: i32 = 75;
/// The first word of a progress line. The number of the next module follows, and the processor time that was used until then, in
/// microseconds.
const AT: &str = "at";
/// The first word of the progress line after the last module. The processor time follows.
const READ: &str = "read";

/// The processor time that reading `text` may take.
pub(super) fn reading(text: &Text) -> Duration {
    READING + Duration::from_secs(1) * u32::try_from(text.text.len()).unwrap_or(u32::MAX) / RATE
}

/// The processor time that checking `texts` with these `factors` may take.
pub(super) fn processor(texts: &[Text], factors: &[u32]) -> Duration {
    let bytes: usize = texts.iter().map(|text| text.text.len()).sum();
    let more = u64::try_from(bytes / BUNDLE_RATE + texts.len() / MODULES_RATE).unwrap_or(u64::MAX);
    // With mixed factors, all texts get the load factor. Otherwise a new module would be blamed for the time of modules
    // that passed before.
    let are_equal = factors.windows(2).all(|pair| pair[0] == pair[1]);
    let factor = if are_equal { factors.first().copied().unwrap_or(1) } else { super::LOAD_FACTOR };
    Duration::from_secs(PROCESSOR.saturating_add(more).saturating_mul(factor.into()).min(PROCESSOR_LIMIT))
}

/// The parsed output of a check process, which may be incomplete.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Progressed<'w> {
    /// The number of the module that was being read.
    pub(super) at: Option<usize>,
    /// The processor time for each module that was read before.
    pub(super) times: BTreeMap<usize, Duration>,
    /// The output after the progress lines.
    pub(super) answer: &'w [u8],
}

impl<'w> Progressed<'w> {
    pub(super) fn of(written: &'w [u8]) -> Self {
        let mut progressed = Self { answer: written, ..Self::default() };
        let mut since = Duration::ZERO;
        while let Some(end) = progressed.answer.iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&progressed.answer[..end]).unwrap_or_default();
            let mut words = line.split(' ');
            let used =
                |word: Option<&str>| word.and_then(|word| word.parse().ok()).map(Duration::from_micros);
            let (next, now) = match (words.next(), words.next()) {
                (Some(AT), Some(number)) => (number.parse().ok(), used(words.next())),
                (Some(READ), now) => (None, used(now)),
                _ => break,
            };
            let now = now.unwrap_or(since);
            if let Some(number) = progressed.at {
                progressed.times.insert(number, now.saturating_sub(since));
            }
            (progressed.at, since) = (next, now);
            progressed.answer = &progressed.answer[end + 1..];
        }
        progressed
    }
}

/// Runs one check: reads the request from standard input, writes progress to standard output, and returns the result as JSON.
///
/// # Errors
///
/// When a limit cannot be set, or the request is invalid.
pub fn serve(evaluator: EvaluatedBy, packages: Packages) -> anyhow::Result<String> {
    let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
    // The hard limit is higher than the soft one. With equal limits the kernel would send SIGKILL, which does not show the cause.
    let processor_of = |seconds: u64| Rlimit { current: Some(seconds), maximum: Some(2 * PROCESSOR_LIMIT) };
    setrlimit(Resource::Cpu, processor_of(PROCESSOR))?;
    setrlimit(Resource::Data, limit(MEMORY))?;
    // A text that ends the process leaves no core dump.
    setrlimit(Resource::Core, limit(0))?;
    // If the node is short of memory, the kernel kills this process first. If the write fails, the check runs without this protection.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let Request { texts, factors, extent, secrets } = serde_json::from_slice(&request)?;
    drop(request);
    // `Progress` limits each text that is read separately.
    let seconds =
        if extent == Extent::Bundle { processor(&texts, &factors).as_secs() } else { PROCESSOR_LIMIT };
    setrlimit(Resource::Cpu, processor_of(seconds))?;
    let thread = std::thread::Builder::new().stack_size(STACK);
    let checking = thread.spawn(move || match extent {
        Extent::Bundle => bundle_checked(&texts, evaluator, &packages, &secrets, Progress::start(factors)),
        Extent::Each | Extent::EachEvaluated => {
            each(&texts, extent, evaluator, &packages, Progress::start(factors))
        }
    })?;
    let checked = checking.join().map_err(|_| anyhow::anyhow!("the check panicked"))?;
    Ok(serde_json::to_string(&checked)?)
}

/// Checks `texts` as one bundle in this process, without aliases for Secrets. It may take minutes and all memory, and may end the process.
#[must_use]
pub fn checked(texts: &[Text], evaluator: EvaluatedBy, packages: &Packages) -> Checked {
    bundle_checked(texts, evaluator, packages, &secrets::names(&BTreeMap::new()), Progress::default())
}

fn bundle_checked(
    texts: &[Text],
    evaluator: EvaluatedBy,
    packages: &Packages,
    secrets: &BTreeSet<String>,
    mut progress: Progress,
) -> Checked {
    // If the time ends, the unread modules should be those most likely to need it.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_cached_key(|number| super::depth(&texts[*number].text));
    let ordered: Vec<Text> = order.iter().map(|number| texts[*number].clone()).collect();
    let (mut modules, unread) = bundle::parsed(&ordered, packages, |nth| {
        let number = order[nth];
        progress.at(number, reading(&texts[number]));
    });
    progress.read();
    let positions: HashMap<&ModuleId, usize> =
        texts.iter().enumerate().map(|(number, text)| (&text.id, number)).collect();
    modules.sort_by_key(|module| positions.get(module.id()));
    let packages = modules.iter().map(|module| (module.id().clone(), module.package())).collect();
    let unread_ids = unread.iter().map(|fault| fault.module.clone()).collect();
    let checked = Checked { packages, unread: unread_ids, ..Checked::default() };
    match checking::checked(modules, unread, evaluator, secrets) {
        Ok((_, secrets)) => Checked { secrets, ..checked },
        Err(faults) => Checked { faults, ..checked },
    }
}

/// Parses each of `texts`, and evaluates it if `extent` requires that. Ignores their faults: the parent only needs to know whether the
/// process ends.
fn each(
    texts: &[Text],
    extent: Extent,
    evaluator: EvaluatedBy,
    packages: &Packages,
    mut progress: Progress,
) -> Checked {
    let is_evaluated = extent == Extent::EachEvaluated && evaluator == EvaluatedBy::Embedded;
    for (number, text) in texts.iter().enumerate() {
        let more = if is_evaluated { EVALUATING } else { Duration::ZERO };
        progress.at(number, reading(text) + more);
        let Ok(module) = Module::parse(text) else { continue };
        let bundle = Bundle::of([module.asked(packages)], Vec::new(), drop);
        if let Ok(bundle) = bundle.as_ref()
            && is_evaluated
            && let Ok(engine) = Embedded::new(bundle, Value::new_object())
        {
            for package in bundle.packages() {
                // The check of the whole bundle reports failed evaluations.
                let _ = engine.ask(&query(&package), &checking::empty_review());
            }
        }
    }
    Checked::default()
}

/// Writes the number of the current module, and ends the process if that module takes too long.
#[derive(Default)]
struct Progress {
    /// The processor time of this process at which the current module must be read. `None` disables the limit.
    until: Option<std::sync::Arc<parking_lot::Mutex<Option<Duration>>>>,
    /// The factor of each module for its limit.
    factors: Vec<u32>,
}

impl Progress {
    fn start(factors: Vec<u32>) -> Self {
        let until = std::sync::Arc::new(parking_lot::Mutex::new(None::<Duration>));
        let looking = until.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(LOOK_EVERY);
                // The lock is held until the end, so that no other module is named.
                let until = looking.lock();
                if until.is_some_and(|until| until < used()) {
                    std::process::exit(SLOW);
                }
            }
        });
        Self { until: Some(until), factors }
    }

    fn at(&mut self, number: usize, limit: Duration) {
        if let Some(until) = &self.until {
            let mut until = until.lock();
            let used = used();
            write(&format!("{AT} {number} {}\n", used.as_micros()));
            *until = Some(used + limit * self.factors.get(number).copied().unwrap_or(1));
        }
    }

    fn read(&mut self) {
        if let Some(until) = &self.until {
            *until.lock() = None;
            write(&format!("{READ} {}\n", used().as_micros()));
        }
    }
}

/// The processor time that this process has used.
fn used() -> Duration {
    // Only a negative time has no duration.
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
        assert_eq!(processor(&[], &[]), Duration::from_secs(2));
        assert_eq!(processor(&vec![text(400); 2_000], &[]), Duration::from_secs(22));
        assert_eq!(processor(&vec![text(1 << 20); 40], &[]), Duration::from_secs(60));
        assert_eq!(reading(&text(400)), Duration::from_micros(501_525) + Duration::from_nanos(878));
        assert_eq!(reading(&text(1 << 20)), Duration::from_millis(4_500));
    }

    #[test]
    fn progress_names_the_module_that_is_read() {
        let of = |written: &'static str| {
            let Progressed { at, times, answer } = Progressed::of(written.as_bytes());
            let times =
                times.into_iter().map(|(number, time)| (number, time.as_micros())).collect::<Vec<_>>();
            (at, times, std::str::from_utf8(answer).unwrap())
        };
        assert_eq!(of(""), (None, vec![], ""));
        assert_eq!(of("at 7 100\nat 1 350\n"), (Some(1), vec![(7, 250)], ""));
        assert_eq!(of("at 0 100\nat 1 350\nread 400\n"), (None, vec![(0, 250), (1, 50)], ""));
        assert_eq!(of("at 0 100\nread 100\n{\"a\":1}\n"), (None, vec![(0, 0)], "{\"a\":1}\n"));
        assert_eq!(of("at 0 100\nat 1 3"), (Some(0), vec![], "at 1 3"));
    }
}
