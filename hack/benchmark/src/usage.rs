//! Memory and processor time of a process, from `/proc` on Linux.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks per second in `/proc`: 100 on every Linux, independent of the kernel's timer frequency.
const TICKS: f64 = 100.0;
const KIB_A_MIB: f64 = 1024.0;

/// The memory of a process, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    /// Current resident memory.
    pub(super) resident: f64,
    /// Peak of resident memory.
    pub(super) peak: f64,
}

impl Memory {
    /// The memory of the process `pid`.
    pub(super) fn of_process(pid: u32) -> Result<Self> {
        Self::parse(&read(pid, "status")?)
    }

    /// Resets the peak of the process `pid`.
    pub(super) fn reset_peak(pid: u32) -> Result<()> {
        let path = format!("/proc/{pid}/clear_refs");
        fs::write(&path, "5").with_context(|| format!("writing {path}, which requires Linux"))
    }

    fn parse(status: &str) -> Result<Self> {
        let mib = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).context("a line is missing")?;
            let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
            kib.parse::<f64>().map(|kib| kib / KIB_A_MIB).with_context(|| format!("{name}{line}"))
        };
        Ok(Self { resident: mib("VmRSS")?, peak: mib("VmHWM")? })
    }
}

/// The processor time that the process `pid` has used so far.
pub(super) fn processor_time(pid: u32) -> Result<Duration> {
    parse_time(&read(pid, "stat")?)
}

fn parse_time(stat: &str) -> Result<Duration> {
    // The program's name is in parentheses and may contain spaces, so the fields are counted from the closing
    // parenthesis.
    let (_, fields) = stat.rsplit_once(") ").context("no closing parenthesis")?;
    let ticks: f64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().context("a field is not a number"))
        .sum::<Result<f64>>()?;
    Ok(Duration::from_secs_f64(ticks / TICKS))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("reading {path}, which requires Linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_mebibytes() {
        let status = "Name:\tpolicy-sync\nVmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\n";
        assert_eq!(Memory::parse(status).unwrap(), Memory { resident: 1.5, peak: 2.0 });
        assert!(Memory::parse("Name:\tpolicy-sync\n").is_err());
    }

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        let stat = "7 (policy) sync) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 5 0 100";
        assert_eq!(parse_time(stat).unwrap(), Duration::from_secs(2));
    }

    #[test]
    fn own_process_has_memory_and_processor_time() {
        let pid = std::process::id();
        let memory = Memory::of_process(pid).unwrap();
        assert!(memory.resident > 0.0 && memory.peak >= memory.resident, "{memory:?}");
        processor_time(pid).unwrap();
    }
}
