//! Rows of planes: red, green and blue, or Y, Cb and Cr as they are stored for callers that resize before they convert colours.

use super::emit::{ColourSink, Output, PlaneSink};
use super::layout::{Layout, Upsample};
use super::{DecodeOptions, Decoder, Header, JpegError, colour};
use crate::core::geometry::Rect;

/// A row of one component.
#[derive(Clone, Copy, Debug)]
pub struct PlaneRow<'a> {
    /// Index of the component in the image.
    pub component: usize,
    /// Row, counted from the component's top.
    pub y: usize,
    /// Column of the first sample.
    pub first_x: usize,
    /// At least the samples that the region needs; what is behind the component's last column means nothing.
    pub samples: &'a [u8],
}

/// One axis of a component, at a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneAxis {
    /// Samples.
    pub samples: u32,
    /// Pixels of the whole image that a sample stands for; its centre lies in the middle of them.
    pub times: u32,
    /// Whether [`Decoder::decode`] makes these pixels with a triangle filter; without, the sample is all of them.
    pub triangle: bool,
}

impl Header {
    /// The columns and rows of each component at a scale.
    ///
    /// # Errors
    /// If the image or the scale is not supported.
    pub fn planes(&self, scale: u8) -> Result<Vec<[PlaneAxis; 2]>, JpegError> {
        let layout = |scale| {
            let options = DecodeOptions { scale, max_pixels: u64::MAX, ..Default::default() };
            Layout::new(self, self.whole(scale), &options)
        };
        let (whole, scaled) = (layout(1)?, layout(scale)?);
        let planes = whole.planes.iter().zip(&scaled.planes).map(|(whole, plane)| {
            let times = |times: usize| times as u32 * u32::from(scale);
            let (wide, high) = match whole.upsample {
                _ if plane.size < whole.size => (false, false),
                Upsample::Double => (true, false),
                Upsample::Both => (true, true),
                Upsample::Between => (false, true),
                Upsample::Full | Upsample::Repeat => (false, false),
            };
            [
                PlaneAxis { samples: plane.width as u32, times: times(plane.x_times), triangle: wide },
                PlaneAxis { samples: plane.height as u32, times: times(plane.y_times), triangle: high },
            ]
        });
        Ok(planes.collect())
    }
}

impl Decoder {
    /// As [`Decoder::decode`], but calls `sink` with one row of red, green and blue each at a time; they go on behind the region.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_colours(
        &mut self,
        data: &[u8],
        header: &Header,
        region: Rect,
        options: &DecodeOptions,
        sink: &mut ColourSink<'_>,
    ) -> Result<(), JpegError> {
        self.run(data, header, region, options, &mut Output::Colours(sink))
    }

    /// Decodes what [`Decoder::decode`] needs for a region, and calls `sink` with the rows of every component, neither
    /// upsampled nor converted: those of one MCU row together, component by component, each from top to bottom.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_planes(
        &mut self,
        data: &[u8],
        header: &Header,
        region: Rect,
        options: &DecodeOptions,
        sink: &mut PlaneSink<'_>,
    ) -> Result<(), JpegError> {
        self.run(data, header, region, options, &mut Output::Planes(sink))
    }
}

/// Y, Cb and Cr to red, green and blue in place, with [`Decoder::decode`]'s rounding; equally long rows.
pub fn ycc_to_rgb(planes: [&mut [u8]; 3], scalar: bool) {
    #[cfg(target_arch = "x86_64")]
    if !scalar && super::kernels::has_avx2() {
        return super::avx2::ycc_to_rgb(planes);
    }
    let _ = scalar;
    colour::ycc_planes(planes);
}
