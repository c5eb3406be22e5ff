//! A JPEG by mozjpeg from a PPM on standard input: `mozjpeg-golden QUALITY 1x1|2x1|2x2 baseline|progressive`.
//!
//! mozjpeg's own defaults (trellis quantisation, its own tables, optimised Huffman codes), as its `cjpeg` has them.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use mozjpeg_sys::{
    J_BOOLEAN_PARAM, J_COLOR_SPACE, jpeg_c_set_bool_param, jpeg_compress_struct, jpeg_create_compress,
    jpeg_destroy_compress, jpeg_error_mgr, jpeg_finish_compress, jpeg_mem_dest, jpeg_set_defaults, jpeg_set_quality,
    jpeg_start_compress, jpeg_std_error, jpeg_write_scanlines,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [quality, sampling, kind] = arguments.as_slice() else { return Err("QUALITY SAMPLING KIND".into()) };
    let (across, down) = sampling.split_once('x').ok_or("a sampling such as 2x1")?;
    let mut source = Vec::new();
    std::io::stdin().read_to_end(&mut source)?;
    let end = source.iter().position(|&byte| byte == b'\n').ok_or("no PPM")?;
    let head: Vec<&str> = std::str::from_utf8(&source[..end])?.split(' ').collect();
    let size = (head[1].parse()?, head[2].parse()?);
    let sampling = (across.parse()?, down.parse()?);
    let encoded = encode(&source[end + 1..], size, quality.parse()?, sampling, kind == "progressive");
    std::io::stdout().write_all(&encoded)?;
    Ok(())
}

fn encode(pixels: &[u8], size: (u32, u32), quality: i32, sampling: (i32, i32), progressive: bool) -> Vec<u8> {
    assert_eq!(pixels.len(), 3 * size.0 as usize * size.1 as usize);
    // SAFETY: the calls and their order are those of libjpeg's example.c; errors end the process.
    unsafe {
        let mut errors = MaybeUninit::<jpeg_error_mgr>::zeroed().assume_init();
        let mut compress = MaybeUninit::<jpeg_compress_struct>::zeroed().assume_init();
        compress.common.err = jpeg_std_error(&mut errors);
        jpeg_create_compress(&mut compress);
        let (mut place, mut bytes) = (null_mut(), 0);
        jpeg_mem_dest(&mut compress, &mut place, &mut bytes);
        (compress.image_width, compress.image_height) = size;
        (compress.input_components, compress.in_color_space) = (3, J_COLOR_SPACE::JCS_RGB);
        jpeg_set_defaults(&mut compress);
        if !progressive {
            jpeg_c_set_bool_param(&mut compress, J_BOOLEAN_PARAM::JBOOLEAN_OPTIMIZE_SCANS, 0);
            (compress.num_scans, compress.scan_info) = (0, std::ptr::null());
        }
        jpeg_set_quality(&mut compress, quality, 1);
        (*compress.comp_info).h_samp_factor = sampling.0;
        (*compress.comp_info).v_samp_factor = sampling.1;
        jpeg_start_compress(&mut compress, 1);
        for row in pixels.chunks_exact(3 * size.0 as usize) {
            jpeg_write_scanlines(&mut compress, &row.as_ptr(), 1);
        }
        jpeg_finish_compress(&mut compress);
        let encoded = std::slice::from_raw_parts(place, bytes as usize).to_vec();
        jpeg_destroy_compress(&mut compress);
        encoded
    }
}
