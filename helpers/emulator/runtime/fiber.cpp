#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

// A fiber that a report stopped never returns from its functions, and AddressSanitizer would go on guarding their
// variables when the memory is used again.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_UNPOISON_MEMORY_REGION
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#endif

// The callee-saved registers are all that a switch at a function call must keep. (ucontext would also make a system
// call each time.) Assembly for the two architectures follows.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulator_switch, .-emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, %function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulator_switch, .-emulator_switch
)");
#else
#error "The emulator runs on x86-64 and on aarch64 (64-bit ARM)."
#endif

namespace emulator {

Stacks::Stacks(size_t count) {
    guard_ = size_t(sysconf(_SC_PAGESIZE));
    stride_ = kStackBytes + guard_;
    bytes_ = count * stride_;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * stride_, guard_, PROT_NONE);
}

Stacks::~Stacks() {
    ASAN_UNPOISON_MEMORY_REGION(memory_, bytes_);   // the addresses will be used for something else
    munmap(memory_, bytes_);
}

void* Stacks::prepare(size_t index, void (*function)()) const {
    ASAN_UNPOISON_MEMORY_REGION(low(index), kStackBytes);
    // Stacks that all start at the same offset would compete for the same cache sets: each starts a little lower.
    const size_t offset = index % 16 * 128;
    void** top = reinterpret_cast<void**>(low(index) + kStackBytes - 64 - offset);
#if defined(__x86_64__)
    *--top = nullptr;                                     // the return address of `function`, which never returns
    *--top = reinterpret_cast<void*>(function);
    for (int i = 0; i < 6; ++i) *--top = nullptr;         // the registers that the switch pops
#else
    top -= 20;
    for (int i = 0; i < 20; ++i) top[i] = nullptr;
    top[11] = reinterpret_cast<void*>(function);          // x30, the address that `ret` goes to
#endif
    return top;
}

}   // namespace emulator
