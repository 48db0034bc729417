// The global memory of a launch: guarded copies of the caller's arrays.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol.h"

namespace emulator {

// A sorted-out answer to "which of these address ranges holds this access?"
class Ranges {
public:
    void add(uint64_t begin, uint64_t bytes) { ranges_.push_back({begin, begin + bytes}); }

    // The range that holds all of the access, or -1. `hint` is tried first: one instruction mostly stays in one range.
    int find(uint64_t address, uint64_t bytes, int hint) const {
        if (unsigned(hint) < ranges_.size() && holds(ranges_[hint], address, bytes)) return hint;
        for (size_t i = 0; i < ranges_.size(); ++i) {
            if (holds(ranges_[i], address, bytes)) return int(i);
        }
        return -1;
    }

    // The range nearest to an address, or -1 if there are none.
    int nearest(uint64_t address) const;
    uint64_t begin(int range) const { return ranges_[range].begin; }
    uint64_t bytes(int range) const { return ranges_[range].end - ranges_[range].begin; }

private:
    struct Range {
        uint64_t begin, end;
    };
    static bool holds(const Range& range, uint64_t address, uint64_t bytes) {
        return address >= range.begin && address + bytes <= range.end;
    }
    std::vector<Range> ranges_;
};

class Memory {
public:
    // Copies the arrays into mappings of their own with inaccessible memory on both sides, and points the kernel's
    // arguments there. With `exact` bounds checking by hooks, arrays start as on a GPU, at a multiple of 256 bytes;
    // without it they end where the inaccessible memory begins, so that running over the end is caught.
    Memory(const LaunchSpec& spec, bool exact);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // Writes changed arrays back to the caller.
    void copy_back() const;

    // The first byte written outside of the arrays in space that could not be made inaccessible: within the memory
    // page of an array's start, and up to 15 bytes after its end. 0 if there is none.
    uint64_t stray_write() const;

    // The buffers, in the order of the launch's arguments.
    const Ranges& buffers() const { return buffers_; }
    bool is_writable(int buffer) const { return writable_[buffer]; }
    // Whether an address is in the guarded space round one of the buffers.
    bool is_near(uint64_t address) const;

private:
    // Arrays that overlap in the caller's memory share one region, so that they overlap in the kernel's too.
    struct Region {
        char* host;
        uint64_t bytes;
        bool writable;
        char* mapping;
        uint64_t mapping_bytes;
        char* copy;
        char* low;         // of the accessible part, which holds the copy
        char* high;
    };
    void map(Region& region, bool exact);

    std::vector<Region> regions_;
    Ranges buffers_;
    std::vector<bool> writable_;
};

}   // namespace emulator
