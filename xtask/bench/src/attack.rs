//! Clients that guess passwords beside the load.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    auth::Credential,
    case::{Call, Revision, Template},
    error::Error,
    http::Connection,
};

/// The connections of the clients. The server checks a bounded number of passwords at once, so most requests wait or receive 503.
const CONNECTIONS: usize = 100;
const TICK: Duration = Duration::from_millis(1);

/// Sends wrong passwords at a constant rate until it is dropped. Each password has another user name.
pub(crate) struct Attack {
    tasks: JoinSet<Result<(), Error>>,
    sent: Arc<AtomicU64>,
}

impl Attack {
    pub(crate) async fn start(address: SocketAddr, per_second: u32) -> Result<Self, Error> {
        let (due, sent) = (Arc::new(Semaphore::new(0)), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for lane in 0..CONNECTIONS {
            let mut connection = Connection::open(address).await?;
            let (due, sent) = (Arc::clone(&due), Arc::clone(&sent));
            tasks.spawn(async move {
                for number in 0_u64.. {
                    due.acquire().await.map_err(|_| Error::new("the attack ended"))?.forget();
                    sent.fetch_add(1, Ordering::Relaxed);
                    let wrong = Credential::basic(&format!("user-{lane}"), &format!("guess-{number}"));
                    let host = address.to_string();
                    let mut request = Template::http(Call::Echo, Revision::Stateless, &host, None, Some(&wrong))?;
                    let status = connection.call(request.next()?.0, false).await?.status();
                    if !matches!(status, 401 | 503) {
                        return Err(Error::new(format!("a wrong password was answered with {status}")));
                    }
                }
                Ok(())
            });
        }
        tasks.spawn(async move {
            let (mut ticks, mut open) = (interval(TICK), 0.0);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                ticks.tick().await;
                open += f64::from(per_second) * TICK.as_secs_f64();
                while open >= 1.0 {
                    due.add_permits(1);
                    open -= 1.0;
                }
            }
        });
        Ok(Self { tasks, sent })
    }

    /// Ends the attack, and returns the number of passwords that it sent.
    pub(crate) fn end(mut self) -> Result<u64, Error> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        Ok(self.sent.load(Ordering::Relaxed))
    }
}
