//! Requests to servers of a few lines, and memory that is written or not.
#![allow(unsafe_code)] // `Landing::new` is promised memory; each test keeps the vector that it gives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::client::Client;
use super::runner::start;
use super::{Job, Landing, Outcome, Part, Place, Runner};

mod answers;
mod connections;
mod heads;
mod large;

const PATIENCE: Duration = Duration::from_secs(20);

/// A landing for requests, each with its places.
fn landing(out: &mut [u8], requests: &[&[Place]]) -> Option<Arc<Landing>> {
    let mut first = vec![0];
    for places in requests {
        first.push(first[first.len() - 1] + places.len());
    }
    // SAFETY: each test keeps `out` for as long as anything is written, and looks at it afterwards.
    unsafe { Landing::new(out.as_mut_ptr(), out.len(), requests.concat(), first) }.map(Arc::new)
}

fn place(source: u64, at: usize, size: usize) -> Place {
    Place { source, at, size }
}

fn part(landing: &Arc<Landing>, request: usize, from: u64, length: u64) -> Part {
    Part { landing: Arc::clone(landing), request, from, length }
}

/// A request for the first bytes of an object of `size` bytes, as many as the parts have.
fn job(url: &str, size: usize, parts: Vec<Part>) -> Job {
    let length = parts.iter().map(|part| part.length).sum();
    Job { ticket: 1, url: url.into(), version: String::new(), size: size as u64, start: 0, length, parts }
}

/// Connections belong to the runtime that they were made in.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| start().unwrap());

fn get(client: &Client, job: &Job) -> Outcome {
    RUNTIME.block_on(client.get(job))
}

/// Has each connection, with its number, talked to in a thread of its own. Gives the object's URL, and how many connections there were.
fn server(talk: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/object", listener.local_addr().unwrap());
    let (count, talk) = (Arc::new(AtomicUsize::new(0)), Arc::new(talk));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (talk, number) = (Arc::clone(&talk), counted.fetch_add(1, Ordering::SeqCst));
            thread::spawn(move || talk(number, stream.unwrap()));
        }
    });
    (url, count)
}

/// The head of a connection's next request; None if there is none.
fn next_head(mut stream: &TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// The head of the answer with the first `length` of `size` bytes.
fn head_of(length: usize, size: usize) -> Vec<u8> {
    let last = length - 1;
    format!("HTTP/1.1 206 .\r\ncontent-range: bytes 0-{last}/{size}\r\ncontent-length: {length}\r\n\r\n").into_bytes()
}

/// Bytes of which none is like its neighbours.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}
