//! Which connections are used again.

use std::sync::{Mutex, mpsc};
use std::time::Instant;

use super::super::connect::in_turn;
use super::*;

const SIZE: usize = 64 << 10;

/// Asks for the whole object, which must land, as often as told.
fn get_times(client: &Client, url: &str, times: usize) {
    for _ in 0..times {
        let mut out = vec![0; SIZE];
        let target = landing(&mut out, &[&[place(0, 0, SIZE)]]).unwrap();
        let asked = job(url, SIZE, vec![part(&target, 0, 0, SIZE as u64)]);
        assert_eq!(get(client, &asked), Outcome::Landed);
        assert!(out == pattern(SIZE));
    }
}

/// What `get` says where nothing lands.
fn get_nothing(client: &Client, url: &str) -> Outcome {
    let mut out = vec![0; SIZE];
    let target = landing(&mut out, &[&[place(0, 0, SIZE)]]).unwrap();
    let found = get(client, &job(url, SIZE, vec![part(&target, 0, 0, SIZE as u64)]));
    target.close_all();
    assert!(out.iter().all(|byte| *byte == 0));
    found
}

fn whole() -> Vec<u8> {
    [head_of(SIZE, SIZE), pattern(SIZE)].concat()
}

/// Answers all requests of all connections with the same bytes.
fn keeping(answer: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    server(move |_, mut stream| {
        while next_head(&stream).is_some() {
            stream.write_all(&answer()).unwrap();
        }
    })
}

#[test]
fn a_kept_connection_is_used_again() {
    let (url, connections) = keeping(whole);
    get_times(&Client::new(PATIENCE, PATIENCE, false), &url, 3);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[test]
fn an_old_connection_is_not_used_again() {
    let (url, connections) = keeping(whole);
    get_times(&Client::new(PATIENCE, Duration::ZERO, false), &url, 3);
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[test]
fn a_closed_client_keeps_and_opens_no_connection() {
    let (url, connections) = keeping(whole);
    let client = Client::new(PATIENCE, PATIENCE, false);
    get_times(&client, &url, 1);
    client.close();
    assert_eq!(get_nothing(&client, &url), Outcome::Unreachable("closed".into()));
    assert!(connections.load(Ordering::SeqCst) <= 2);
}

#[test]
fn what_comes_after_an_answer_spoils_its_connection() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let (url, connections) = server(move |_, mut stream| {
        let answer_to_nobody = [head_of(SIZE, SIZE), vec![b'x'; SIZE]].concat();
        while next_head(&stream).is_some() {
            stream.write_all(&[whole(), answer_to_nobody.clone()].concat()).unwrap();
            tell.lock().unwrap().send(()).unwrap();
        }
    });
    let client = Client::new(PATIENCE, PATIENCE, false);
    for _ in 0..3 {
        get_times(&client, &url, 1);
        told.recv().unwrap();
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[test]
fn a_connection_closed_while_idle_costs_no_request() {
    for is_late in [false, true] {
        let (url, connections) = server(move |_, mut stream| {
            next_head(&stream).unwrap();
            stream.write_all(&whole()).unwrap();
            if is_late {
                let _ = stream.read(&mut [0]); // what is not read of the next request makes the end a reset
            }
        });
        get_times(&Client::new(PATIENCE, PATIENCE, false), &url, 3);
        assert_eq!(connections.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn short_error_bodies_keep_the_connection_and_slow_ones_do_not_wait() {
    for (head, status, count) in [
        ("404 .\r\ncontent-length: 5\r\n\r\nabcde", 404, 1),
        ("503 .\r\ncontent-length: 0\r\n\r\n", 503, 1),
        ("204 .\r\n\r\n", 204, 1),
        ("304 .\r\ncontent-length: 65536\r\n\r\n", 304, 1),
        ("404 .\r\nconnection: close\r\ncontent-length: 5\r\n\r\nabcde", 404, 2),
        ("404 .\r\ncontent-length: 2\r\n\r\nabcde", 404, 2),
        ("404 .\r\ncontent-length: 65536\r\n\r\n", 404, 2),
        ("404 .\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 404, 2),
        ("100 .\r\n\r\n", 100, 2),
        ("404 .\r\ncontent-length: 5\r\n\r\nabc", 404, 2),
    ] {
        let (url, connections) = keeping(move || format!("HTTP/1.1 {head}").into_bytes());
        let (client, began) = (Client::new(PATIENCE, PATIENCE, false), Instant::now());
        for _ in 0..2 {
            assert_eq!(get_nothing(&client, &url), Outcome::Other(status), "{head}");
        }
        assert_eq!(connections.load(Ordering::SeqCst), count, "{head}");
        assert!(began.elapsed() < PATIENCE, "{head}");
    }
}

#[test]
fn addresses_take_turns_in_the_family_that_comes_first() {
    let addresses = ["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1"].map(|text| text.parse().unwrap()).to_vec();
    let told = |turn| in_turn(addresses.clone(), turn).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told(0), ["[::1]:1", "[::2]:1", "10.0.0.1:1", "10.0.0.2:1"]);
    assert_eq!(told(3), ["[::2]:1", "[::1]:1", "10.0.0.1:1", "10.0.0.2:1"]);
    assert!(in_turn(Vec::new(), 3).is_empty());
}
