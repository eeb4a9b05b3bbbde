//! The check of a bundle in a process of its own, with limits: what dies there is refused, and this process lives on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::asked::{ADMISSION, PLACEMENT, Packages};
use super::bundle;
use super::checking;
use super::evaluated_by::EvaluatedBy;
use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};

/// The arguments of `policy-sync` that make it check what standard input brings.
pub const ARGUMENTS: [&str; 4] = ["rego", "check", "--confined", "-"];
/// What they are followed by where OPA is to evaluate what is checked.
const FOR_OPA: &str = "--for-opa";
/// The arguments that say which packages are asked.
const QUERIES: [(&str, &str); 2] = [(PLACEMENT, "--placement-query"), (ADMISSION, "--admit-query")];
/// How much processor time a check may take, in seconds.
const PROCESSOR: u64 = 2;
/// How much memory it may take, in bytes of address space.
const MEMORY: u64 = 512 << 20;
/// How deep it may recurse, in bytes: half of what any thread has that parses later what was checked.
const STACK: usize = 1 << 20;
/// How long it may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

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
    /// One at a time: what two would take together is more than a pod is given.
    turn: Arc<Semaphore>,
}

/// What a check finds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// What is wrong.
    pub faults: Faults,
    /// The package of each module that parses.
    pub packages: BTreeMap<ModuleId, String>,
    /// The modules that end the check, each by itself.
    #[serde(skip)]
    pub deadly: BTreeSet<ModuleId>,
    /// How the check ended, where all of them end it together, and none by itself.
    #[serde(skip)]
    pub died: Option<String>,
}

/// Checks texts, one bundle, somewhere.
pub type Check = Arc<dyn Fn(Vec<Text>) -> BoxFuture<'static, Result<Checked, CheckError>> + Send + Sync>;

/// How a check ended.
enum End {
    Checked(Checked),
    Died(String),
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
        Self { program, evaluator, packages, turn: Arc::new(Semaphore::new(1)) }
    }

    /// The same where these packages are asked.
    #[must_use]
    pub fn asking(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// The same for what `evaluator` is to evaluate.
    #[must_use]
    pub fn evaluated(self, evaluator: EvaluatedBy) -> Self {
        Self { evaluator, ..self }
    }

    /// Checks `texts`, one bundle. Where that ends the process, each is checked by itself to find which does it.
    ///
    /// # Errors
    ///
    /// Where the check cannot be made.
    pub async fn check(&self, texts: &[Text]) -> Result<Checked, CheckError> {
        let died = match self.run(texts).await? {
            End::Checked(checked) => return Ok(checked),
            End::Died(how) => how,
        };
        let (mut faults, mut checked) = (Vec::new(), Checked::default());
        for text in texts.iter().filter(|_| texts.len() > 1) {
            match self.run(std::slice::from_ref(text)).await? {
                End::Died(how) => {
                    faults.push(Fault::new(&text.id, None, how));
                    checked.deadly.insert(text.id.clone());
                }
                End::Checked(alone) => checked.packages.extend(alone.packages),
            }
        }
        if let [text] = texts {
            checked.deadly.insert(text.id.clone());
            faults.push(Fault::new(&text.id, None, &died));
        }
        if faults.is_empty() {
            let module = texts.last().map_or_else(|| ModuleId::new("bundle"), |text| text.id.clone());
            faults.push(Fault::new(&module, None, &died));
            checked.died = Some(died);
        }
        Ok(Checked { faults: Faults::new(faults), ..checked })
    }

    /// The same for whoever is not to know where.
    #[must_use]
    pub fn into_check(self) -> Check {
        Arc::new(move |texts| {
            let checker = self.clone();
            async move { checker.check(&texts).await }.boxed()
        })
    }

    async fn run(&self, texts: &[Text]) -> Result<End, CheckError> {
        let request = serde_json::to_vec(texts).map_err(CheckError::Answer)?;
        let _turn = self.turn.acquire().await;
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
        match died(output.status)? {
            Some(how) => Ok(End::Died(how)),
            None => serde_json::from_slice(&output.stdout).map(End::Checked).map_err(CheckError::Answer),
        }
    }
}

/// How a process ended that what it checks has ended: by its limits of time and memory, or by its stack.
fn died(status: ExitStatus) -> Result<Option<String>, CheckError> {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    match (status.signal(), status.code()) {
        (Some(SIGXCPU), _) => Ok(Some(format!("the check took more than {PROCESSOR} s"))),
        (Some(signal @ (SIGABRT | SIGBUS | SIGSEGV)), _) => {
            Ok(Some(format!("the check ended by signal {signal}")))
        }
        // The kernel, short of memory, or somebody: no word about the text.
        (Some(signal), _) => Err(CheckError::Died(format!("by signal {signal}"))),
        (None, Some(0)) => Ok(None),
        (None, code) => Ok(Some(format!("the check ended with exit code {}", code.unwrap_or_default()))),
    }
}

/// The process that checks: reads what to check from standard input, and returns what it finds as JSON.
///
/// # Errors
///
/// Where limits cannot be set, or standard input has something else.
pub fn serve(evaluator: EvaluatedBy, packages: Packages) -> anyhow::Result<String> {
    let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
    // Beyond the second of them it is killed with a signal that says nothing of why.
    setrlimit(Resource::Cpu, Rlimit { current: Some(PROCESSOR), maximum: Some(2 * PROCESSOR) })?;
    setrlimit(Resource::As, limit(MEMORY))?;
    // No dump of memory for each text that ends it.
    setrlimit(Resource::Core, limit(0))?;
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let texts: Vec<Text> = serde_json::from_slice(&request)?;
    let thread = std::thread::Builder::new().stack_size(STACK);
    let checking = thread.spawn(move || checked(&texts, evaluator, &packages))?;
    let checked = checking.join().map_err(|_| anyhow::anyhow!("the check panicked"))?;
    Ok(serde_json::to_string(&checked)?)
}

/// Checks `texts`, one bundle, in this process. It may take minutes and all memory, and may end it.
#[must_use]
pub fn checked(texts: &[Text], evaluator: EvaluatedBy, packages: &Packages) -> Checked {
    let (modules, unread) = bundle::parsed(texts, packages);
    let packages = modules.iter().map(|module| (module.id().clone(), module.package())).collect();
    let faults = checking::checked(modules, unread, evaluator).err().unwrap_or_default();
    Checked { faults, packages, ..Checked::default() }
}
