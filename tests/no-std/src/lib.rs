//! Proof that the protocol crates build without std: this library defines the panic handler that
//! std would define. If one of them, or of their dependencies, linked std, there would be two.
#![no_std]

extern crate shorthaul_congestion as _;
extern crate shorthaul_link as _;
extern crate shorthaul_proxy as _;
extern crate shorthaul_tcp as _;
extern crate shorthaul_types as _;
extern crate shorthaul_wire as _;

use core::alloc::{GlobalAlloc, Layout};

struct NoMemory;

// SAFETY: an allocator that never has memory to give breaks none of its promises.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
