// Which bytes of a CTA's shared memory asynchronous operations have yet to read or write, and reports of overlaps.
#pragma once
#include <cstdint>
#include <list>
#include <vector>

#include "async.h"
#include "cta.h"
#include "descriptor.h"
#include "tensor_box.h"

namespace emulator {

// A range of shared memory.
struct Region {
    uint32_t offset = 0, bytes = 0;
    uint32_t end() const { return offset + bytes; }
    bool overlaps(const Region& other) const { return offset < other.end() && other.offset < end(); }
    Region intersection(const Region& other) const;
};

// A TMA load whose data has not come.
struct LoadInFlight {
    Region region;
    Origin origin;
    uint32_t barrier = 0;   // offset of the mbarrier that gets its bytes
};

// Whether one of the loads writes into the region.
bool is_under_way(const std::list<LoadInFlight>& loads, const Region& region);

// A TMA store that nobody has waited for.
struct PendingStore {
    TensorMapRecord map;
    BoxPlace place;
    Region region;
    Origin origin;
    uint32_t ticket = 0;   // of order_async_read_issued
    bool done = false;     // it has happened
};

// How the last TMA load into a chunk wrote it.
enum class Layout : uint8_t { unknown = 0, plain = 1, swizzled = 2 };

// What is known of each chunk (16 bytes) of shared memory.
class ChunkMap {
public:
    void reset(uint64_t shared_bytes);

    // wgmma that read a chunk and that nobody has waited for.
    void add_reader(uint32_t address) { readers_[address / kChunkBytes] += 1; }
    void remove_reader(uint32_t address) { readers_[address / kChunkBytes] -= 1; }
    // The first part of the region that has readers; no bytes if none has.
    Region find_readers(const Region& region) const;

    void set_layout(const Region& region, Layout layout, int line);
    Layout layout(uint32_t address) const { return layouts_[address / kChunkBytes]; }
    int layout_line(uint32_t address) const { return layout_lines_[address / kChunkBytes]; }

private:
    std::vector<uint16_t> readers_;
    std::vector<Layout> layouts_;
    std::vector<int32_t> layout_lines_;
};

// Reports that an operation of `thread` at `line` meets an earlier one in `overlap`. other_cta: the CTA whose memory
// it is. `value` becomes Report::values[0].
void report_overlap(Thread& thread, Kind kind, int line, const Region& overlap, const Cta& owner, const Origin& earlier,
                    int64_t value = 0);

// Reports that an operation of `thread` reads, in `overlap`, what a load into its CTA has yet to write.
void report_before_load(Thread& thread, Kind kind, int line, const Region& overlap, const LoadInFlight& load,
                        int64_t value = 0);

// A report about a range of shared memory, with the array that it is in.
Report shared_report(const Cta& cta, Kind kind, int line, const Region& region);

// Whether an address is not in shared memory but just past its end, and not one of the thread's own variables.
bool is_past_shared(const Thread& thread, const void* address);

// Ends the CTA with a report on an address that is in none of the CTA's shared arrays.
[[noreturn]] void fail_outside_of_shared(Thread& thread, const void* address, int line);

// Ends the CTA with a report unless the range lies in one of the CTA's shared arrays.
void check_in_shared(Thread& thread, const Region& region, Op op, int line);

}   // namespace emulator
