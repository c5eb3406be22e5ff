//! Prefetches memory before it is needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Tells the processor that `bytes` will be read soon; returns at once.
#[inline(always)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    ask::<{ std::arch::x86_64::_MM_HINT_T0 }>(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE);
}

/// The same for many places far apart: they come to the second cache, not the first. A thread has more of those on the way: twice as
/// many rows a second on an AMD Zen 4, in huge pages (`benches/random_rows.c`).
#[inline(always)]
pub fn prefetch_scattered(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    ask::<{ std::arch::x86_64::_MM_HINT_T1 }>(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ask<const HINT: i32>(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        // SAFETY: a prefetch never faults and reads nothing that a program could see; SSE is part of x86-64.
        #[allow(unsafe_code)]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<HINT>(line.as_ptr().cast());
        }
    }
}
