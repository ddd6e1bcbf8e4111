//! The machine of a measurement.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::busy::busy;
use crate::process;

const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// The machine of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) system: String,
    pub(super) rust: String,
    /// The load average of the minute before the run.
    pub(super) load: f64,
    /// The busy cores before the calls, after the builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) busy_before_calls: Option<f64>,
}

/// The load average of the last minute. It is zero if the system has none.
pub(super) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

/// The number of cores that were busy during an interval. It is zero if the system does not count the time of its cores.
pub(super) fn busy_cores(interval: Duration) -> f64 {
    let times = || busy(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default();
    let (before, start) = (times(), Instant::now());
    std::thread::sleep(interval);
    times().saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64()
}

impl Machine {
    /// Reads the properties of this machine, which has a load average.
    pub(super) fn read(root: &Path, load: f64) -> Self {
        // The builds ignore `RUSTC` too.
        let mut compiler = Command::new("rustc");
        let rust = process::capture(compiler.arg("--version").current_dir(root), VERSION_LIMIT);
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            rust: rust
                .map_or_else(|_| "unknown".to_owned(), |captured| captured.stdout.trim().replace("rustc ", "Rust ")),
            load,
            busy_before_calls: None,
        }
    }
}
