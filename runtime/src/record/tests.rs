//! Edge sizes of records, and that no run of words makes the parser panic or step beyond it.

use super::*;
use proptest::prelude::*;

fn words(kind: Kind, cells: usize) -> Vec<u64> {
    let mut words = vec![0; cells * CELL_WORDS];
    words[0] = head_word(kind, cells, 0, 7);
    words
}

#[test]
fn sizes_at_the_edges() {
    for cells in [1, 2, 15, 16] {
        let words = words(Kind::String, cells);
        let record = Record::parse(&words).unwrap();
        assert_eq!((record.cells(), record.session()), (cells, 7));
    }
    let none = vec![head_word(Kind::String, 0, 0, 0); 8];
    assert_eq!(
        Record::parse(&none).unwrap_err(),
        RecordError::Size { cells: 0, left: 1 }
    );
    let many = words(Kind::String, 17);
    assert_eq!(
        Record::parse(&many).unwrap_err(),
        RecordError::Size {
            cells: 17,
            left: 17
        }
    );
    let short = &words(Kind::Dispatch, 2)[..8];
    assert_eq!(
        Record::parse(short).unwrap_err(),
        RecordError::Size { cells: 2, left: 1 }
    );
    assert!(Record::parse(&[]).is_err());
}

#[test]
fn a_known_kind_of_a_wrong_size_is_refused() {
    let words = words(Kind::Enqueue, 2);
    assert_eq!(
        Record::parse(&words).unwrap_err(),
        RecordError::KindSize { kind: 2, cells: 2 }
    );
}

#[test]
fn an_unknown_kind_is_skipped_by_its_size() {
    let mut words = words(Kind::Mark, 3);
    words[0] = (words[0] & !0xff) | 200;
    words.extend(self::words(Kind::Mark, 1));
    let kinds: Vec<_> = Records::new(&words)
        .map(|record| record.unwrap().kind())
        .collect();
    assert_eq!(kinds, [None, Some(Kind::Mark)]);
}

#[test]
fn kind_numbers_round_trip() {
    for value in 0..=255 {
        if let Some(kind) = Kind::from_u8(value) {
            assert_eq!(kind as u8, value);
            assert_eq!(kind.is_sticky(), value >= 64);
        }
    }
}

proptest! {
    #[test]
    fn any_words_parse_or_fail_within_their_bounds(words in prop::collection::vec(any::<u64>(), 0..64)) {
        let words = &words[..words.len() / CELL_WORDS * CELL_WORDS];
        let mut cells = 0;
        for record in Records::new(words).flatten() {
            cells += record.cells();
            let _ = (record.kind(), record.grid(), record.block(), record.bytes(), record.external_id());
        }
        prop_assert!(cells * CELL_WORDS <= words.len());
    }
}
