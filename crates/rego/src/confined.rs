//! Checks a bundle in a separate process with limits. Modules that end that process are rejected; the controller keeps
//! running.
//!
//! The process writes the number of each module before it parses the module. If the process ends early, the last
//! number identifies the module. To find all modules that end a check, the parent starts further processes, which
//! parse that module and all later ones separately. If that module exceeded its own time limit, it is not parsed again:
//! the result would be the same. If the process ended only during the evaluation, the further processes parse and
//! evaluate each module separately.
//!
//! If no module ends the check alone, the modules are too large together: see [`selection`](super::selection).

mod serving;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::engine::EngineKind;
use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};
use super::queries::{ADMISSION, PLACEMENT, QueriedPackages};
use super::secrets::{self, SecretReads};

use serving::ProcessOutput;
pub use serving::{MEMORY_LIMIT, checked, serve};

/// The arguments with which `policy-sync` checks a bundle from standard input.
pub const ARGUMENTS: [&str; 4] = ["rego", "check", "--confined", "-"];
/// The argument that is added to [`ARGUMENTS`] if OPA evaluates the modules.
const FOR_OPA_FLAG: &str = "--for-opa";
/// The flags for the names of the queried packages, by the purpose of the package.
const QUERY_FLAGS: [(&str, &str); 2] = [(PLACEMENT, "--placement-query"), (ADMISSION, "--admit-query")];
/// The wall-clock limit of one check. It is above the limits of processor time, because the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(120);
/// If this number of modules in one object end a check, the remaining modules of the object are rejected unread.
const MAX_CRASHES_PER_OBJECT: usize = 4;
/// If this number of modules in all objects end one check, the remaining modules are left for a later check.
const MAX_CRASHES: usize = 8;
/// The signal that ends a process which exceeds its limit of processor time.
const SIGXCPU: i32 = 24;

/// The check did not complete.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The process cannot start, or its pipes fail.
    #[error("cannot run the Rego check")]
    Process(#[source] std::io::Error),
    /// The request or the result is not valid JSON.
    #[error("cannot parse the result of the Rego check")]
    Json(#[source] serde_json::Error),
    /// The process was ended from outside, or by modules that have passed an earlier check.
    #[error("the Rego check ended: {0}")]
    Terminated(String),
}

/// Runs checks in separate processes.
#[derive(Clone, Debug)]
pub struct Checker {
    program: PathBuf,
    evaluator: EngineKind,
    packages: QueriedPackages,
    /// The names under which modules read Secrets.
    secrets: BTreeSet<String>,
    /// One semaphore for each [lane](Lane). Each semaphore admits one check, because a pod has no memory for more.
    semaphores: Arc<[Semaphore; 2]>,
    /// The last checks of [`Lane::Load`] that found no fault.
    passed: Arc<Mutex<VecDeque<PassedCheck>>>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckResult {
    /// The faults of the modules.
    pub faults: Faults,
    /// The package of each module that parses.
    pub packages: BTreeMap<ModuleId, String>,
    /// The modules that do not parse.
    #[serde(default)]
    pub unread: BTreeSet<ModuleId>,
    /// The places where the modules read the contents of Secrets. Set only if there are no faults.
    #[serde(default)]
    pub secrets: SecretReads,
    /// The modules that end the check process alone, each with its fault.
    #[serde(skip)]
    pub crashing: BTreeMap<ModuleId, Fault>,
    /// The modules that were not read because other modules of their object ended the check process, each with its
    /// fault.
    #[serde(skip)]
    pub skipped: BTreeMap<ModuleId, Fault>,
    /// The modules that were not read, because too many other modules ended the check process.
    #[serde(skip)]
    pub postponed: BTreeSet<ModuleId>,
    /// The processor time for each module that was read. Set only if reading the modules exceeded the time limit for
    /// the whole bundle.
    #[serde(skip)]
    pub times: BTreeMap<ModuleId, Duration>,
    /// How the process ended, if the modules end it only in combination.
    #[serde(skip)]
    pub termination: Option<String>,
}

impl CheckResult {
    /// The fault of module `id`, if the module ends the check process. Also the fault of a module that was not read,
    /// because other modules of its object end the process.
    #[must_use]
    pub fn fatal(&self, id: &ModuleId) -> Option<&Fault> {
        self.crashing.get(id).or_else(|| self.skipped.get(id))
    }
}

/// The number of check results that are stored for reuse.
const CACHED_RESULTS: usize = 2;
/// The factor of the time limits for texts that have passed an earlier check. The same check needs more time on a busy
/// machine, and slow checks of valid texts must not prevent new texts from being loaded.
const PASSED_FACTOR: u32 = 4;
/// The factor of the time limits for texts in [`Lane::Load`] that have not passed a check yet. A bundle of texts with
/// different factors also gets this factor.
const LOAD_FACTOR: u32 = 2;

/// Texts without a fault, and the result of their check.
type PassedCheck = (Vec<Text>, CheckResult);

/// Checks texts as one bundle.
pub type CheckFn =
    Arc<dyn Fn(Vec<Text>, Lane) -> BoxFuture<'static, Result<CheckResult, CheckError>> + Send + Sync>;

/// The purpose of a check. Checks of one lane run one after the other and do not wait for the other lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The bundle to load.
    Load,
    /// The modules of an object that a client is writing.
    Write,
}

/// The input of the check process.
#[derive(Serialize, Deserialize)]
struct Request {
    texts: Vec<Text>,
    /// The factor by which the time limits of each text are multiplied.
    factors: Vec<u32>,
    extent: Extent,
    /// The names under which modules read Secrets.
    secrets: BTreeSet<String>,
}

/// The steps that the check process runs.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
enum Extent {
    /// Checks all texts together, as one bundle.
    Bundle,
    /// Parses each text separately.
    Each,
    /// Parses and evaluates each text separately.
    EachEvaluated,
}

/// How a check ended.
enum ProcessOutcome {
    Completed(CheckResult),
    Terminated(Termination),
}

/// An early end of the check process.
struct Termination {
    /// The cause of the end, for messages.
    cause: String,
    /// The index of the text that was being read, if any.
    at: Option<usize>,
    /// The processor time for each text that was read completely, by its index.
    times: BTreeMap<usize, Duration>,
    /// Whether the text `at` exceeded its own time limit, which does not depend on other texts.
    exceeded_own_limit: bool,
    /// Whether the texts together exceeded the limit of processor time while they were read. Each text that was read
    /// until then was within its own limit.
    exceeded_total_limit: bool,
}

impl Checker {
    /// Creates a checker that runs the current program.
    ///
    /// # Errors
    ///
    /// When the program file cannot be found.
    pub fn this_program() -> Result<Self, CheckError> {
        // This path works even after the program file is replaced.
        let itself = PathBuf::from("/proc/self/exe");
        let program =
            if itself.exists() { itself } else { std::env::current_exe().map_err(CheckError::Process)? };
        Ok(Self::new(program))
    }

    /// Creates a checker that runs `program`, a `policy-sync` binary.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        let (evaluator, packages) = Default::default();
        let semaphores = Arc::new([Semaphore::new(1), Semaphore::new(1)]);
        let secrets = secrets::names(&BTreeMap::new());
        Self { program, evaluator, packages, secrets, semaphores, passed: Arc::default() }
    }

    /// Sets the queried packages.
    #[must_use]
    pub fn with_packages(self, packages: QueriedPackages) -> Self {
        Self { packages, ..self }
    }

    /// Sets the [names](secrets::names) under which modules read Secrets.
    #[must_use]
    pub fn with_secrets(self, secrets: BTreeSet<String>) -> Self {
        Self { secrets, ..self }
    }

    /// Sets the evaluator of the checked modules.
    #[must_use]
    pub fn with_evaluator(self, evaluator: EngineKind) -> Self {
        Self { evaluator, ..self }
    }

    /// Checks `texts` as one bundle. If the process ends early, finds the modules that end it alone.
    ///
    /// # Errors
    ///
    /// When the check cannot run.
    pub async fn check(&self, texts: &[Text], lane: Lane) -> Result<CheckResult, CheckError> {
        let termination = match self.run(texts, Extent::Bundle, lane).await? {
            ProcessOutcome::Completed(checked) => return Ok(checked),
            ProcessOutcome::Terminated(termination) => termination,
        };
        let cause = termination.cause.clone();
        let mut checked = if termination.exceeded_total_limit {
            let time = |(number, time): (&usize, &Duration)| Some((texts.get(*number)?.id.clone(), *time));
            CheckResult {
                times: termination.times.iter().filter_map(time).collect(),
                ..CheckResult::default()
            }
        } else {
            self.find_crashing(texts, termination, lane).await?
        };
        let mut faults: Vec<Fault> =
            checked.crashing.values().chain(checked.skipped.values()).cloned().collect();
        if faults.is_empty() {
            let module = texts.last().map_or_else(|| ModuleId::new("bundle"), |text| text.id.clone());
            faults.push(Fault::new(&module, None, &cause));
            checked.termination = Some(cause);
        }
        Ok(CheckResult { faults: Faults::new(faults), ..checked })
    }

    /// Finds the texts that end a check alone. `first` describes how the check of all texts ended. Each text in the
    /// result costs one process.
    async fn find_crashing(
        &self,
        texts: &[Text],
        first: Termination,
        lane: Lane,
    ) -> Result<CheckResult, CheckError> {
        let extent = if first.at.is_some() { Extent::Each } else { Extent::EachEvaluated };
        let (mut found, mut by_carrier) = (CheckResult::default(), BTreeMap::<&str, usize>::new());
        let mut left: Vec<Text> = first.at.map(|at| texts[at].clone()).into_iter().collect();
        let is_left = |number: &usize| first.at.is_none() || !first.times.contains_key(number);
        left.extend(
            (0..texts.len())
                .filter(|number| is_left(number) && Some(*number) != first.at)
                .map(|number| texts[number].clone()),
        );
        // The text at which `first` ended is the first of `left`.
        let mut known = first.exceeded_own_limit.then_some(Termination { at: Some(0), ..first });
        while !left.is_empty() {
            let termination = match known.take() {
                Some(termination) => termination,
                None => match self.run(&left, extent, lane).await? {
                    ProcessOutcome::Terminated(termination) => termination,
                    ProcessOutcome::Completed(_) => break,
                },
            };
            if termination.exceeded_total_limit {
                // The remaining texts take too long for one process.
                found.postponed = left.into_iter().map(|text| text.id).collect();
                break;
            }
            let Some(at) = termination.at else { break };
            let Some(culprit) = texts.iter().find(|text| text.id == left[at].id) else { break };
            found.crashing.insert(culprit.id.clone(), Fault::new(&culprit.id, None, termination.cause));
            left.drain(..=at);
            let ends = by_carrier.entry(culprit.id.carrier()).or_default();
            *ends += 1;
            if *ends == MAX_CRASHES_PER_OBJECT {
                let carrier = culprit.id.carrier();
                let unread = left.iter().filter(|text| text.id.carrier() == carrier);
                let why = format!(
                    "not checked: {MAX_CRASHES_PER_OBJECT} other modules of {carrier} crash the check"
                );
                found.skipped.extend(unread.map(|text| (text.id.clone(), Fault::new(&text.id, None, &why))));
                left.retain(|text| text.id.carrier() != carrier);
            }
            if found.crashing.len() == MAX_CRASHES {
                found.postponed = left.into_iter().map(|text| text.id).collect();
                break;
            }
            // Texts that are likely to end the check come last, because the search may stop before it reads all texts.
            // These are texts of objects in which another text ended the check, and texts with deeply nested brackets.
            // The engine's time for a text grows exponentially with the depth of brackets.
            left.sort_by_cached_key(|text| (by_carrier.contains_key(text.id.carrier()), depth(&text.text)));
        }
        Ok(found)
    }

    /// Converts the checker to a function. The function stores results without a fault, and returns the stored result
    /// if it gets the same texts again. The loader checks two bundles: all modules, and only the modules whose kinds
    /// have been listed. Once all kinds are listed, the loader checks the first bundle again.
    #[must_use]
    pub fn into_check(self) -> CheckFn {
        Arc::new(move |texts, lane| {
            let checker = self.clone();
            async move {
                if let Some((_, checked)) = checker.passed.lock().iter().find(|(passed, _)| *passed == texts)
                {
                    return Ok(checked.clone());
                }
                let checked = checker.check(&texts, lane).await?;
                if lane == Lane::Load && checked.faults.is_empty() {
                    let mut passed = checker.passed.lock();
                    passed.push_front((texts, checked.clone()));
                    passed.truncate(CACHED_RESULTS);
                }
                Ok(checked)
            }
            .boxed()
        })
    }

    /// The factors by which the time limits of `texts` are multiplied.
    fn factors(&self, texts: &[Text], lane: Lane) -> Vec<u32> {
        let passed = self.passed.lock();
        let passed: HashSet<&Text> = passed.iter().flat_map(|(texts, _)| texts).collect();
        let other = if lane == Lane::Load { LOAD_FACTOR } else { 1 };
        texts.iter().map(|text| if passed.contains(text) { PASSED_FACTOR } else { other }).collect()
    }

    async fn run(&self, texts: &[Text], extent: Extent, lane: Lane) -> Result<ProcessOutcome, CheckError> {
        let factors = self.factors(texts, lane);
        let secrets = self.secrets.clone();
        let request = Request { texts: texts.to_vec(), factors: factors.clone(), extent, secrets };
        let request = serde_json::to_vec(&request).map_err(CheckError::Json)?;
        let _permit = self.semaphores[lane as usize].acquire().await;
        let mut child = Command::new(&self.program)
            .args(ARGUMENTS)
            .args((self.evaluator == EngineKind::Opa).then_some(FOR_OPA_FLAG))
            .args(QUERY_FLAGS.map(|(what, argument)| format!("{argument}=data.{}", self.packages.of(what))))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(CheckError::Process)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If the process has ended, its exit status shows the cause.
            let _ = stdin.write_all(&request).await;
        }
        let Ok(output) = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await else {
            return Err(CheckError::Terminated(format!("no response within {} s", TIMEOUT.as_secs())));
        };
        let output = output.map_err(CheckError::Process)?;
        let ProcessOutput { at, times, result } = ProcessOutput::of(&output.stdout);
        let at = at.filter(|at| *at < texts.len());
        match termination_cause(output.status, texts, &factors, at)? {
            Some(cause) => {
                let exceeded_own_limit =
                    at.is_some() && output.status.code() == Some(serving::TIME_LIMIT_EXIT_CODE);
                // After the process has read all texts of a bundle, it evaluates the bundle. In an evaluation, a single
                // text can take all of the time.
                let is_read = at.is_some() || extent != Extent::Bundle;
                let exceeded_total_limit = output.status.signal() == Some(SIGXCPU) && is_read;
                Ok(ProcessOutcome::Terminated(Termination {
                    cause,
                    at,
                    times,
                    exceeded_own_limit,
                    exceeded_total_limit,
                }))
            }
            None => serde_json::from_slice(result).map(ProcessOutcome::Completed).map_err(CheckError::Json),
        }
    }
}

/// The nesting depth of the brackets of `text`, except in comments and strings.
fn depth(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'#' | b'`' => {
                let end = if byte == b'#' { b'\n' } else { byte };
                let _ = bytes.by_ref().find(|byte| *byte == end);
            }
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => {
                            let _ = bytes.next();
                        }
                        b'"' | b'\n' => break,
                        _ => {}
                    }
                }
            }
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Describes how a process ended because of its input: by a limit of time or memory, or by a stack overflow. `at` is
/// the index in `texts` of the module that was being parsed.
fn termination_cause(
    status: ExitStatus,
    texts: &[Text],
    factors: &[u32],
    at: Option<usize>,
) -> Result<Option<String>, CheckError> {
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    match (status.signal(), status.code()) {
        (Some(SIGXCPU), _) => Ok(Some(time_limit_message(serving::bundle_time_limit(texts, factors)))),
        (Some(signal @ (SIGABRT | SIGBUS | SIGSEGV)), _) => {
            Ok(Some(format!("the check ended by signal {signal}")))
        }
        // The kernel or an operator killed the process, so the text may be valid.
        (Some(signal), _) => Err(CheckError::Terminated(format!("by signal {signal}"))),
        (None, Some(0)) => Ok(None),
        (None, Some(serving::TIME_LIMIT_EXIT_CODE)) => {
            let limit = |at: usize| serving::module_time_limit(&texts[at]) * factors[at];
            Ok(Some(time_limit_message(at.map_or(serving::MODULE_READ_TIME, limit))))
        }
        (None, code) => Ok(Some(format!("the check ended with exit code {}", code.unwrap_or_default()))),
    }
}

fn time_limit_message(limit: Duration) -> String {
    format!("the check took more than {} s", limit.as_millis() as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_passed_before_have_more_time_than_texts_of_a_write() {
        let text = |id: &str| Text { id: ModuleId::new(id), text: "package a".into() };
        let (old, new) = (text("old"), text("new"));
        let checker = Checker::new(PathBuf::new());
        checker.passed.lock().push_front((vec![old.clone()], CheckResult::default()));
        let changed = Text { text: "package b".into(), ..old.clone() };
        let texts = [old.clone(), changed, new];
        assert_eq!(checker.factors(&texts, Lane::Write), [4, 1, 1]);
        assert_eq!(checker.factors(&texts, Lane::Load), [4, 2, 2]);
        assert_eq!(serving::bundle_time_limit(&texts, &[1, 1, 1]), Duration::from_secs(2));
        assert_eq!(serving::bundle_time_limit(&texts, &[4, 1, 1]), Duration::from_secs(4), "as for the load");
        assert_eq!(serving::bundle_time_limit(&texts, &[4, 2, 2]), Duration::from_secs(4));
        assert_eq!(serving::bundle_time_limit(&[old], &[4]), Duration::from_secs(8));
    }

    #[test]
    fn depth_is_that_of_the_innermost_bracket() {
        assert_eq!(depth("package a"), 0);
        assert_eq!(depth("p = [{(1)}, [2]]"), 3);
        assert_eq!(depth("]]] p = [1]"), 1);
        assert_eq!(depth("p = [ # ]\n[ # ]\n[1]]]"), 3);
        assert_eq!(depth("p = [\"]\\\"]\", `]`, [1]]"), 2);
    }
}
