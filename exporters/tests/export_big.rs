//! A region with far more records than are held in memory at once: everything comes out, in parts that each load by
//! themselves. `--example export_big` is the same at any size, with figures.

#[path = "export_support/big.rs"]
mod big;

use std::path::PathBuf;

use strandline::Trace;
use strandline_exporters::{Options, export};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn many_blocks_compressed_on_any_number_of_threads_are_one_member_with_the_same_bytes() {
    use std::io::Read;
    let folder = std::env::temp_dir().join(format!("strandline-gzip-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    let region = folder.0.join("big.slt");
    big::write_region(&region, 50_000).unwrap();
    let traces = [Trace::open(&region).unwrap()];
    let bytes = |name: &str, threads| {
        let options = Options {
            force: true,
            threads,
            ..Options::default()
        };
        let path = folder.0.join(name);
        export(&traces, &path, &options).unwrap();
        std::fs::read(path).unwrap()
    };
    let packed = bytes("big.json.gz", 1);
    for threads in [2, 5] {
        assert!(bytes("big.json.gz", threads) == packed, "{threads} threads");
    }
    let mut text = Vec::new();
    let mut decoder = flate2::bufread::GzDecoder::new(&packed[..]);
    decoder.read_to_end(&mut text).unwrap();
    assert!(decoder.into_inner().is_empty(), "one member");
    let plain = bytes("big.json", 3);
    assert!(plain.len() > 8 << 20, "many blocks");
    // The last line has the file's own name.
    assert!(plain[..plain.len() - 100] == text[..text.len() - 103]);
}

#[test]
fn a_million_records_of_64_lanes_come_out_in_parts_to_the_last_one() {
    let folder = std::env::temp_dir().join(format!("strandline-big-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    let region = folder.0.join("big.slt");
    let written = big::write_region(&region, 1_000_000).unwrap();
    let traces = [Trace::open(&region).unwrap()];
    assert_eq!(traces[0].damage(), []);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for threads in [1, 3] {
        let options = Options {
            part_bytes_max: Some(50_000_000),
            batch_records_max: 100_000,
            force: true,
            threads,
            ..Options::default()
        };
        let report = export(&traces, &folder.0.join("big.json"), &options).unwrap();
        assert!(report.files.len() > 3, "{:?}", report.files);
        for file in &report.files {
            assert!(file.metadata().unwrap().len() <= 50_000_000);
        }
        let (counts, _) = big::count_json(&report.files);
        // A kernel in another part than its call has no arrow there; nothing else may be missing.
        assert_eq!(
            big::Counts {
                arrows: counts.arrows + report.cut_arrows,
                ..counts
            },
            written
        );
        assert!(counts.arrows > written.arrows - 100 && counts.arrows == report.arrows);
        texts.push(std::fs::read(&report.files[2]).unwrap());

        let options = Options {
            part_bytes_max: Some(20_000_000),
            ..options
        };
        let report = export(&traces, &folder.0.join("big.pftrace"), &options).unwrap();
        assert!(report.files.len() > 3, "{:?}", report.files);
        for file in &report.files {
            assert!(file.metadata().unwrap().len() <= 20_000_000);
        }
        let counts = big::count_perfetto(&report.files);
        // An arrow is where a call and its kernel lie in one part.
        assert_eq!(
            big::Counts {
                arrows: counts.arrows + report.cut_arrows,
                ..counts
            },
            written
        );
        assert!(counts.arrows > written.arrows - 100 && counts.arrows == report.arrows);
        texts.push(std::fs::read(&report.files[2]).unwrap());
    }
    assert!(
        texts[0] == texts[2] && texts[1] == texts[3],
        "any number of threads"
    );
}
