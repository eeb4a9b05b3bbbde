//! The check of a bundle in a process of its own, with limits: what dies there is refused, and this process lives on.

use std::io::Read;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::bundle::Bundle;
use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};

/// The arguments of `policy-sync` that make it check what standard input brings.
pub const ARGUMENTS: [&str; 4] = ["rego", "check", "--confined", "-"];
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
}

/// Runs checks.
#[derive(Clone, Debug)]
pub struct Checker {
    program: PathBuf,
}

/// How a check ended.
enum End {
    Checked(Faults),
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
        Ok(Self { program })
    }

    /// Checks `texts`, one bundle. Where that ends the process, each is checked by itself to find which does it.
    ///
    /// # Errors
    ///
    /// Where the check cannot be made.
    pub async fn check(&self, texts: &[Text]) -> Result<Faults, CheckError> {
        let died = match self.run(texts).await? {
            End::Checked(faults) => return Ok(faults),
            End::Died(how) => how,
        };
        let mut faults = Vec::new();
        for text in texts.iter().filter(|_| texts.len() > 1) {
            if let End::Died(how) = self.run(std::slice::from_ref(text)).await? {
                faults.push(Fault::new(&text.id, None, how));
            }
        }
        if faults.is_empty() {
            let module = texts.last().map_or_else(|| ModuleId::new("bundle"), |text| text.id.clone());
            faults.push(Fault::new(&module, None, died));
        }
        Ok(Faults::new(faults))
    }

    async fn run(&self, texts: &[Text]) -> Result<End, CheckError> {
        let request = serde_json::to_vec(texts).map_err(CheckError::Answer)?;
        let mut child = Command::new(&self.program)
            .args(ARGUMENTS)
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
            return Ok(End::Died(format!("the check took more than {} s", PATIENCE.as_secs())));
        };
        let output = output.map_err(CheckError::Process)?;
        match died(output.status) {
            Some(how) => Ok(End::Died(how)),
            None => serde_json::from_slice(&output.stdout).map(End::Checked).map_err(CheckError::Answer),
        }
    }
}

/// How a process ended that did not end by itself.
fn died(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    const SIGXCPU: i32 = 24;
    match (status.signal(), status.code()) {
        (Some(SIGXCPU), _) => Some(format!("the check took more than {PROCESSOR} s")),
        (Some(signal), _) => Some(format!("the check ended by signal {signal}")),
        (None, Some(0)) => None,
        (None, code) => Some(format!("the check ended with exit code {}", code.unwrap_or_default())),
    }
}

/// The process that checks: reads what to check from standard input, and returns its faults as JSON.
///
/// # Errors
///
/// Where limits cannot be set, or standard input has something else.
pub fn serve() -> anyhow::Result<String> {
    let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
    // Beyond the second of them it is killed with a signal that says nothing of why.
    setrlimit(Resource::Cpu, Rlimit { current: Some(PROCESSOR), maximum: Some(2 * PROCESSOR) })?;
    setrlimit(Resource::As, limit(MEMORY))?;
    // No dump of memory for each text that ends it.
    setrlimit(Resource::Core, limit(0))?;
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let texts: Vec<Text> = serde_json::from_slice(&request)?;
    let check = move || Bundle::checked(&texts).err().unwrap_or_default();
    let checking = std::thread::Builder::new().stack_size(STACK).spawn(check)?;
    let faults = checking.join().map_err(|_| anyhow::anyhow!("the check panicked"))?;
    Ok(serde_json::to_string(&faults)?)
}
