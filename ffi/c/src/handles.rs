//! Handles: pointers in C's type system, tickets in truth.
//!
//! A handle's value is odd and is never followed: it holds a slot's number, the slot's generation and the kind of
//! thing. A handle that was closed, or that belongs to something else, is noticed and answered with
//! `STRANDLINE_BAD_HANDLE`. What a handle stands for is shared: a function that is at work while another thread closes the
//! handle finishes its work.
//!
//! Takes a lock for a moment; not for callbacks.

use std::sync::{Arc, RwLock};

use strandline::Status;

use crate::border::not_forked;

/// Handles of one kind that can be open at once.
const HANDLES_MAX: usize = 1 << 16;

/// All handles of one kind.
#[derive(Debug)]
pub struct Handles<T> {
    /// Odd: the low 8 bits of every handle of this kind.
    tag: usize,
    slots: RwLock<Vec<Slot<T>>>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: usize,
    value: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// An empty table.
    pub const fn new(tag: u8) -> Self {
        assert!(
            tag & 1 == 1,
            "a handle must not look like an aligned pointer"
        );
        Self {
            tag: tag as usize,
            slots: RwLock::new(Vec::new()),
        }
    }

    /// A handle for a value.
    ///
    /// # Errors
    /// [`Status::TooManyHandles`], [`Status::NotReady`] in a forked child.
    pub fn open(&self, value: Arc<T>) -> Result<usize, Status> {
        not_forked()?;
        let mut slots = self
            .slots
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = slots.iter().position(|slot| slot.value.is_none());
        let index = match free {
            Some(index) => index,
            None if slots.len() < HANDLES_MAX => {
                slots.push(Slot {
                    generation: 0,
                    value: None,
                });
                slots.len() - 1
            }
            None => return Err(Status::TooManyHandles),
        };
        let slot = &mut slots[index];
        slot.generation = (slot.generation + 1) & 0xff_ffff_ffff;
        slot.value = Some(value);
        Ok(slot.generation << 24 | index << 8 | self.tag)
    }

    /// What a handle stands for.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] for null, [`Status::BadHandle`], [`Status::NotReady`] in a forked child.
    pub fn get(&self, handle: usize) -> Result<Arc<T>, Status> {
        not_forked()?;
        let index = self.index(handle)?;
        let slots = self
            .slots
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match slots.get(index) {
            Some(slot) if slot.generation == handle >> 24 => {
                slot.value.clone().ok_or(Status::BadHandle)
            }
            _ => Err(Status::BadHandle),
        }
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// As [`Handles::get`].
    pub fn close(&self, handle: usize) -> Result<(), Status> {
        not_forked()?;
        let index = self.index(handle)?;
        let value = {
            let mut slots = self
                .slots
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            match slots.get_mut(index) {
                Some(slot) if slot.generation == handle >> 24 => slot.value.take(),
                _ => None,
            }
        };
        // Dropped here, outside the lock.
        value.map(drop).ok_or(Status::BadHandle)
    }

    fn index(&self, handle: usize) -> Result<usize, Status> {
        match handle {
            0 => Err(Status::InvalidArgument),
            handle if handle & 0xff == self.tag => Ok(handle >> 8 & 0xffff),
            _ => Err(Status::BadHandle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_foreign_and_made_up_handles_are_noticed() {
        let numbers: Handles<u32> = Handles::new(0x51);
        let others: Handles<u32> = Handles::new(0x53);
        let first = numbers.open(Arc::new(7)).unwrap();
        assert_eq!(numbers.get(first).as_deref(), Ok(&7));
        assert_eq!(others.get(first), Err(Status::BadHandle));
        assert_eq!(numbers.close(first), Ok(()));
        assert_eq!(numbers.close(first), Err(Status::BadHandle));
        let second = numbers.open(Arc::new(8)).unwrap();
        assert_ne!(first, second, "the slot is the same, the handle is not");
        assert_eq!(numbers.get(first), Err(Status::BadHandle));
        assert_eq!(numbers.get(0), Err(Status::InvalidArgument));
        for made_up in [1, 0x51, usize::MAX, 0x7fff_ffff_f051] {
            assert_eq!(numbers.get(made_up), Err(Status::BadHandle));
        }
    }
}
