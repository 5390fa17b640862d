//! The id of this process, without asking the kernel each time.
//!
//! Whoever holds a lease, or draws tokens, must notice that it runs in a child of a fork. Asking
//! for the process id is a system call (0.2 us on a virtual machine, and a lock asks four times or
//! more). Linux instead keeps a page for us that is all zeros in every child, however it was made:
//! by `fork`, by `clone` without shared memory, by a system call of its own. The id is kept there,
//! and zero means: ask.
//!
//! Where there is no such page (other systems, no memory, a kernel before 4.14) the kernel is asked
//! each time. Nothing here may allocate or wait: it is called in a child of a process with threads.
#![cfg_attr(target_os = "linux", allow(unsafe_code))]

/// The id of this process.
pub(crate) fn process_id() -> u32 {
    #[cfg(target_os = "linux")]
    if let Some(kept) = kept::slot() {
        return match kept.load(std::sync::atomic::Ordering::Relaxed) {
            0 => {
                let process = std::process::id();
                kept.store(process, std::sync::atomic::Ordering::Relaxed);
                process
            }
            process => process,
        };
    }
    std::process::id()
}

#[cfg(target_os = "linux")]
mod kept {
    use std::{
        ptr,
        sync::atomic::{AtomicPtr, AtomicU32, Ordering},
    };

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Null: nobody asked yet. [`NO_PAGE`]: the system gives no such page.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// Only its address is used.
    static NO_PAGE: AtomicU32 = AtomicU32::new(0);
    /// The least that a page can be: the kernel rounds up.
    const PAGE_BYTES: usize = 4_096;

    /// Where the id is kept, if it can be.
    pub(super) fn slot() -> Option<&'static AtomicU32> {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            page = make();
        }
        // SAFETY: it points to `NO_PAGE`, or to the page of `make`, which is never unmapped once it
        // is in `PAGE`, has the size and alignment of an atomic, and is only used as one.
        let slot: &'static AtomicU32 = unsafe { &*page };
        (!ptr::eq(slot, &NO_PAGE)).then_some(slot)
    }

    #[cold]
    fn make() -> *mut AtomicU32 {
        let made = map().unwrap_or(ptr::from_ref(&NO_PAGE).cast_mut());
        // No lock: a child that was forked while another thread was here would wait for ever.
        match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                if !ptr::eq(made, &NO_PAGE) {
                    // SAFETY: `map` made it just now, and nobody else has seen it.
                    let _unmapped = unsafe { munmap(made.cast(), PAGE_BYTES) };
                }
                first
            }
        }
    }

    fn map() -> Option<*mut AtomicU32> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping at an address that the kernel chooses touches nothing that exists.
        let page =
            unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) };
        let page = page.ok()?;
        // SAFETY: it is our own page, and still all zeros.
        match unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) } {
            Ok(()) => Some(page.cast()),
            Err(_) => {
                // SAFETY: nobody else has seen it.
                let _unmapped = unsafe { munmap(page, PAGE_BYTES) };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_kernel_says() {
        for _ in 0..3 {
            assert_eq!(process_id(), std::process::id());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_id_is_kept() {
        process_id();
        let slot = kept::slot().expect("this kernel has such pages");
        assert_eq!(slot.load(std::sync::atomic::Ordering::Relaxed), std::process::id());
    }
}
