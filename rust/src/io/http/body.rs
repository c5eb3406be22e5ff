//! Receives the body of a response into its destination, or discards it.

use std::io;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

use super::chunks::Chunks;
use super::connection::{Connection, with_scratch};
use super::head::Head;
use super::{Job, Outcome};

/// The body of an unusable response is read up to this size, so that its connection can be reused.
const SHORT_BYTES: u64 = 16 << 10;
/// The longest wait for such a body.
const SHORT_TIME: Duration = Duration::from_millis(200);
/// After so many bytes without a pause, other tasks run.
const TURN_BYTES: usize = 1 << 20;

/// Reads the rest of a short body, of which `received` bytes have arrived; returns whether it is complete.
pub async fn drain(connection: &mut Connection, head: &Head, mut received: u64) -> bool {
    let length = match head.status {
        100..=199 => return false, // the answer is still to come
        204 | 304 => 0,
        _ => head.length.unwrap_or(u64::MAX),
    };
    if length > SHORT_BYTES {
        return false;
    }
    let rest = async {
        while received < length {
            match connection.take_some(1, <[u8]>::len).await {
                Ok(count) if count > 0 => received += count as u64,
                _ => return false,
            }
        }
        received == length
    };
    timeout(SHORT_TIME, rest).await.unwrap_or(false)
}

/// Receives the body, whose start `body` arrived with the head.
pub async fn receive(connection: &mut Connection, job: &Job, body: &[u8]) -> Outcome {
    if !job.put(0, body) {
        return Outcome::Dropped;
    }
    let (mut offset, mut at_once) = (body.len() as u64, 0);
    while offset < job.length {
        let left = usize::try_from(job.length - offset).unwrap_or(usize::MAX);
        match receive_some(connection, job, offset, left) {
            Ok(None) => return Outcome::Dropped,
            Ok(Some(0)) => return broken("the response ended early"),
            Ok(Some(count)) => {
                offset += count as u64;
                at_once += count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match connection.wait(left).await {
                Ok(()) => at_once = 0,
                Err(error) => return broken(&error.to_string()),
            },
            Err(error) => return broken(&error.to_string()),
        }
        if at_once >= TURN_BYTES {
            yield_now().await;
            at_once = 0;
        }
    }
    job.finish()
}

/// Writes the received part of the body, from `offset` on, to its destination; returns how much, None if the job was cancelled.
fn receive_some(connection: &mut Connection, job: &Job, offset: u64, left: usize) -> io::Result<Option<usize>> {
    if let Some(read) = job.lend(offset, |out| connection.read(out)) {
        return read.map(Some);
    }
    with_scratch(|scratch| {
        let most = scratch.len().min(left);
        let count = connection.read(&mut scratch[..most])?;
        Ok(job.put(offset, &scratch[..count]).then_some(count))
    })
}

/// Receives a whole chunked body, whose start `body` arrived with the head, so that the connection can be reused.
pub async fn receive_chunks(connection: &mut Connection, job: &Job, body: &[u8]) -> Outcome {
    let (mut chunks, mut offset) = (Chunks::default(), 0);
    let mut ended = take_chunks(&mut chunks, body, job, &mut offset);
    while ended == Ok(false) {
        let left = usize::try_from(job.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let take = |bytes: &[u8]| match bytes {
            [] => Err(broken("the response ended early")),
            _ => take_chunks(&mut chunks, bytes, job, &mut offset),
        };
        ended = connection.take_some(left, take).await.unwrap_or_else(|error| Err(broken(&error.to_string())));
    }
    ended.map_or_else(|outcome| outcome, |_| job.finish())
}

/// Writes a part of the body, from `offset` on, to its destination; returns whether it was the last.
fn take_chunks(chunks: &mut Chunks, mut bytes: &[u8], job: &Job, offset: &mut u64) -> Result<bool, Outcome> {
    let malformed = |_| broken("the chunked response is malformed");
    while let Some(piece) = chunks.piece(&mut bytes).map_err(malformed)? {
        if piece.len() as u64 > job.length - *offset {
            return Err(broken("the response has more bytes than requested"));
        }
        if !job.put(*offset, piece) {
            return Err(Outcome::Dropped);
        }
        *offset += piece.len() as u64;
    }
    match (chunks.is_done(), *offset == job.length, bytes.is_empty()) {
        (false, ..) => Ok(false),
        (true, true, true) => Ok(true),
        (true, true, false) => Err(broken("the response continues after its last chunk")),
        (true, false, _) => Err(broken(&format!("{offset} bytes instead of {}", job.length))),
    }
}

pub fn broken(found: &str) -> Outcome {
    Outcome::Broken(found.into())
}
