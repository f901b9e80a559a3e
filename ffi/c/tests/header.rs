//! Goal: `strandline.h` says what the library is. Method: `cbindgen` makes its declarations of the Rust sources, each is put where
//! `strandline.h.in` wants it, and the result is the header that is checked in, byte for byte.
//!
//! `STRANDLINE_WRITE_HEADER=1 cargo test -p strandline-c --test header` writes it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, ItemType, Language, Style};
use strandline_c::{abi, sessions};

/// Where the numbers stand.
const NUMBERS: &[&str] = &["src/enums.rs"];
/// Where the structs and functions stand.
const REST: &[&str] = &[
    "src/abi.rs",
    "src/reader.rs",
    "src/sessions.rs",
    "src/source.rs",
    "src/subscriber.rs",
    "src/whole_tool.rs",
    "../rocprofiler/src/c_api.rs",
    "../rocprofiler/src/instant.rs",
];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source without what only Rust's callers need to know: the header says once for all what pointers must be.
fn for_c(source: &str) -> String {
    let mut out = String::new();
    let mut in_safety = false;
    for line in source.lines() {
        let doc = line.strip_prefix("///").map(str::trim);
        in_safety = match doc {
            Some("# Safety") => {
                // With the empty line before it.
                out.truncate(out.trim_end_matches("///\n").len());
                true
            }
            Some(_) => in_safety,
            None => false,
        };
        if !in_safety {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// What `cbindgen` makes of some sources: declarations by name.
fn declarations(
    sources: &[&str],
    style: Style,
    types: Vec<ItemType>,
    names: &[String],
) -> BTreeMap<String, String> {
    let mut config = Config {
        language: Language::C,
        style,
        documentation_style: DocumentationStyle::Cxx,
        line_length: 120,
        tab_width: 4,
        no_includes: true,
        ..Config::default()
    };
    config.function.prefix = Some("STRANDLINE_API".to_owned());
    config.export.include = names
        .iter()
        .map(|name| name.trim_start_matches("enum ").to_owned())
        .collect();
    // A static's wrapper; the template declares the static as C sees it.
    config.export.exclude = vec!["SessionWord".to_owned()];
    config.export.item_types = types;
    let folder = std::env::temp_dir().join(format!(
        "strandline-header-{}-{}",
        std::process::id(),
        sources.len()
    ));
    std::fs::create_dir_all(&folder).unwrap();
    let mut builder = Builder::new().with_config(config);
    for source in sources {
        let text = std::fs::read_to_string(here().join(source)).unwrap();
        let stripped = folder.join(source.replace(['/', '.'], "_") + ".rs");
        std::fs::write(&stripped, for_c(&text)).unwrap();
        builder = builder.with_src(stripped);
    }
    let bindings = builder.generate().expect("cbindgen reads the sources");
    let mut text = Vec::new();
    bindings.write(&mut text);
    std::fs::remove_dir_all(&folder).unwrap();
    // Declarations stand apart by an empty line; none has one inside.
    let text = String::from_utf8(text).unwrap();
    text.split("\n\n")
        .map(|block| block.trim_matches('\n'))
        .filter(|block| !block.is_empty())
        .map(|block| (name_of(block), block.to_owned()))
        .collect()
}

/// The name that a declaration declares.
fn name_of(block: &str) -> String {
    let code = block
        .lines()
        .find(|line| !line.starts_with("///") && *line != "STRANDLINE_API")
        .unwrap_or_else(|| panic!("no declaration: {block}"));
    let until = code.split(['(', '{', ';']).next().unwrap();
    let words: Vec<&str> = until
        .split([' ', '*'])
        .filter(|word| !word.is_empty())
        .collect();
    match words[0] {
        "#define" => words[1].to_owned(),
        // A name of its own: a function may have the same.
        "enum" => words.join(" "),
        _ => words[words.len() - 1].to_owned(),
    }
}

/// The lines that assert the layout, with the numbers that Rust asserts.
fn layout() -> String {
    let mut out = String::new();
    for (name, bytes, fields) in abi::STRUCTS {
        let (last, offset) = fields.last().expect("a struct has its size");
        writeln!(out, "STRANDLINE_LAYOUT({name}, {bytes}, {last}, {offset});").unwrap();
    }
    out.pop();
    out
}

fn header() -> String {
    let template = std::fs::read_to_string(here().join("strandline.h.in")).unwrap();
    let place = |line: &str| -> Option<String> {
        let name = line.strip_prefix('@')?.strip_suffix('@')?;
        (name != "layout").then(|| name.to_owned())
    };
    let names: Vec<String> = template.lines().filter_map(place).collect();
    // An enum is a tag only: `strandline_status` is also a function.
    let mut found = declarations(
        NUMBERS,
        Style::Tag,
        vec![ItemType::Enums, ItemType::Constants],
        &names,
    );
    found.extend(declarations(
        REST,
        Style::Both,
        vec![
            ItemType::Structs,
            ItemType::OpaqueItems,
            ItemType::Functions,
        ],
        &names,
    ));
    let mut out = String::new();
    for line in template.lines() {
        let text = match place(line) {
            Some(name) => found.remove(&name).unwrap_or_else(|| {
                panic!("the template wants {name}, which Rust does not have, or wants it twice")
            }),
            None if line == "@layout@" => layout(),
            None => line.replace("@version@", &format!("{}u", sessions::strandline_version())),
        };
        out.push_str(&text);
        out.push('\n');
    }
    assert!(found.is_empty(), "not in the template: {:?}", found.keys());
    out
}

#[test]
fn the_header_is_what_cbindgen_makes_of_the_sources() {
    let path: PathBuf = here().join("../include/strandline.h");
    let made = header();
    if std::env::var_os("STRANDLINE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    let differs = made
        .lines()
        .zip(known.lines())
        .position(|(made, known)| made != known);
    if let Some(line) = differs {
        panic!(
            "line {}: the header says\n{}\nand the sources\n{}\nSTRANDLINE_WRITE_HEADER=1 writes it",
            line + 1,
            known.lines().nth(line).unwrap_or_default(),
            made.lines().nth(line).unwrap_or_default()
        );
    }
    assert_eq!(
        made.len(),
        known.len(),
        "one of them goes on; STRANDLINE_WRITE_HEADER=1 writes it"
    );
}
