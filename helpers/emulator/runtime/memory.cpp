#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

namespace emulator {
namespace {

// Inaccessible space on each side of a buffer. It costs addresses, not memory; an index that is wrong by less than
// this faults, and the fault names the buffer.
constexpr uint64_t kGuardBytes = uint64_t(1) << 30;
constexpr uint64_t kSmallGuardBytes = 1 << 16;   // where address space is limited (ulimit -v)

// Fills what surrounds the arrays: a NaN for whoever reads it, and a change shows who wrote to it.
constexpr int kFiller = 0xff;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}   // namespace

int Ranges::nearest(uint64_t address) const {
    int best = -1;
    uint64_t best_distance = 0;
    for (size_t i = 0; i < ranges_.size(); ++i) {
        const Range& range = ranges_[i];
        const uint64_t distance =
            address < range.begin ? range.begin - address : address >= range.end ? address - range.end + 1 : 0;
        if (best < 0 || distance < best_distance) {
            best = int(i);
            best_distance = distance;
        }
    }
    return best;
}

Memory::Memory(const LaunchSpec& spec, bool exact) {
    std::vector<int> order(spec.buffer_count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        return std::pair(spec.buffers[a].host, a) < std::pair(spec.buffers[b].host, b);
    });

    std::vector<size_t> region_of(spec.buffer_count);
    for (int i : order) {
        const BufferSpec& buffer = spec.buffers[i];
        char* host = static_cast<char*>(buffer.host);
        if (regions_.empty() || host >= regions_.back().host + regions_.back().bytes) {
            Region region{};
            region.host = host;
            region.bytes = buffer.bytes;
            region.writable = buffer.writable != 0;
            regions_.push_back(region);
        } else {
            Region& region = regions_.back();
            region.bytes = std::max<uint64_t>(region.bytes, host + buffer.bytes - region.host);
            region.writable |= buffer.writable != 0;
        }
        region_of[i] = regions_.size() - 1;
    }
    for (Region& region : regions_) map(region, exact);

    for (int i = 0; i < spec.buffer_count; ++i) {
        const BufferSpec& buffer = spec.buffers[i];
        const Region& region = regions_[region_of[i]];
        char* address = region.copy + (static_cast<char*>(buffer.host) - region.host);
        *buffer.argument = address;
        buffers_.add(reinterpret_cast<uint64_t>(address), buffer.bytes);
        writable_.push_back(buffer.writable != 0);
    }
}

void Memory::map(Region& region, bool exact) {
    const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
    // An array keeps its place within 16 bytes, the widest access, so that it is aligned just as the caller's is.
    const uint64_t skew = reinterpret_cast<uint64_t>(region.host) % 16;
    const uint64_t inner = round_up(region.bytes + 16, page);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* mapping = MAP_FAILED;
    uint64_t guard = kGuardBytes;
    for (; guard >= kSmallGuardBytes && mapping == MAP_FAILED; guard = guard == kGuardBytes ? kSmallGuardBytes : 0) {
        region.mapping_bytes = inner + 2 * guard;
        mapping = mmap(nullptr, region.mapping_bytes, PROT_NONE, flags, -1, 0);
        if (mapping != MAP_FAILED) break;
    }
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    region.mapping = static_cast<char*>(mapping);
    region.low = region.mapping + guard;
    region.high = region.low + inner;
    mprotect(region.low, inner, PROT_READ | PROT_WRITE);
    const uint64_t last_start = inner - region.bytes;
    region.copy = region.low + (exact ? skew : (last_start - skew) / 16 * 16 + skew);
    std::memset(region.low, kFiller, size_t(region.copy - region.low));
    std::memcpy(region.copy, region.host, region.bytes);
    std::memset(region.copy + region.bytes, kFiller, size_t(region.high - region.copy) - region.bytes);
    if (!region.writable) mprotect(region.low, inner, PROT_READ);
}

Memory::~Memory() {
    for (const Region& region : regions_) munmap(region.mapping, region.mapping_bytes);
}

void Memory::copy_back() const {
    for (const Region& region : regions_) {
        if (region.writable && std::memcmp(region.host, region.copy, region.bytes) != 0) {
            std::memcpy(region.host, region.copy, region.bytes);
        }
    }
}

uint64_t Memory::stray_write() const {
    for (const Region& region : regions_) {
        const char* end = region.copy + region.bytes;
        for (const char* byte = region.low; byte < region.high; ++byte) {
            if (byte == region.copy) byte = end;
            if (byte < region.high && *byte != char(kFiller)) return reinterpret_cast<uint64_t>(byte);
        }
    }
    return 0;
}

bool Memory::is_near(uint64_t address) const {
    for (const Region& region : regions_) {
        const uint64_t begin = reinterpret_cast<uint64_t>(region.mapping);
        if (address >= begin && address < begin + region.mapping_bytes) return true;
    }
    return false;
}

}   // namespace emulator
