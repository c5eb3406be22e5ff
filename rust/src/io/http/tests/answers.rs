//! Which answers land, and what is told of the others.

use super::super::chunks::Chunks;
use super::*;

const OBJECT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Answers each connection's first request with the bytes that `answer` makes of its head.
fn answers(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> String {
    let talk = move |_, mut stream: TcpStream| {
        let head = next_head(&stream).unwrap_or_default();
        let _ = stream.write_all(&answer(&head));
    };
    server(talk).0
}

fn partial(range: &str, extra: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-range: {range}\r\n{extra}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Bytes [10, 16) of the object, of version "a", in the middle of eight bytes.
fn ask(url: &str) -> (Outcome, Vec<u8>) {
    let mut out = vec![b'.'; 8];
    let target = landing(&mut out, &[&[place(0, 1, 6)]]).unwrap();
    let job = Job {
        ticket: 7,
        url: url.into(),
        version: "\"a\"".into(),
        size: OBJECT.len() as u64,
        start: 10,
        length: 6,
        parts: vec![part(&target, 0, 0, 6)],
    };
    let runner = Runner::new(Duration::from_secs(5), false);
    runner.submit(vec![job], 3).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        done = runner.wait(Duration::from_secs(5));
    }
    assert_eq!((done.len(), done[0].ticket), (1, 7));
    target.close_all();
    (done.remove(0).outcome, out)
}

#[test]
fn bytes_land_where_they_belong() {
    let url = answers(|head| {
        assert!(head.contains("bytes=10-15") && head.contains("if-match: \"a\""), "{head}");
        partial("bytes 10-15/36", "etag: W/\"a\"\r\n", &OBJECT[10..16])
    });
    assert_eq!(ask(&url), (Outcome::Landed, b".abcdef.".to_vec()));
}

#[test]
fn other_answers_land_nowhere() {
    for (range, extra) in [
        ("bytes 9-14/36", "etag: \"a\"\r\n"),
        ("bytes 10-15/37", "etag: \"a\"\r\n"),
        ("bytes 10-15/*", "etag: \"a\"\r\n"),
        ("10-15/36", "etag: \"a\"\r\n"),
        ("bytes 10-15/36", "etag: \"b\"\r\n"),
        ("bytes 10-15/36", ""),
    ] {
        let url = answers(move |_| partial(range, extra, b"xxxxxx"));
        assert_eq!(ask(&url), (Outcome::Other(206), b"........".to_vec()), "{range} {extra}");
    }
    for status in ["200 OK", "302 Found\r\nlocation: http://127.0.0.1:1/", "412 Precondition Failed"] {
        let url = answers(move |_| format!("HTTP/1.1 {status}\r\ncontent-length: 6\r\n\r\nxxxxxx").into_bytes());
        let (outcome, out) = ask(&url);
        let (found, location) = match &outcome {
            Outcome::Other(found) => (found, ""),
            Outcome::Moved(found, location) => (found, location.as_str()),
            _ => panic!("{outcome:?}"),
        };
        assert!(status.starts_with(&found.to_string()) && status.ends_with(location), "{outcome:?}");
        assert_eq!(status.contains("location"), !location.is_empty());
        assert_eq!(out, b"........");
    }
}

#[test]
fn what_breaks_off_is_told() {
    let head = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 10-15/36\r\netag: \"a\"\r\n";
    let url = answers(move |_| format!("{head}content-length: 6\r\n\r\nabc").into_bytes());
    assert!(matches!(ask(&url).0, Outcome::Broken(_)));
    let url = answers(move |_| format!("{head}content-length: 3\r\n\r\nabc").into_bytes());
    assert!(matches!(ask(&url).0, Outcome::Broken(_)));
    let url = answers(move |_| format!("{head}content-length: 6\r\n\r\nabcdefg").into_bytes());
    assert!(matches!(ask(&url).0, Outcome::Broken(_)));
    for length in ["transfer-encoding: gzip", "transfer-encoding: chunked\r\ncontent-length: 6"] {
        let url = answers(move |_| format!("{head}{length}\r\n\r\nabcdef").into_bytes());
        assert_eq!(ask(&url), (Outcome::Other(206), b"........".to_vec()));
    }
    for answer in ["", "garbage", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 206\r\ncontent-length: -5\r\n\r\n"] {
        let url = answers(move |_| answer.as_bytes().to_vec());
        assert!(matches!(ask(&url).0, Outcome::Unreachable(_) | Outcome::Other(_)), "{answer:?}");
    }
    for url in ["http://127.0.0.1:1/object", "http://nowhere.invalid/object", "no url"] {
        let (outcome, _) = ask(url);
        assert!(matches!(&outcome, Outcome::Unreachable(found) if !found.contains("object")), "{url}: {outcome:?}");
    }
    for port in ["99999", "-1", "http", ""] {
        let (outcome, _) = ask(&format!("http://127.0.0.1:{port}/object"));
        assert_eq!(outcome, Outcome::Unreachable("no URL for HTTP".into()), "{port}");
    }
}

const HEAD: &str = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 10-15/36\r\netag: \"a\"\r\n";

#[test]
fn bodies_without_a_length_land() {
    for rest in [
        "connection: close\r\n\r\nabcdef",
        "transfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
        "transfer-encoding: Chunked\r\n\r\n2;x=\"y\"\r\nab\r\n03\r\ncde\r\n1\r\nf\r\n000\r\nsum: 7\r\nother: 8\r\n\r\n",
    ] {
        let url = answers(move |_| format!("{HEAD}{rest}").into_bytes());
        assert_eq!(ask(&url), (Outcome::Landed, b".abcdef.".to_vec()), "{rest}");
    }
}

#[test]
fn bodies_in_wrong_chunks_break_off() {
    for rest in [
        "5\r\nabcde\r\n0\r\n\r\n",
        "7\r\nabcdefg\r\n0\r\n\r\n",
        "6\r\nabcdef\r\n1\r\ng\r\n0\r\n\r\n",
        "6\r\nabcdef\r\n0\r\n",
        "6\r\nabcdefx\r\n0\r\n\r\n",
        "6\r\nabcdef\r\n0\r\n\r\nmore",
        "6\r\nabc",
        "\r\nabcdef\r\n0\r\n\r\n",
        "-6\r\nabcdef\r\n0\r\n\r\n",
        "10000000000000006\r\nabcdef\r\n0\r\n\r\n",
        "abcdef",
    ] {
        let url = answers(move |_| format!("{HEAD}transfer-encoding: chunked\r\n\r\n{rest}").into_bytes());
        assert!(matches!(ask(&url).0, Outcome::Broken(_)), "{rest}");
    }
}

#[test]
fn chunks_are_the_same_however_they_come() {
    let text = b"3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\ntrailer: x\r\n\r\n";
    for step in 1..text.len() {
        let (mut chunks, mut body) = (Chunks::default(), Vec::new());
        for mut bytes in text.chunks(step) {
            while let Some(piece) = chunks.piece(&mut bytes).unwrap() {
                body.extend_from_slice(piece);
            }
        }
        assert!(chunks.is_done(), "{step}");
        assert_eq!(body, b"abc0123456789", "{step}");
    }
    let endless = vec![b'0'; 1 << 20];
    assert!(Chunks::default().piece(&mut &endless[..]).is_err(), "lines have an end");
}

#[test]
fn a_server_of_files_packs_nothing_and_sends_no_pages() {
    for extra in ["content-encoding: gzip\r\n", "content-type: text/html; charset=utf-8\r\n", ""] {
        let url = answers(move |_| partial("bytes 10-15/36", extra, &OBJECT[10..16]));
        for is_plain in [false, true] {
            let mut out = vec![0; 6];
            let target = landing(&mut out, &[&[place(0, 0, 6)]]).unwrap();
            let job = Job { start: 10, ..job(&url, 36, vec![part(&target, 0, 0, 6)]) };
            let wanted = if is_plain && !extra.is_empty() { Outcome::Other(206) } else { Outcome::Landed };
            assert_eq!(get(&Client::new(PATIENCE, PATIENCE, is_plain), &job), wanted, "{extra}");
        }
    }
}

#[test]
fn several_requests_share_an_answer() {
    let url = answers(|_| partial("bytes 10-19/36", "", &OBJECT[10..20]));
    let (mut out, mut other) = (vec![b'.'; 8], vec![b'.'; 4]);
    let both = landing(&mut out, &[&[place(0, 6, 2), place(1, 0, 2)], &[place(2, 3, 1)]]).unwrap();
    let third = landing(&mut other, &[&[place(0, 0, 4)]]).unwrap();
    let parts = vec![part(&both, 0, 0, 3), part(&both, 1, 3, 3), part(&third, 0, 6, 4)];
    assert!(both.close(1), "nobody wants the second any more");
    let job = Job { ticket: 1, url, version: String::new(), size: 36, start: 10, length: 10, parts };
    let client = Client::new(PATIENCE, PATIENCE, false);
    assert_eq!(get(&client, &job), Outcome::Landed);
    assert_eq!((&out[..], &other[..]), (&b"bc....ab"[..], &b"ghij"[..]));
    assert!(!both.close(0) && !third.close(0), "they are done");
}

#[test]
fn nothing_is_written_once_it_is_closed() {
    let mut out = vec![b'.'; 4];
    let target = landing(&mut out, &[&[place(0, 0, 4)]]).unwrap();
    assert!(target.put(0, 0, b"ab"));
    target.close_all();
    assert!(!target.put(0, 2, b"cd"));
    assert_eq!(out, b"ab..");
}

#[test]
fn places_outside_the_memory_are_refused() {
    let mut out = vec![0; 4];
    assert!(landing(&mut out, &[&[place(0, 1, 4)]]).is_none());
    assert!(landing(&mut out, &[&[place(0, usize::MAX, 2)]]).is_none());
    // SAFETY: nothing is written.
    assert!(unsafe { Landing::new(out.as_mut_ptr(), 4, vec![place(0, 0, 1)], vec![0, 2]) }.is_none());
    // SAFETY: nothing is written.
    assert!(unsafe { Landing::new(out.as_mut_ptr(), 4, vec![place(0, 0, 1)], vec![]) }.is_none());
}

#[test]
fn a_closed_runner_ends_its_requests() {
    let url = answers(|_| {
        thread::sleep(Duration::from_secs(20));
        Vec::new()
    });
    let mut out = vec![0; 6];
    let target = landing(&mut out, &[&[place(0, 0, 6)]]).unwrap();
    let runner = Runner::new(Duration::from_secs(20), false);
    runner.submit(vec![job(&url, 36, vec![part(&target, 0, 0, 6)])], 1).unwrap();
    thread::sleep(Duration::from_millis(100));
    runner.close();
    let done = runner.wait(Duration::from_secs(5));
    assert!(matches!(done[0].outcome, Outcome::Unreachable(_)), "{done:?}");
}
