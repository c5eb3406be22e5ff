//! A proxy for the benches: what a distant object store feels like, before a real one on the same machine.
//!
//! Every request waits, every connection has a limited rate. Objects that were once asked for whole, and pages of listings, are kept in
//! memory and answered from there, by ranges too, so that the store's own work, which would be done elsewhere, takes no CPU from what
//! is measured. Everything else (heads, the first answer) is the store's.
//!
//!     cargo run --release --no-default-features --example slow_line -- PORT_OF_THE_STORE
//!
//! It prints the port that it listens on, then obeys lines on standard input: `line MS MB_PER_S` sets the latency and the rate (0: none) and
//! is answered by `ok`; `counts` is answered by the requests, bytes and connections since the last `counts`, as JSON.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are sent at once: 9 ms at 30 MB/s.
const CHUNK: usize = 256 << 10;
const HEAD_LIMIT: usize = 64 << 10;

/// An object as the store answered it: the lines of its head that stay true for a range, and its bytes.
struct Object {
    head: String,
    etag: String,
    body: Vec<u8>,
}

#[derive(Default)]
struct Line {
    latency_us: AtomicU64,
    bytes_per_s: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    connections: AtomicU64,
    objects: RwLock<HashMap<String, Arc<Object>>>,
}

fn main() -> io::Result<()> {
    let upstream = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let upstream: u16 = upstream.ok_or_else(|| io::Error::other("usage: slow_line PORT_OF_THE_STORE"))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let line = Arc::new(Line::default());
    let shared = Arc::clone(&line);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let line = Arc::clone(&shared);
            line.connections.fetch_add(1, Relaxed);
            // A connection that breaks is its client's affair.
            let _ = thread::Builder::new().stack_size(256 << 10).spawn(move || serve(client, upstream, &line));
        }
    });
    for command in io::stdin().lock().lines() {
        obey(&line, &command?);
    }
    Ok(())
}

fn obey(line: &Line, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    if words.first() == Some(&"line") {
        line.latency_us.store((number(1) * 1e3) as u64, Relaxed);
        line.bytes_per_s.store((number(2) * 1e6) as u64, Relaxed);
        println!("ok");
    } else {
        let [requests, bytes, connections] =
            [&line.requests, &line.bytes, &line.connections].map(|count| count.swap(0, Relaxed));
        println!("{{\"requests\": {requests}, \"bytes\": {bytes}, \"connections\": {connections}}}");
    }
}

/// A connection's requests, one after the other.
fn serve(mut client: TcpStream, upstream: u16, line: &Line) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = BufReader::new(client.try_clone()?);
    while let Some(head) = read_head(&mut requests)? {
        line.requests.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_micros(line.latency_us.load(Relaxed)));
        let path = kept_path(&head);
        let known = path.and_then(|path| line.objects.read().ok()?.get(path).cloned());
        if let Some(object) = known {
            answer(&mut client, &head, &object, line)?;
        } else {
            let whole = path.filter(|_| field(&head, "range").is_none());
            let (answer_head, body) = ask(&head, upstream)?;
            paced(&mut client, &[answer_head.as_bytes(), &body], line)?;
            if let (Some(path), true) = (whole, is_kept(&answer_head)) {
                keep(line, path, &answer_head, body);
            }
        }
    }
    Ok(())
}

/// What a request for an object, or for a page of a listing, asks for; without a signature in the query.
fn kept_path(head: &str) -> Option<&str> {
    let path = head.strip_prefix("GET ")?.split(' ').next()?;
    let signed = path.split_once('?').filter(|(_, query)| query.contains("X-Amz-Signature"));
    Some(signed.map_or(path, |(object, _)| object))
}

fn is_kept(answer_head: &str) -> bool {
    answer_head.starts_with("HTTP/1.1 200") && field(answer_head, "content-length").is_some()
}

fn keep(line: &Line, path: &str, head: &str, body: Vec<u8>) {
    let stays = |text: &&str| {
        let name = text.split(':').next().unwrap_or("").to_ascii_lowercase();
        !text.is_empty() && !["content-length", "connection", "transfer-encoding"].contains(&name.as_str())
    };
    let kept: String = head.split("\r\n").skip(1).filter(stays).map(|text| format!("{text}\r\n")).collect();
    let object = Object { etag: field(head, "etag").unwrap_or_default(), head: kept, body };
    if let Ok(mut objects) = line.objects.write() {
        objects.insert(path.to_owned(), Arc::new(object));
    }
}

fn answer(client: &mut TcpStream, request: &str, object: &Object, line: &Line) -> io::Result<()> {
    if field(request, "if-match").is_some_and(|etag| etag != object.etag) {
        return client.write_all(b"HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n");
    }
    let size = object.body.len();
    let (status, range, body) = match field(request, "range").map(|text| range(&text, size)) {
        None => ("200 OK", String::new(), &object.body[..]),
        Some(Some((first, end))) => (
            "206 Partial Content",
            format!("content-range: bytes {first}-{}/{size}\r\n", end - 1),
            &object.body[first..end],
        ),
        Some(None) => return client.write_all(b"HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n"),
    };
    let head = format!("HTTP/1.1 {status}\r\n{}{range}content-length: {}\r\n\r\n", object.head, body.len());
    paced(client, &[head.as_bytes(), body], line)
}

/// `bytes=3-9`, `bytes=3-` or `bytes=-7` as a half-open range.
fn range(text: &str, size: usize) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (first, size.min(last + 1)),
        (Ok(first), Err(_)) => (first, size),
        (Err(_), Ok(last)) => (size.saturating_sub(last), size),
        _ => return None,
    };
    (first < end).then_some((first, end))
}

/// Writes an answer at the line's rate: no byte comes before its time.
fn paced(client: &mut TcpStream, parts: &[&[u8]], line: &Line) -> io::Result<()> {
    let rate = line.bytes_per_s.load(Relaxed);
    let began = Instant::now();
    let mut sent = 0;
    for chunk in parts.iter().flat_map(|part| part.chunks(CHUNK)) {
        sent += chunk.len() as u64;
        if rate > 0 {
            let due = Duration::from_nanos((u128::from(sent) * 1_000_000_000 / u128::from(rate)) as u64);
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        client.write_all(chunk)?;
        line.bytes.fetch_add(chunk.len() as u64, Relaxed);
    }
    Ok(())
}

/// The store's answer to a request, on a connection of its own.
fn ask(head: &str, upstream: u16) -> io::Result<(String, Vec<u8>)> {
    let mut server = TcpStream::connect(("127.0.0.1", upstream))?;
    server.write_all(head.as_bytes())?;
    let mut server = BufReader::new(server);
    let answer = read_head(&mut server)?.ok_or_else(|| io::Error::other("the store closed the connection"))?;
    let mut body = Vec::new();
    if head.starts_with("HEAD") {
        return Ok((answer, body));
    }
    if let Some(length) = field(&answer, "content-length").and_then(|text| text.parse::<u64>().ok()) {
        server.take(length).read_to_end(&mut body)?;
    } else {
        while !body.ends_with(b"0\r\n\r\n") {
            let mut piece = [0; 16 << 10];
            match server.read(&mut piece)? {
                0 => return Err(io::Error::other("the store's answer ended early")),
                count => body.extend_from_slice(&piece[..count]),
            }
        }
    }
    Ok((answer, body))
}

/// A request's or an answer's head with its empty line; None at the end of the connection.
fn read_head(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if from.read_until(b'\n', &mut head)? == 0 {
            return Ok(None);
        }
        if head.len() > HEAD_LIMIT {
            return Err(io::Error::other("a head without an end"));
        }
    }
    String::from_utf8(head).map(Some).map_err(io::Error::other)
}

/// The value of a header.
fn field(head: &str, name: &str) -> Option<String> {
    head.split("\r\n").skip(1).find_map(|text| {
        let (key, value) = text.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}
