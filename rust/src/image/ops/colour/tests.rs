//! Properties of all changes of colours: the same bits with all instructions, whatever the canvases held before.

use proptest::prelude::*;

use super::super::super::canvas::Canvas;
use super::super::super::chain::Whole;
use super::super::super::simd::Level;
use super::*;
use crate::core::keys::Rng;

fn changes(number: f64, key: u64) -> Vec<Change> {
    let size = [1, 3, 5, 23][key as usize % 4];
    vec![
        brightness(number * 3.0),
        contrast(number * 3.0),
        saturation(number * 3.0),
        hue(number - 0.5),
        sharpness(number * 3.0),
        grey(),
        autocontrast(),
        equalize(),
        invert(),
        posterize(key as u32 % 9),
        solarize(number * 255.0),
        shuffled(vec![2, 0, 1]),
        blur((size, 5), 0.1 + number * 3.0),
        jpeg(1 + (number * 99.0) as u8),
    ]
}

/// Extremes, pixels without colour, and all between; `planes` of them, and another number between the rows.
fn canvas(size: (u32, u32), planes: usize, key: u64, between: u8) -> Canvas {
    let (mut canvas, mut rng) = (Canvas::default(), Rng::new(key));
    canvas.reset(size, planes).unwrap();
    canvas.bytes_mut().fill(between);
    for y in 0..canvas.height() {
        for x in 0..canvas.width() {
            let grey = (rng.below(5) == 0).then(|| rng.below(256) as u8);
            for plane in 0..planes {
                let own = [0, 255, rng.below(256) as u8, rng.below(256) as u8][rng.below(4) as usize];
                canvas.plane_mut(y, plane)[x] = grey.unwrap_or(own);
            }
        }
    }
    canvas
}

fn changed(change: &Change, mut canvas: Canvas, level: Level) -> Vec<Vec<u8>> {
    let mut spare = self::canvas((40, 9), 3, 1, 77);
    change.run(&mut canvas, &mut spare, level).unwrap();
    canvas.each_plane().map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn changes_are_the_same_with_all_instructions_and_whatever_was_there(
        size in (1_u32..70, 1_u32..40),
        is_grey: bool,
        number in 0.0..1.0,
        key: u64,
    ) {
        let planes = if is_grey { 1 } else { 3 };
        for change in changes(number, key) {
            if is_grey && format!("{change:?}").contains("Shuffled") {
                continue;
            }
            let expected = changed(&change, canvas(size, planes, key, 0), Level::Scalar);
            let found = changed(&change, canvas(size, planes, key, 255), Level::best());
            prop_assert!(found == expected, "{change:?}");
        }
    }
}

#[test]
fn numbers_stay_at_the_ends_of_every_range() {
    for change in [brightness(1.0), contrast(1.0), saturation(1.0), sharpness(1.0), posterize(8), solarize(256.0)] {
        let before = canvas((33, 17), 3, 5, 0);
        let expected: Vec<Vec<u8>> = before.each_plane().map(<[u8]>::to_vec).collect();
        assert_eq!(changed(&change, before, Level::best()), expected, "{change:?}");
    }
}
