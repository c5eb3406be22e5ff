//! Many requests at once: a few threads wait for all of them. In a process of its own, whose threads are counted.
#![allow(unsafe_code)] // `Landing::new` is promised memory; the test keeps the vector that it gives.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_core::io::http::{Job, Landing, Outcome, Part, Place, Runner};

const REQUESTS: usize = 200;
const SIZE: usize = 600 << 10;
const TIMEOUT: Duration = Duration::from_millis(2500);
const PATIENCE: Duration = Duration::from_secs(20);
/// What comes of the bodies of those that are answered.
const BODIES: [usize; 3] = [0, 100, SIZE - 1];
/// As many as a runner has at most, and one for the system's resolver.
const MOST_THREADS: usize = 9;

/// Threads of runners in this process; None where the system does not tell.
fn threads() -> Option<usize> {
    let names = std::fs::read_dir("/proc/self/task").ok()?;
    let names = names.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    Some(names.filter(|name| name.trim_end() == "penstock-http").count())
}

/// What one connection gets before nothing more comes: no answer, its head, little of its body, or much of it.
fn begun(number: usize) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 206 .\r\ncontent-range: bytes 0-{}/{SIZE}\r\ncontent-length: {SIZE}\r\n\r\n", SIZE - 1);
    match number % 4 {
        0 => Vec::new(),
        kind => [head.as_bytes(), &vec![1; BODIES[kind - 1]]].concat(),
    }
}

#[test]
fn many_requests_that_stall_take_few_threads_and_end_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/object", listener.local_addr().unwrap());
    let accepting = thread::spawn(move || {
        let mut streams: Vec<_> = (0..REQUESTS).map(|_| listener.accept().unwrap().0).collect();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&begun(number)).unwrap();
        }
        streams
    });
    let mut out = vec![0; REQUESTS * SIZE];
    let places = (0..REQUESTS).map(|request| Place { source: 0, at: request * SIZE, size: SIZE }).collect();
    // SAFETY: `out` is kept, and looked at only when all requests are closed.
    let landing = unsafe { Landing::new(out.as_mut_ptr(), out.len(), places, (0..=REQUESTS).collect()) };
    let landing = Arc::new(landing.unwrap());
    let job = |request: usize| {
        let part = Part { landing: Arc::clone(&landing), request, from: 0, length: SIZE as u64 };
        let (ticket, size) = (request as u64, SIZE as u64);
        Job { ticket, url: url.clone(), version: String::new(), size, start: 0, length: size, parts: vec![part] }
    };
    let runner = Runner::new(TIMEOUT, false);
    assert!(threads().is_none_or(|count| count == 0), "none before the first request");
    let began = Instant::now();
    runner.submit((0..REQUESTS).map(job).collect(), REQUESTS).unwrap();
    let streams = accepting.join().unwrap();
    assert_eq!(streams.len(), REQUESTS, "all are under way");
    assert!(threads().is_none_or(|count| (1..=MOST_THREADS).contains(&count)), "{:?}", threads());
    let mut ended = Vec::new();
    while ended.len() < REQUESTS && began.elapsed() < PATIENCE {
        ended.extend(runner.wait(PATIENCE));
    }
    assert_eq!(ended.len(), REQUESTS);
    for one in &ended {
        assert_eq!(one.outcome, Outcome::Slow, "request {}", one.ticket);
        assert!(one.seconds >= TIMEOUT.as_secs_f64() && one.seconds < 2.0 * TIMEOUT.as_secs_f64(), "{one:?}");
    }
    landing.close_all();
    let mut received: Vec<_> =
        out.chunks(SIZE).map(|body| body.iter().map(|byte| usize::from(*byte)).sum::<usize>()).collect();
    received.sort_unstable();
    let mut wanted: Vec<_> = (0..REQUESTS).map(|number| [0, BODIES[0], BODIES[1], BODIES[2]][number % 4]).collect();
    wanted.sort_unstable();
    assert_eq!(received, wanted, "what came was taken");
    runner.close();
    while threads().is_some_and(|count| count > 0) {
        assert!(began.elapsed() < PATIENCE, "a closed runner has no threads");
        thread::sleep(Duration::from_millis(1));
    }
}
