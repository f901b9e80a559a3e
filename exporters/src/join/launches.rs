//! What writers ask about launches, whether all of them are in a table or those of one stretch of time.

use super::numbering;
use super::pages::{GROUP_IDS, GROUPS, Pages, bit};
use super::window::Window;

/// Which calls there are and how much device work each one caused.
///
/// All of them where they have room. Where they do not, each stretch of time comes with what it needs to know: see
/// [`crate::windows`].
#[derive(Debug)]
pub(crate) struct LaunchTable {
    /// Page `n` lies in `pages[n % pages.len()]`, a power of two; none where stretches come with their own.
    pages: Vec<Pages>,
    window: Window,
    /// Groups that were looked up lately, each at a place of its own: threads and streams come in turns.
    recent: [Group; RECENT],
    unlinked: u64,
}

const RECENT: usize = 16;

/// What is known of 64 ids, a bit each.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The ids divided by 64.
    number: u64,
    /// There is a recorded call, and none has claimed its work.
    unclaimed: u64,
    /// Drawn work leads to a recorded call.
    work: u64,
    /// Its place in its share; of a group that lies in one.
    at: u32,
    /// True when a call may have more than one kernel.
    has_many: bool,
}

impl Group {
    /// The number of no group.
    const NONE: Self = Self {
        number: u64::MAX,
        unclaimed: 0,
        work: 0,
        at: 0,
        has_many: false,
    };
}

impl Default for LaunchTable {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl LaunchTable {
    /// A table of pages that are shared out by their numbers; without any, stretches come with what is known.
    pub(super) fn of(pages: Vec<Pages>) -> Self {
        Self {
            pages,
            window: Window::default(),
            recent: [Group::NONE; RECENT],
            unlinked: 0,
        }
    }

    /// Memory that it has, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.iter().map(Pages::bytes).sum()
    }

    /// Replaces what is known of the launches of one stretch; only where there are no pages. Gives the one before.
    pub(crate) fn enter(&mut self, window: &mut Window) {
        std::mem::swap(&mut self.window, window);
        self.recent = [Group::NONE; RECENT];
    }

    #[inline]
    fn share(&self, group: u64) -> usize {
        (group / GROUPS) as usize & self.pages.len().wrapping_sub(1)
    }

    /// Tally drawn device work that leads to call `id`. Not once anything was looked up.
    pub(crate) fn add_work(&mut self, id: u64) {
        let share = self.share(id / GROUP_IDS);
        if let Some(pages) = self.pages.get_mut(share) {
            pages.add_work(id, 1);
        }
    }

    /// True when all work leads to a call by its own correlation id.
    pub(crate) fn is_linked(&self) -> bool {
        self.pages.iter().all(Pages::is_linked)
    }

    /// Forgets all work that was counted, not the calls.
    pub(crate) fn forget_work(&mut self) {
        self.pages.iter_mut().for_each(Pages::forget_work);
    }

    /// Forgets work that leads to no call. Call after the last [`LaunchTable::add_work`], unless all work is linked.
    pub(crate) fn forget_strays(&mut self) {
        self.pages.iter_mut().for_each(Pages::forget_strays);
    }

    /// True when a call with that id was noted; before the first claim.
    #[inline]
    pub(crate) fn is_noted(&self, id: u64) -> bool {
        let pages = self.pages.get(self.share(id / GROUP_IDS));
        id != 0 && pages.is_some_and(|pages| pages.is_noted(id))
    }

    /// What is known of the ids beside this one.
    #[inline]
    fn group(&mut self, id: u64) -> &mut Group {
        let number = id / GROUP_IDS;
        let place = number as usize % RECENT;
        if self.recent[place].number != number {
            self.recent[place] = self.look_up(number);
        }
        &mut self.recent[place]
    }

    #[inline(never)]
    fn look_up(&self, number: u64) -> Group {
        let mut group = Group {
            number,
            ..Group::NONE
        };
        if self.pages.is_empty() {
            self.window.each_of(number, |id, count, is_claimed| {
                group.unclaimed |= if is_claimed { 0 } else { bit(id) };
                group.work |= if count > 0 { bit(id) } else { 0 };
                group.has_many |= count > 1;
            });
            return group;
        }
        let pages = &self.pages[self.share(number)];
        if let Some(at) = pages.find(number) {
            (group.at, group.has_many) = (at, pages.has_many(at));
            [group.unclaimed, group.work] = pages.bits(at);
        }
        group
    }

    #[inline]
    fn has_call(&mut self, id: u64) -> bool {
        let group = self.group(id);
        (group.unclaimed | group.work) & bit(id) != 0
    }

    /// The call that device work with these ids leads to: by its correlation id, else by its ancestor.
    #[inline]
    pub(crate) fn target(
        &mut self,
        correlation_id: u64,
        ancestor_id: impl FnOnce() -> u64,
    ) -> Option<u64> {
        if self.has_call(correlation_id) {
            return Some(correlation_id);
        }
        Some(ancestor_id()).filter(|&id| self.has_call(id))
    }

    /// Call `id` claims the work that leads to it: true when there is some, and no call claimed it before.
    #[inline]
    pub(crate) fn claim(&mut self, id: u64) -> bool {
        let group = self.group(id);
        let is_first = group.unclaimed & group.work & bit(id) != 0;
        if is_first {
            group.unclaimed &= !bit(id);
            let (at, unclaimed) = (group.at, group.unclaimed);
            match self.share(id / GROUP_IDS) {
                share if share < self.pages.len() => self.pages[share].set_unclaimed(at, unclaimed),
                _ => self.window.claim(id),
            }
        }
        is_first
    }

    /// True when call `id` has claimed its work.
    #[inline]
    pub(crate) fn is_claimed(&mut self, id: u64) -> bool {
        let group = self.group(id);
        group.work & !group.unclaimed & bit(id) != 0
    }

    /// How much drawn device work leads to call `id`, where it is counted; else 1 when there is some.
    #[inline]
    fn count(&mut self, id: u64) -> u32 {
        let group = self.group(id);
        if !group.has_many {
            return u32::from(group.work & bit(id) != 0);
        }
        let at = group.at;
        match self.pages.get(self.share(id / GROUP_IDS)) {
            Some(pages) => pages.count(at, id),
            None => self.window.count(id),
        }
    }

    /// The first number of the device work of call `id`, and how much there is; see [`numbering`].
    #[inline]
    pub(crate) fn numbers(&mut self, id: u64) -> (u64, u32) {
        let count = self.count(id);
        (numbering::first(id, count), count)
    }

    /// The next number for device work that leads to `target`, in the order of writing.
    #[inline]
    pub(crate) fn next_number(&mut self, target: Option<u64>) -> u64 {
        let Some(id) = target else {
            self.unlinked += 1;
            return numbering::unlinked(self.unlinked);
        };
        let count = self.count(id);
        let first = numbering::first(id, count);
        if count <= 1 {
            return first;
        }
        let (share, at) = (self.share(id / GROUP_IDS), self.group(id).at);
        let before = match self.pages.get_mut(share) {
            Some(pages) => pages.next(at, id),
            None => self.window.next(id),
        };
        first.wrapping_add(u64::from(before) * numbering::step(first))
    }
}
