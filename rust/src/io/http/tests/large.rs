//! Answers that are received to where they belong, in pieces of all sizes.

use std::sync::{Mutex, mpsc};

use super::*;

const KIB: usize = 1 << 10;

#[test]
fn a_large_answer_lands_directly() {
    const SIZE: usize = 4 << 20;
    let object = pattern(SIZE);
    for pieces in [&[SIZE][..], &[8 * KIB], &[1, 100_000, 33, 700_000]] {
        let (url, _) = server(move |_, mut stream| {
            next_head(&stream).unwrap();
            let (answer, mut sizes) = ([head_of(SIZE, SIZE), pattern(SIZE)].concat(), pieces.iter().cycle());
            let mut left = &answer[..];
            while !left.is_empty() {
                let (piece, behind) = left.split_at(left.len().min(*sizes.next().unwrap()));
                stream.write_all(piece).unwrap();
                thread::yield_now();
                left = behind;
            }
        });
        let (mut first, mut second) = (vec![0; 3 << 20], vec![0; 2 << 20]);
        let (alone, gaps) = ([place(0, 7, 1 << 20)], [place(9, 1 << 21, 600_000), place(700_000, 1_100_000, 40_000)]);
        let twice = [place(50, 0, 400_000), place(300_000, 500_000, 400_000)];
        let one = landing(&mut first, &[&alone, &gaps]).unwrap();
        let other = landing(&mut second, &[&twice]).unwrap();
        let (begin, middle) = (1 << 20, (5 << 20) / 2);
        let parts = vec![
            part(&one, 0, 0, begin),
            part(&one, 1, begin, middle - begin),
            part(&other, 0, middle, SIZE as u64 - middle),
        ];
        assert_eq!(get(&Client::new(PATIENCE, PATIENCE, false), &job(&url, SIZE, parts)), Outcome::Landed);
        for (out, places) in [(&first, vec![(0, &alone[..]), (begin, &gaps)]), (&second, vec![(middle, &twice)])] {
            let mut wanted = vec![0; out.len()];
            for (from, place) in places.iter().flat_map(|(from, places)| places.iter().map(|place| (*from, *place))) {
                let begin = (from + place.source) as usize;
                wanted[place.at..][..place.size].copy_from_slice(&object[begin..][..place.size]);
            }
            assert!(*out == wanted, "{pieces:?}");
        }
    }
}

#[test]
fn an_answer_that_ends_below_the_low_water_is_told() {
    const SIZE: usize = 600 * KIB;
    for is_silent in [false, true] {
        let (url, _) = server(move |_, mut stream| {
            next_head(&stream).unwrap();
            stream.write_all(&head_of(SIZE, SIZE)).unwrap();
            stream.write_all(&pattern(50 * KIB)).unwrap();
            thread::sleep(Duration::from_millis(50));
            stream.write_all(&pattern(100 * KIB)[50 * KIB..]).unwrap();
            if is_silent {
                let _ = stream.read(&mut [0]); // until the client goes
            }
        });
        let mut out = vec![0; SIZE];
        let target = landing(&mut out, &[&[place(0, 0, SIZE)]]).unwrap();
        let asked = job(&url, SIZE, vec![part(&target, 0, 0, SIZE as u64)]);
        let ended = get(&Client::new(Duration::from_millis(1300), PATIENCE, false), &asked);
        target.close_all();
        if is_silent {
            assert_eq!(ended, Outcome::Slow);
            assert!(out[..100 * KIB] == pattern(100 * KIB), "what came was taken after a while");
        } else {
            assert_eq!(ended, Outcome::Broken("the response ended early".into()));
        }
    }
}

#[test]
fn closing_a_request_while_it_is_received_writes_nothing_more() {
    const SIZE: usize = 600 * KIB;
    let (half_sent, is_half_sent) = mpsc::channel();
    let (close, is_closed) = mpsc::channel();
    let talk = Mutex::new((half_sent, is_closed));
    let (url, _) = server(move |_, mut stream| {
        let (half_sent, is_closed) = &*talk.lock().unwrap();
        next_head(&stream).unwrap();
        stream.write_all(&[head_of(SIZE, SIZE), pattern(SIZE / 2)].concat()).unwrap();
        half_sent.send(()).unwrap();
        is_closed.recv().unwrap();
        let _ = stream.write_all(&pattern(SIZE)[SIZE / 2..]);
    });
    let mut out = vec![0; SIZE];
    let target = landing(&mut out, &[&[place(0, 0, SIZE)]]).unwrap();
    let runner = Runner::new(PATIENCE, false);
    runner.submit(vec![job(&url, SIZE, vec![part(&target, 0, 0, SIZE as u64)])], 1).unwrap();
    is_half_sent.recv().unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(target.close(0));
    let before = out.clone();
    close.send(()).unwrap();
    assert_eq!(runner.wait(PATIENCE)[0].outcome, Outcome::Dropped);
    assert!(out == before && before.ends_with(&[0; 100]));
}

#[test]
fn a_request_that_nobody_wants_hangs_up_before_any_answer() {
    const SIZE: usize = 64 * KIB;
    let ((asked, is_asked), (hung_up, is_hung_up)) = (mpsc::channel(), mpsc::channel());
    let (url, _) = server(move |_, stream| {
        next_head(&stream).unwrap();
        asked.send(()).unwrap();
        hung_up.send(next_head(&stream).is_none()).unwrap();
    });
    let mut out = vec![0; SIZE];
    let target = landing(&mut out, &[&[place(0, 0, SIZE)]]).unwrap();
    let runner = Runner::new(PATIENCE, false);
    runner.submit(vec![job(&url, SIZE, vec![part(&target, 0, 0, SIZE as u64)])], 1).unwrap();
    is_asked.recv().unwrap();
    target.close_all();
    assert!(is_hung_up.recv().unwrap());
    assert_eq!(runner.wait(PATIENCE)[0].outcome, Outcome::Dropped);
}

#[test]
fn a_place_beyond_its_part_is_not_written() {
    const PART: usize = 64 * KIB;
    let (url, _) = server(|_, mut stream| {
        next_head(&stream).unwrap();
        stream.write_all(&[head_of(2 * PART, 2 * PART), pattern(2 * PART)].concat()).unwrap();
    });
    let (mut first, mut second) = (vec![b'.'; 2 * PART], vec![b'.'; PART]);
    let one = landing(&mut first, &[&[place(0, 0, 2 * PART)]]).unwrap();
    let other = landing(&mut second, &[&[place(0, 0, PART)]]).unwrap();
    let parts = vec![part(&one, 0, 0, PART as u64), part(&other, 0, PART as u64, PART as u64)];
    assert_eq!(get(&Client::new(PATIENCE, PATIENCE, false), &job(&url, 2 * PART, parts)), Outcome::Landed);
    let object = pattern(2 * PART);
    assert!(first[..PART] == object[..PART] && first[PART..].iter().all(|byte| *byte == b'.'));
    assert!(second == object[PART..]);
}
