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
        Ok(text) => tidy(&plain_literals(&text)).into_bytes(),
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
            let digits = after[sign..].bytes().take_while(u8::is_ascii_digit).count();
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

/// More things as `c++filt` writes them:
///
/// * functions that only scope something else (a lambda's function, say) without their return type:
///   `void f<int>(int)::{lambda(int)#1}` as an argument is `f<int>(int)::{lambda(int)#1}`;
/// * the `const` of a reference to a lambda behind the lambda: the library writes it behind one of the lambda's
///   parameters, where no mangled name can have one, and sometimes its `&` behind another;
/// * the `*` of a pointer to a member type behind that type's name.
fn tidy(text: &str) -> String {
    let mut scan = Scan {
        rest: text.as_bytes(),
        out: Vec::with_capacity(text.len()),
        depth: 0,
    };
    let whole = scan.item();
    match String::from_utf8(scan.out) {
        Ok(done) if whole && scan.rest.is_empty() => done,
        // Not balanced, as far as this small parser understands it.
        _ => text.to_owned(),
    }
}

/// Nesting beyond this is left as it is.
const DEPTH_MAX: usize = 200;

struct Scan<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
    depth: usize,
}

impl Scan<'_> {
    fn copy(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.out.extend_from_slice(taken);
        self.rest = rest;
    }

    /// One argument, up to the `,`, `>` or `)` behind it, or the end. False when it is not balanced.
    fn item(&mut self) -> bool {
        self.depth += 1;
        let sound = self.depth < DEPTH_MAX && self.item_inside();
        self.depth -= 1;
        sound
    }

    fn item_inside(&mut self) -> bool {
        if self.rest.starts_with(b" ") {
            self.copy(1);
        }
        let start = self.out.len();
        // Where the name behind a return type would begin.
        let mut name = None;
        while let Some(&byte) = self.rest.first() {
            if self.rest.starts_with(b"(anonymous namespace)") {
                self.copy(b"(anonymous namespace)".len());
            } else if self.rest.starts_with(b"operator") {
                self.copy(b"operator".len());
                let symbol = match self.rest {
                    [b'(', b')', ..] => 2,
                    rest => rest
                        .iter()
                        .take_while(|byte| b"<>=!-+*/&|^~%".contains(byte))
                        .count(),
                };
                self.copy(symbol);
            } else if matches!(byte, b'<' | b'(') {
                let lambda = byte == b'(' && self.out.ends_with(b"{lambda");
                let mut lambda_const = false;
                let mut reference = None;
                self.copy(1);
                let close = if byte == b'<' { b'>' } else { b')' };
                while self.rest.first() != Some(&close) {
                    if !self.item() {
                        return false;
                    }
                    if lambda && self.out.ends_with(b" const") {
                        self.out.truncate(self.out.len() - b" const".len());
                        lambda_const = true;
                    }
                    if lambda && self.out.ends_with(b"&") {
                        reference = Some(self.out.len() - 1);
                    }
                    match self.rest.first() {
                        // An empty pack is nothing, without a comma before it.
                        Some(b',') if self.rest[1..].starts_with(&[b' ', close]) => {
                            self.rest = &self.rest[2..];
                        }
                        Some(b',') => self.copy(1),
                        Some(found) if *found == close => {}
                        _ => return false,
                    }
                }
                self.copy(1);
                if lambda_const {
                    let number = self.rest.iter().position(|&byte| byte == b'}');
                    self.copy(number.map_or(0, |at| at + 1));
                    self.out.extend_from_slice(b" const");
                    // Only references keep a `const` at all; the `&` may have gone astray as well.
                    if let (false, Some(at)) = (self.rest.starts_with(b"&"), reference) {
                        self.out.remove(at);
                        self.out.push(b'&');
                    }
                }
                if byte == b'<' && self.rest.starts_with(b"*::") {
                    // The `*` of a pointer to a member type, behind its scope instead of behind itself.
                    self.rest = &self.rest[1..];
                    let name = self.rest[2..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                        .count();
                    self.copy(2 + name);
                    self.out.push(b'*');
                }
                let scopes = self.rest.starts_with(b"::") || self.rest.starts_with(b" const::");
                if byte == b'(' && scopes && self.depth > 1 {
                    if let Some(name) = name.take() {
                        self.out.drain(start..name);
                    }
                    if self.rest.starts_with(b" ") {
                        self.copy(b" const".len());
                    }
                }
            } else if matches!(byte, b',' | b'>' | b')') {
                // `->` is no bracket.
                if byte == b'>' && self.out.last() == Some(&b'-') {
                    self.copy(1);
                    continue;
                }
                return true;
            } else {
                self.copy(1);
                if byte == b' ' {
                    name = Some(self.out.len());
                }
            }
        }
        true
    }
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
    fn lambdas_and_member_types_as_cxxfilt_writes_them() {
        for (found, expected) in [
            (
                "void k<4, void f<int>(int)::{lambda(int)#1}>(int)",
                "void k<4, f<int>(int)::{lambda(int)#1}>(int)",
            ),
            (
                "void k<a>(b, f(c&)::{lambda()#1}::operator()() const::{lambda(d const, e)#2}&)",
                "void k<a>(b, f(c&)::{lambda()#1}::operator()() const::{lambda(d, e)#2} const&)",
            ),
            (
                "void k<a>(f()::{lambda(d const, e&)#1})",
                "void k<a>(f()::{lambda(d, e)#1} const&)",
            ),
            (
                "void k<a>(unsigned int, b<c>*::value_type)",
                "void k<a>(unsigned int, b<c>::value_type*)",
            ),
            ("k<a<b>, >(a<b>, )", "k<a<b>>(a<b>)"),
            ("(anonymous namespace)::k(a)", "(anonymous namespace)::k(a)"),
            ("k<&a::operator-><b> >(c)", "k<&a::operator-><b> >(c)"),
            ("not ) balanced <", "not ) balanced <"),
        ] {
            assert_eq!(tidy(found), expected);
        }
    }

    #[test]
    fn what_is_not_mangled_stays() {
        assert_eq!(display("__amd_rocclr_initHeap.kd"), "__amd_rocclr_initHeap");
        assert_eq!(display("_Znonsense"), "_Znonsense");
        assert_eq!(display(""), "");
        assert_eq!(display_name(b"\xff\xfe.kd"), b"\xff\xfe");
    }
}
