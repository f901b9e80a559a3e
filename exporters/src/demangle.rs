//! Kernel names as people read them.

use cpp_demangle::{DemangleOptions, Symbol};

/// Suffix of the symbol of a kernel's descriptor, which the SDK gives as the kernel's name.
const DESCRIPTOR_SUFFIX: &[u8] = b".kd";

/// The mangled name without the suffix of its descriptor symbol.
pub fn strip_descriptor(name: &[u8]) -> &[u8] {
    name.strip_suffix(DESCRIPTOR_SUFFIX).unwrap_or(name)
}

/// A kernel's name for display: without the descriptor's suffix and demangled. What is not mangled, cannot be
/// demangled, or is no UTF-8 comes back as it is.
///
/// The form is that of binutils' `c++filt` (`16u`, `8ul`, `true`).
pub fn display_name(name: &[u8]) -> Vec<u8> {
    let name = strip_descriptor(name);
    if !name.starts_with(b"_Z") {
        return name.to_vec();
    }
    let Ok(symbol) = Symbol::new(name) else {
        return name.to_vec();
    };
    match symbol.demangle_with_options(&DemangleOptions::default()) {
        Ok(text) => plain_literals(&text).into_bytes(),
        Err(_) => name.to_vec(),
    }
}

/// Integer literals the way `c++filt` writes them: `(unsigned int)16` is `16u`.
fn plain_literals(text: &str) -> String {
    const SUFFIXES: [(&str, &str); 7] = [
        ("(unsigned long long)", "ull"),
        ("(unsigned long)", "ul"),
        ("(unsigned int)", "u"),
        ("(long long)", "ll"),
        ("(long)", "l"),
        ("(int)", ""),
        ("(bool)", ""),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    'next: while let Some(at) = rest.find('(') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        for (cast, suffix) in SUFFIXES {
            let Some(after) = rest.strip_prefix(cast) else {
                continue;
            };
            let sign = usize::from(after.starts_with('-'));
            let digits = after[sign..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            if digits == 0 {
                break;
            }
            let (number, left) = after.split_at(sign + digits);
            match (cast, number) {
                ("(bool)", "0") => out.push_str("false"),
                ("(bool)", "1") => out.push_str("true"),
                _ => {
                    out.push_str(number);
                    out.push_str(suffix);
                }
            }
            rest = left;
            continue 'next;
        }
        out.push('(');
        rest = &rest[1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(name: &str) -> String {
        String::from_utf8(display_name(name.as_bytes())).unwrap()
    }

    #[test]
    fn names_as_cxxfilt_writes_them() {
        assert_eq!(display("_Z3addPfS_.kd"), "add(float*, float*)");
        assert_eq!(
            display("_ZN2at6native12fill_reverseILj16ELm8ELb1ELi3ELin4EEEvv.kd"),
            "void at::native::fill_reverse<16u, 8ul, true, 3, -4>()"
        );
    }

    #[test]
    fn what_is_not_mangled_stays() {
        assert_eq!(display("__amd_rocclr_initHeap.kd"), "__amd_rocclr_initHeap");
        assert_eq!(display("_Znonsense"), "_Znonsense");
        assert_eq!(display(""), "");
        assert_eq!(display_name(b"\xff\xfe.kd"), b"\xff\xfe");
    }
}
