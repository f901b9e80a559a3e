//! What to trace: `STRANDLINE_KINDS`, `STRANDLINE_EXCLUDE_API`, `STRANDLINE_RETIREMENT`.

use strandline::settings::SettingError;
use strandline_rocprofiler_sys::hip::{self, KINETO_EXCLUDED_OPERATIONS};

/// Which services are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// HIP runtime API calls.
    pub hip: bool,
    /// HIP compiler API calls.
    pub compiler: bool,
    /// Kernel dispatches.
    pub dispatch: bool,
    /// Memory copies.
    pub copy: bool,
    /// Device memory allocations.
    pub alloc: bool,
    /// Scratch memory.
    pub scratch: bool,
    /// roctx ranges and marks.
    pub marker: bool,
    /// Correlation-id retirement, the proof for work that the SDK could not time.
    pub retirement: bool,
    /// API names that are not traced; a trailing `*` matches any rest.
    pub exclude_api: Vec<String>,
}

impl Options {
    /// Reads the options through `lookup`.
    ///
    /// # Errors
    /// [`SettingError`] for the first bad value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let mut options = Self {
            hip: true,
            compiler: false,
            dispatch: true,
            copy: true,
            alloc: true,
            scratch: true,
            marker: true,
            retirement: true,
            exclude_api: KINETO_EXCLUDED_OPERATIONS
                .iter()
                .filter_map(|&op| hip::hip_operation_name(op))
                .map(str::to_owned)
                .collect(),
        };
        let list = |text: &str| -> Vec<String> {
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        };
        if let Some(kinds) = lookup("STRANDLINE_KINDS").filter(|kinds| !kinds.is_empty()) {
            let named = |name: &str| {
                list(&kinds)
                    .iter()
                    .any(|kind| kind == name || kind == "all")
            };
            for kind in list(&kinds) {
                const KNOWN: [&str; 9] = [
                    "hip", "compiler", "dispatch", "copy", "alloc", "scratch", "marker", "roctx",
                    "all",
                ];
                if !KNOWN.contains(&kind.as_str()) {
                    return Err(SettingError {
                        name: "STRANDLINE_KINDS",
                        value: kind,
                        expected: "a list of hip, compiler, dispatch, copy, alloc, scratch, marker, all",
                    });
                }
            }
            options.hip = named("hip");
            options.compiler = named("compiler");
            options.dispatch = named("dispatch");
            options.copy = named("copy");
            options.alloc = named("alloc");
            options.scratch = named("scratch");
            options.marker = named("marker") || named("roctx");
        }
        if let Some(names) = lookup("STRANDLINE_EXCLUDE_API") {
            options.exclude_api = list(&names)
                .into_iter()
                .filter(|name| name != "none")
                .collect();
        }
        match lookup("STRANDLINE_RETIREMENT").as_deref() {
            None | Some("" | "on") => {}
            Some("off") => options.retirement = false,
            Some(value) => {
                return Err(SettingError {
                    name: "STRANDLINE_RETIREMENT",
                    value: value.to_owned(),
                    expected: "on or off",
                });
            }
        }
        Ok(options)
    }

    /// True when API calls of that name are not traced.
    pub fn excludes(&self, name: &str) -> bool {
        self.exclude_api
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options, SettingError> {
        Options::from_lookup(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn defaults_leave_out_what_kineto_leaves_out() {
        let options = options(&[]).unwrap();
        assert!(options.excludes("hipGetDevice") && !options.excludes("hipGetDeviceFlags"));
        assert!(options.hip && options.dispatch && !options.compiler && options.retirement);
    }

    #[test]
    fn lists_replace_the_defaults_and_bad_words_are_named() {
        let set = options(&[
            ("STRANDLINE_KINDS", "dispatch, roctx"),
            ("STRANDLINE_EXCLUDE_API", "hipMemcpy*,hipFree"),
        ])
        .unwrap();
        assert!(set.dispatch && set.marker && !set.hip && !set.copy);
        assert!(
            set.excludes("hipMemcpyAsync")
                && set.excludes("hipFree")
                && !set.excludes("hipGetDevice")
        );
        assert!(
            options(&[("STRANDLINE_EXCLUDE_API", "none")])
                .unwrap()
                .exclude_api
                .is_empty()
        );
        assert_eq!(
            options(&[("STRANDLINE_KINDS", "hip,hsaa")])
                .unwrap_err()
                .value,
            "hsaa"
        );
        assert_eq!(
            options(&[("STRANDLINE_RETIREMENT", "maybe")])
                .unwrap_err()
                .name,
            "STRANDLINE_RETIREMENT"
        );
    }
}
