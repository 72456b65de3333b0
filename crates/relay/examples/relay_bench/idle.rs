//! Idle sessions: as many as are asked for, all open at the same time. Where a process may have fewer files
//! open than they need, they are spread over several relays of the same kind, each with both its ends in
//! another process.
use crate::load::{Servers, set_up};
use crate::relays::{self, Candidate, Running};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The most idle sessions that any relay of these can have in one process: each takes two sockets, HAProxy wants
/// some more for pipes, and one port has no more than some 28,000 connections from one address.
pub fn most_of_a_process() -> usize {
    (relays::open_files().saturating_sub(1_500) / 3).min(20_000)
}

/// KiB of user memory of one of this many idle sessions.
pub fn idle(candidate: &Candidate, count: usize) -> io::Result<Option<f64>> {
    let parts = count.div_ceil(most_of_a_process());
    let mut children = Vec::new();
    for part in 0..parts {
        let share = count / parts + usize::from(part < count % parts);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["idle", &candidate.asked, &share.to_string()]);
        children.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    let (mut sessions, mut memory) = (0, 0);
    for child in &mut children {
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        sessions += words.next().unwrap_or(0);
        memory += words.next().unwrap_or(0);
    }
    // All of them are there now, and end when their input does.
    for mut child in children {
        drop(child.stdin.take());
        child.wait()?;
    }
    println!("{}: {sessions} idle sessions at the same time, {parts} processes", candidate.name);
    Ok((sessions > 0).then(|| memory as f64 / sessions as f64))
}

/// One relay with its share, in a process of its own: says how many sessions there are, and of how many KiB.
pub fn share(asked: &str, count: &str) -> io::Result<()> {
    let count = count.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let servers = Servers::start_keeping(count)?;
    let candidates = relays::candidates(&[asked]);
    let candidate = candidates.first().ok_or(io::ErrorKind::InvalidInput)?;
    let relay = Running::start(candidate, &servers)?.ok_or(io::ErrorKind::NotFound)?;
    let before = relay.memory();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        match set_up(&relay.idle) {
            Ok(socket) => held.push(socket),
            Err(error) => {
                eprintln!("no more than {} idle sessions: {error}", held.len());
                break;
            }
        }
    }
    // Until the relay has connected the last of them.
    thread::sleep(Duration::from_secs(1));
    println!("{} {}", held.len(), relay.memory().saturating_sub(before));
    io::stdout().flush()?;
    io::stdin().read_line(&mut String::new()).map(drop)
}
