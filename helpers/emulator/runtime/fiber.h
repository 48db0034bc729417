// Fibers: one stack per CUDA thread, and a switch between stacks that costs a few nanoseconds.
#pragma once
#include <cstddef>

namespace emulator {

constexpr size_t kStackBytes = 64 * 1024;

// Stacks of equal size in one mapping; below each lies a page that faults, so that an overflow is caught.
class Stacks {
public:
    explicit Stacks(size_t count);
    ~Stacks();
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;

    // The lowest usable byte of a stack; kStackBytes follow.
    char* low(size_t index) const { return memory_ + index * stride_ + guard_; }

    // Makes a stack ready to run `function` from its start and returns the pointer to resume.
    void* prepare(size_t index, void (*function)()) const;

private:
    size_t guard_, stride_, bytes_;
    char* memory_;
};

}   // namespace emulator

// Saves the caller's registers on its stack and the stack pointer in *save, then continues where `resume` was saved.
extern "C" void emulator_switch(void** save, void* resume);
