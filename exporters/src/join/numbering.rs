//! Numbers of device work in outputs that name each piece: a launch knows those of all its work before any of it is
//! written, from its id and the count alone, and no table of what lies before it is needed.
//!
//! The lowest two bits say how the rest is made, so that no two pieces have one number:
//!
//! | bits | work | the rest |
//! |---|---|---|
//! | 0 | of a launch that has one | the launch's id |
//! | 1 | of a launch that has 2 to 64 | the id, and 6 bits that count |
//! | 2 | that leads to no launch | counted |
//! | 3 | of a launch that has more | the id, as many bits that count as the next two say: 10, 14, 18 or 32, and those two |

const FEW_BITS: u32 = 6;
const MANY_BITS: [u32; 4] = [10, 14, 18, 32];

/// The first number of a launch with so much work.
#[inline]
pub(super) fn first(id: u64, count: u32) -> u64 {
    match count {
        0 => 0,
        1 => id.wrapping_mul(4),
        2..=64 => id.wrapping_mul(4 << FEW_BITS) + 1,
        _ => first_of_many(id, count),
    }
}

#[cold]
fn first_of_many(id: u64, count: u32) -> u64 {
    let holds = |&bits: &u32| u64::from(count) <= 1 << bits;
    let way = MANY_BITS.iter().position(holds).unwrap_or(3);
    id.wrapping_mul(16 << MANY_BITS[way]) + (way as u64) * 4 + 3
}

/// How far the numbers of a launch's work lie apart.
#[inline]
pub(crate) fn step(first: u64) -> u64 {
    if first & 3 == 3 { 16 } else { 4 }
}

/// The number of work that leads to no launch.
pub(super) fn unlinked(counted: u64) -> u64 {
    counted * 4 + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_pieces_have_one_number() {
        let mut all = HashSet::new();
        let mut pieces = 0;
        for id in (1..70).chain([1 << 20, (1 << 28) - 1]) {
            let count = [1, 2, 64, 65, 1024, 1025, 16_385, 300_000][id as usize % 8];
            let first = first(id, count);
            all.extend((0..u64::from(count)).map(|before| first + before * step(first)));
            all.insert(unlinked(id));
            pieces += count as usize + 1;
        }
        assert_eq!(all.len(), pieces);
        assert_eq!((first(7, 1), first(7, 2), step(first(7, 2))), (28, 1793, 4));
    }
}
