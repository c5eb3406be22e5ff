//! Which sample a member belongs to (github.com/webdataset/webdataset, `base_plus_ext`): "dir/000.seg.png" is "seg.png" of
//! the sample "dir/000".

use std::borrow::Cow;

/// Key and extension of a member's name; None if it belongs to no sample: a hidden file, one without an extension, or one
/// below "__meta__/".
#[inline]
#[must_use]
pub fn split(name: &str) -> Option<(&str, &str)> {
    let base = name.bytes().rposition(|byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = name[base..].bytes().position(|byte| byte == b'.')?;
    let (key, extension) = (&name[..base + dot], &name[base + dot + 1..]);
    if dot == 0 || extension.is_empty() || (name.starts_with("__") && is_meta(name)) {
        return None;
    }
    Some((key, extension))
}

#[cold]
fn is_meta(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or(name);
    first.len() >= 4 && first.ends_with("__")
}

/// An extension in lower case, which is how columns name it.
#[inline]
#[must_use]
pub fn lower(extension: &str) -> Cow<'_, str> {
    if extension.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(extension);
    }
    Cow::Owned(extension.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_webdataset_does() {
        for (name, key, extension) in [
            ("000.jpg", "000", "jpg"),
            ("./a.b/000.seg.png", "./a.b/000", "seg.png"),
            ("/abs/x.cls", "/abs/x", "cls"),
            ("../x.cls", "../x", "cls"),
            ("__a.jpg", "__a", "jpg"),
            ("a/__x__/b.jpg", "a/__x__/b", "jpg"),
            ("ä.JPG", "ä", "JPG"),
        ] {
            assert_eq!(split(name), Some((key, extension)));
        }
        for name in ["README", "a.b/README", ".hidden", "a/._x.jpg", "x.", "__meta__/a.json", "__a.b__", "", "a/"] {
            assert_eq!(split(name), None, "{name}");
        }
        assert_eq!((lower("Seg.PNG"), lower("É")), ("seg.png".into(), "é".into()));
    }
}
