//! PGM and PPM (netpbm.sourceforge.net/doc/pgm.html, ppm.html): three numbers as text, then those of the pixels, of one or two bytes.
//!
//! As Pillow does it, numbers are scaled from what the file calls the most: colours to 255, grey to 255 or, above that, to 65,535.

use super::fault::Fault;
use super::mode::Stored;

/// What a file's header says.
pub(super) struct Pnm {
    pub(super) width: u32,
    pub(super) height: u32,
    most: u16,
    is_colour: bool,
    first: usize,
}

impl Pnm {
    /// Whether numbers have two bytes.
    pub(super) const fn is_wide(&self) -> bool {
        self.most > 255
    }

    /// How its pixels are stored once they are decoded.
    pub(super) const fn stored(&self) -> Stored {
        match (self.is_colour, self.is_wide()) {
            (true, _) => Stored::Rgb8,
            (false, false) => Stored::Grey8,
            (false, true) => Stored::Grey16,
        }
    }

    /// The bytes of its pixels.
    pub(super) fn pixels<'a>(&self, data: &'a [u8]) -> Result<&'a [u8], Fault> {
        let numbers = u64::from(self.width) * u64::from(self.height) * if self.is_colour { 3 } else { 1 };
        let needed = numbers * if self.is_wide() { 2 } else { 1 };
        let pixels = &data[self.first..];
        if needed > pixels.len() as u64 {
            return Err(Fault::damaged(format!(
                "a PNM file cut short ({} bytes of pixels, of {needed})",
                pixels.len()
            )));
        }
        Ok(&pixels[..needed as usize])
    }

    /// Fills `out` with pixels as they are to be stored.
    pub(super) fn fill(&self, pixels: &[u8], out: &mut [u8]) {
        let most = f64::from(self.most);
        let scaled = |number: u16, to: f64| (f64::from(number) / most * to).round_ties_even().min(to);
        if !self.is_wide() {
            let table: Vec<u8> = (0..=255).map(|number| scaled(number, 255.0) as u8).collect();
            out.iter_mut().zip(pixels).for_each(|(out, &number)| *out = table[usize::from(number)]);
            return;
        }
        let numbers = pixels.as_chunks::<2>().0.iter().map(|&bytes| u16::from_be_bytes(bytes));
        if self.is_colour {
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out = scaled(number, 255.0) as u8);
        } else {
            let outs = out.as_chunks_mut::<2>().0.iter_mut();
            outs.zip(numbers).for_each(|(out, number)| *out = (scaled(number, 65_535.0) as u16).to_ne_bytes());
        }
    }
}

/// The header of a file; None where it is cut short or damaged.
pub(super) fn read(data: &[u8]) -> Option<Pnm> {
    let is_colour = data.get(1)? == &b'6';
    let mut at = 2;
    let mut numbers = [0; 3];
    for number in &mut numbers {
        at = behind_space(data, at)?;
        let digits = data[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        *number = std::str::from_utf8(&data[at..at + digits]).ok()?.parse::<u32>().ok()?;
        at += digits;
    }
    let most = u16::try_from(numbers[2]).ok().filter(|&most| most > 0)?;
    data.get(at)?.is_ascii_whitespace().then_some(Pnm {
        width: numbers[0],
        height: numbers[1],
        most,
        is_colour,
        first: at + 1,
    })
}

/// The place behind white space and comments.
fn behind_space(data: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match data.get(at)? {
            b'#' => at += data[at..].iter().take_while(|&&byte| !matches!(byte, b'\n' | b'\r')).count(),
            byte if byte.is_ascii_whitespace() => at += 1,
            _ => return Some(at),
        }
    }
}
