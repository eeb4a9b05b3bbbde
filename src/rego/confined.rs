//! The check of a bundle in a process of its own, with limits: modules that end that process are rejected, and this process lives on.
//!
//! The process writes which module it reads before it reads it. So where it ends, the parent knows at which module, and has the modules
//! after that one read by themselves, to find all that end a check. Where none does, their sum is too large: see
//! [`settle`](super::settle).

mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::asked::{ADMISSION, PLACEMENT, Packages};
use super::evaluated_by::EvaluatedBy;
use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};
use super::secrets::{self, SecretReads};

pub use serving::{checked, serve};

/// The arguments of `policy-sync` that make it check what standard input brings.
pub const ARGUMENTS: [&str; 4] = ["rego", "check", "--confined", "-"];
/// What they are followed by where OPA is to evaluate what is checked.
const FOR_OPA: &str = "--for-opa";
/// The arguments that say which packages are asked.
const QUERIES: [(&str, &str); 2] = [(PLACEMENT, "--placement-query"), (ADMISSION, "--admit-query")];
/// How long it may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many modules of one object may end a check before its others are rejected unread.
const ENDS: usize = 4;

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No process can be started, or it cannot be spoken with.
    #[error("cannot run the check of Rego")]
    Process(#[source] std::io::Error),
    /// It says something else.
    #[error("cannot read what the check of Rego says")]
    Answer(#[source] serde_json::Error),
    /// It was ended from outside, or what was in order before ends it.
    #[error("the check of Rego ended: {0}")]
    Died(String),
}

/// Runs checks.
#[derive(Clone, Debug)]
pub struct Checker {
    program: PathBuf,
    evaluator: EvaluatedBy,
    packages: Packages,
    /// The names of Secrets.
    secrets: BTreeSet<String>,
    /// By lane, one at a time: what more would take together is more than a pod is given.
    turns: Arc<[Semaphore; 2]>,
}

/// What a check finds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// What is wrong.
    pub faults: Faults,
    /// The package of each module that parses.
    pub packages: BTreeMap<ModuleId, String>,
    /// The modules that do not parse.
    #[serde(default)]
    pub unread: BTreeSet<ModuleId>,
    /// Where they read the contents of Secrets; known where nothing is wrong.
    #[serde(default)]
    pub secrets: SecretReads,
    /// The modules that end the check, each by itself.
    #[serde(skip)]
    pub deadly: BTreeSet<ModuleId>,
    /// How the check ended, where all of them end it together, and none by itself.
    #[serde(skip)]
    pub died: Option<String>,
}

/// Checks texts, one bundle, somewhere.
pub type Check =
    Arc<dyn Fn(Vec<Text>, Lane) -> BoxFuture<'static, Result<Checked, CheckError>> + Send + Sync>;

/// Who needs a check. Checks of one lane run one after the other, and do not wait for those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The bundle that is to be in force.
    Load,
    /// A carrier that is about to be written.
    Write,
}

/// What the process is to check.
#[derive(Serialize, Deserialize)]
struct Request {
    texts: Vec<Text>,
    extent: Extent,
    /// The names of Secrets.
    secrets: BTreeSet<String>,
}

/// How much of it.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
enum Extent {
    /// All together, as one bundle.
    Bundle,
    /// Each by itself: whether it can be read.
    Each,
    /// Each by itself: whether it can be read and evaluated.
    EachEvaluated,
}

/// How a check ended.
enum End {
    Checked(Checked),
    /// How, and in which of the texts, where that is known.
    Died(String, Option<usize>),
}

impl Checker {
    /// One that runs this program again.
    ///
    /// # Errors
    ///
    /// Where it cannot be found.
    pub fn this_program() -> Result<Self, CheckError> {
        // Also where its file was replaced meanwhile.
        let itself = PathBuf::from("/proc/self/exe");
        let program =
            if itself.exists() { itself } else { std::env::current_exe().map_err(CheckError::Process)? };
        Ok(Self::running(program))
    }

    /// One that runs `program`, which is `policy-sync`.
    #[must_use]
    pub fn running(program: PathBuf) -> Self {
        let (evaluator, packages) = Default::default();
        let turns = Arc::new([Semaphore::new(1), Semaphore::new(1)]);
        let secrets = secrets::names(&BTreeMap::new());
        Self { program, evaluator, packages, secrets, turns }
    }

    /// The same where these packages are asked.
    #[must_use]
    pub fn asking(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// The same where Secrets have these [names](secrets::names).
    #[must_use]
    pub fn with_secrets(self, secrets: BTreeSet<String>) -> Self {
        Self { secrets, ..self }
    }

    /// The same for what `evaluator` is to evaluate.
    #[must_use]
    pub fn evaluated(self, evaluator: EvaluatedBy) -> Self {
        Self { evaluator, ..self }
    }

    /// Checks `texts`, one bundle. Where that ends the process, finds out which of them do so by themselves.
    ///
    /// # Errors
    ///
    /// Where the check cannot be made.
    pub async fn check(&self, texts: &[Text], lane: Lane) -> Result<Checked, CheckError> {
        let (how, at) = match self.run(texts, Extent::Bundle, lane).await? {
            End::Checked(checked) => return Ok(checked),
            End::Died(how, at) => (how, at),
        };
        let found = self.deadly(texts, at, lane).await?;
        let fault = |(id, how): (&ModuleId, &String)| Fault::new(id, None, how);
        let mut faults: Vec<Fault> = found.iter().map(fault).collect();
        let mut checked = Checked { deadly: found.into_keys().collect(), ..Checked::default() };
        if faults.is_empty() {
            let module = texts.last().map_or_else(|| ModuleId::new("bundle"), |text| text.id.clone());
            faults.push(Fault::new(&module, None, &how));
            checked.died = Some(how);
        }
        Ok(Checked { faults: Faults::new(faults), ..checked })
    }

    /// Which of `texts` end a check by themselves, and how, where all together ended in that one, or in none. Each costs a process, and
    /// those between them nothing but their reading.
    async fn deadly(
        &self,
        texts: &[Text],
        at: Option<usize>,
        lane: Lane,
    ) -> Result<BTreeMap<ModuleId, String>, CheckError> {
        let extent = if at.is_some() { Extent::Each } else { Extent::EachEvaluated };
        let (mut found, mut by_carrier) = (BTreeMap::new(), BTreeMap::<&str, usize>::new());
        let mut left: Vec<Text> = texts[at.unwrap_or_default()..].to_vec();
        while !left.is_empty() {
            let End::Died(how, Some(at)) = self.run(&left, extent, lane).await? else { break };
            let Some(died) = texts.iter().find(|text| text.id == left[at].id) else { break };
            found.insert(died.id.clone(), how);
            left.drain(..=at);
            let ends = by_carrier.entry(died.id.carrier()).or_default();
            *ends += 1;
            if *ends == ENDS {
                let carrier = died.id.carrier();
                let unread = left.iter().filter(|text| text.id.carrier() == carrier);
                let why = format!("not checked: {ENDS} other modules of {carrier} end the check");
                found.extend(unread.map(|text| (text.id.clone(), why.clone())));
                left.retain(|text| text.id.carrier() != carrier);
            }
        }
        Ok(found)
    }

    /// The same for whoever is not to know where.
    #[must_use]
    pub fn into_check(self) -> Check {
        Arc::new(move |texts, lane| {
            let checker = self.clone();
            async move { checker.check(&texts, lane).await }.boxed()
        })
    }

    async fn run(&self, texts: &[Text], extent: Extent, lane: Lane) -> Result<End, CheckError> {
        let request = Request { texts: texts.to_vec(), extent, secrets: self.secrets.clone() };
        let request = serde_json::to_vec(&request).map_err(CheckError::Answer)?;
        let _turn = self.turns[lane as usize].acquire().await;
        let mut child = Command::new(&self.program)
            .args(ARGUMENTS)
            .args((self.evaluator == EvaluatedBy::Opa).then_some(FOR_OPA))
            .args(QUERIES.map(|(what, argument)| format!("{argument}=data.{}", self.packages.of(what))))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(CheckError::Process)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that died meanwhile is told by its end.
            let _ = stdin.write_all(&request).await;
        }
        let Ok(output) = tokio::time::timeout(PATIENCE, child.wait_with_output()).await else {
            return Err(CheckError::Died(format!("no answer in {} s", PATIENCE.as_secs())));
        };
        let output = output.map_err(CheckError::Process)?;
        let (at, answer) = serving::progress(&output.stdout);
        let at = at.filter(|at| *at < texts.len());
        match died(output.status, texts, at)? {
            Some(how) => Ok(End::Died(how, at)),
            None => serde_json::from_slice(answer).map(End::Checked).map_err(CheckError::Answer),
        }
    }
}

/// How a process ended that was ended by what it checks, at which of `texts`: by its limits of time and memory, or by its stack.
fn died(status: ExitStatus, texts: &[Text], at: Option<usize>) -> Result<Option<String>, CheckError> {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    match (status.signal(), status.code()) {
        (Some(SIGXCPU), _) => Ok(Some(took_more_than(serving::processor(texts)))),
        (Some(signal @ (SIGABRT | SIGBUS | SIGSEGV)), _) => {
            Ok(Some(format!("the check ended by signal {signal}")))
        }
        // The kernel, short of memory, or somebody: no word about the text.
        (Some(signal), _) => Err(CheckError::Died(format!("by signal {signal}"))),
        (None, Some(0)) => Ok(None),
        (None, Some(serving::SLOW)) => {
            Ok(Some(took_more_than(at.map_or(serving::READING, |at| serving::reading(&texts[at])))))
        }
        (None, code) => Ok(Some(format!("the check ended with exit code {}", code.unwrap_or_default()))),
    }
}

fn took_more_than(limit: Duration) -> String {
    format!("the check took more than {} s", limit.as_millis() as f64 / 1_000.0)
}
