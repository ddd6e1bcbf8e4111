//! A Secret Service of freedesktop.org on a session bus of its own, for tests of programs that use the keyring of Linux.
//!
//! The service has one collection, keeps the entries in memory, and asks no user. The address of its bus is the value of the
//! variable `DBUS_SESSION_BUS_ADDRESS` of a program under test:
//!
//! ```
//! use mcp_test::secret_service::SecretService;
//!
//! let service = SecretService::start()?;
//! service.insert([("service", "my-app")], "hunter2");
//! let mut program = std::process::Command::new("my-app");
//! program.env("DBUS_SESSION_BUS_ADDRESS", service.address());
//! assert_eq!(service.secrets(), ["hunter2"]);
//! # Ok::<_, std::io::Error>(())
//! ```

mod calls;
mod state;

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{net::UnixListener, sync::oneshot};

use self::state::State;

/// The number of services of this process.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A running Secret Service. Its drop closes the bus.
pub struct SecretService {
    address: String,
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    thread: Option<(oneshot::Sender<()>, thread::JoinHandle<()>)>,
}

impl SecretService {
    /// Starts a service on a thread of its own. Its collection is unlocked and empty.
    ///
    /// # Errors
    /// If the socket of the bus cannot be created.
    pub fn start() -> io::Result<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("mcp-test-bus-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let path = dir.join("bus");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(&path)?
        };
        let state = Arc::new(Mutex::new(State::default()));
        let (end, ended) = oneshot::channel();
        let serving = Arc::clone(&state);
        let thread = thread::Builder::new().name("mcp-test-secret-service".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = calls::serve(listener, serving) => {}
                    _ = ended => {}
                }
            });
            runtime.shutdown_background();
        })?;
        let address = format!("unix:path={}", path.display());
        Ok(Self { address, dir, state, thread: Some((end, thread)) })
    }

    /// Returns the address of the bus.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Adds an entry.
    pub fn insert<'a>(&self, attributes: impl IntoIterator<Item = (&'a str, &'a str)>, secret: &str) {
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.state.lock().insert(attributes, secret.as_bytes().to_vec());
    }

    /// Returns the secrets of all entries, in the order of their creation.
    pub fn secrets(&self) -> Vec<String> {
        self.state.lock().entries.iter().map(|entry| String::from_utf8_lossy(&entry.secret).into_owned()).collect()
    }

    /// Returns the number of prompts that were shown.
    pub fn prompts(&self) -> usize {
        self.state.lock().prompts
    }

    /// Locks the collection. A prompt unlocks it.
    pub fn lock(&self) {
        self.state.lock().is_locked = true;
    }

    /// Sets whether the service hides the entries of a locked collection, as KeePassXC does. By default it lists them.
    pub fn hide_locked_entries(&self, hides: bool) {
        self.state.lock().hides_locked = hides;
    }

    /// Sets whether the user dismisses each prompt. By default the user follows it.
    pub fn dismiss_prompts(&self, dismisses: bool) {
        self.state.lock().dismisses = dismisses;
    }

    /// Sets whether the user leaves each prompt open.
    pub fn ignore_prompts(&self, ignores: bool) {
        self.state.lock().ignores = ignores;
    }

    /// Sets the time that a search takes.
    pub fn delay_searches(&self, delay: Duration) {
        self.state.lock().search_delay = delay;
    }

    /// Ends the service. The bus remains, and reports that no program provides the service.
    pub fn stop_service(&self) {
        self.state.lock().is_stopped = true;
    }
}

impl Drop for SecretService {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl fmt::Debug for SecretService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretService").field("address", &self.address).finish_non_exhaustive()
    }
}
