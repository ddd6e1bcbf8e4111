//! The server: it echoes every line, and misuses its standard handles as a careless handler does.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the test misuses the standard handles")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{io::Read, pin::pin, process::Command};

use mcp_transport::{Transport, recv, signal::terminated, stdio::Stdio};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let stdio = Stdio::take().unwrap();
    assert!(Stdio::take().is_err(), "taken twice");
    let mut transport = stdio.into_transport().unwrap();
    let sender = transport.sender();
    let mut terminated = pin!(terminated());
    eprintln!("ready");
    loop {
        let next = tokio::select! {
            next = recv(&mut transport) => next,
            () = &mut terminated => {
                // The read stays parked while `main` returns.
                eprintln!("terminated");
                return;
            }
        };
        let Some(frame) = next else { break };
        println!("noise of a handler");
        let mut stolen = String::new();
        std::io::stdin().read_to_string(&mut stolen).unwrap();
        assert_eq!(stolen, "", "a handler reads nothing of the channel");
        let status = Command::new("sh").args(["-c", "echo noise of a child; cat"]).status().unwrap();
        assert!(status.success());
        sender.send(frame.unwrap()).await.unwrap();
    }
    match sender.shutdown().await {
        Ok(()) => eprintln!("end of input"),
        Err(_) => eprintln!("output closed"),
    }
}
