// Remembers which asynchronous operation last wrote each place of a CTA's shared memory, and which have read it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "protocol.h"

namespace emulator {

// A TMA load or an st_async. Its data is known to a thread that knows phase `time` of the mbarrier with this component.
struct AsyncWrite {
    int component = -1;
    uint32_t time = 0;      // 0: on its way
    int line = 0;
    int thread = -1;        // who issued it, in CTA `cta`
    int cta = 0;            // its rank
    uint32_t barrier = 0;   // the mbarrier's offset
    bool is_number = false; // of st_async
};

// A read by a wgmma or a TMA store; its ticket counts the reader's operations.
struct AsyncRead {
    int line = 0;
    int thread = -1;
};

// Two accesses, at least one of them asynchronous, and nothing that orders them.
struct AsyncConflict {
    enum Actor { tma_load = 0, wgmma = 1, tma_store = 2, thread = 3, st_async = 4 };
    Actor actor, earlier_actor;
    Op op, earlier_op;
    Place place, earlier;
    uint32_t offset;
    bool lacks_fence = false;   // ordered, but written by a thread without a proxy fence
    const AsyncWrite* write = nullptr;   // the earlier one, if it is a TMA load or an st_async
    int earlier_rank = -1;              // of the CTA whose thread did the earlier one; -1: of the load, or the owner
};

// Shared memory in granules of 16 bytes, which every asynchronous operation covers whole; but an st_async, whose numbers
// are few and kept apart.
class AsyncMarks {
public:
    static constexpr uint32_t kGranule = 16, kNumber = 4;

    AsyncMarks(uint64_t shared_bytes, int readers)
        : granules_(shared_bytes / kGranule + 1), latest_write_(granules_, 0), reads_(size_t(readers)) {}

    void clear() {
        writes_.assign(1, {});
        numbers_.clear();
        std::fill(latest_write_.begin(), latest_write_.end(), 0);
        for (ReaderMarks& reader : reads_) {
            std::fill(reader.latest.begin(), reader.latest.end(), 0);
            reader.operations.assign(1, {});
        }
    }

    // Writes --------------------------------------------------------------------------------------------------------

    void add_write(uint32_t offset, uint32_t bytes, const AsyncWrite& write) {
        if (write.is_number) {
            numbers_[offset] = write;
            return;
        }
        numbers_.erase(numbers_.lower_bound(offset), numbers_.lower_bound(offset + bytes));
        writes_.push_back(write);
        std::fill_n(&latest_write_[offset / kGranule], count(bytes), uint32_t(writes_.size() - 1));
    }
    AsyncWrite* write_at(uint64_t offset) {
        const uint32_t write = latest_write_[offset / kGranule];
        return write == 0 ? nullptr : &writes_[write];
    }
    AsyncWrite* number_at(uint32_t offset) {
        const auto found = numbers_.find(offset);
        return found == numbers_.end() ? nullptr : &found->second;
    }
    // Calls visit(write, offset) for the last st_async to each place in a range.
    template <class Visit>
    void for_numbers(uint32_t offset, uint32_t bytes, Visit&& visit) const {
        if (numbers_.empty()) return;
        const uint32_t first = offset / kNumber * kNumber;
        for (auto at = numbers_.lower_bound(first); at != numbers_.end() && at->first < offset + bytes; ++at) {
            visit(at->second, at->first);
        }
    }
    // Calls visit(write, offset) for the last writes of each place in a range; once for neighbours with the same.
    template <class Visit>
    void for_writes(uint32_t offset, uint32_t bytes, Visit&& visit) const {
        for_numbers(offset, bytes, visit);
        uint32_t last = 0;
        for_granules(latest_write_, offset, bytes, [&](uint32_t write, uint32_t at) {
            if (write != last) visit(writes_[write], at);
            last = write;
        });
    }

    // Reads ---------------------------------------------------------------------------------------------------------

    void add_read(size_t reader, uint32_t ticket, uint32_t offset, uint32_t bytes, const AsyncRead& read) {
        ReaderMarks& marks = reads_[reader];
        if (marks.latest.empty()) marks.latest.assign(granules_, 0);
        if (marks.operations.size() <= ticket) marks.operations.resize(ticket + 1);
        marks.operations[ticket] = read;
        std::fill_n(&marks.latest[offset / kGranule], count(bytes), ticket);
    }
    // Calls visit(reader, ticket, read, offset) for each reader's last read of each place in a range.
    template <class Visit>
    void for_reads(uint32_t offset, uint32_t bytes, Visit&& visit) const {
        for (size_t reader = 0; reader < reads_.size(); ++reader) {
            const ReaderMarks& marks = reads_[reader];
            if (marks.latest.empty()) continue;
            uint32_t last = 0;
            for_granules(marks.latest, offset, bytes, [&](uint32_t ticket, uint32_t at) {
                if (ticket != last) visit(reader, ticket, marks.operations[ticket], at);
                last = ticket;
            });
        }
    }

private:
    struct ReaderMarks {
        std::vector<uint32_t> latest;         // by granule: ticket of the last read, 0: none
        std::vector<AsyncRead> operations;    // by ticket
    };
    static uint32_t count(uint32_t bytes) { return (bytes + kGranule - 1) / kGranule; }

    template <class Visit>
    static void for_granules(const std::vector<uint32_t>& marks, uint32_t offset, uint32_t bytes, Visit&& visit) {
        const uint32_t first = offset / kGranule, end = (offset + bytes - 1) / kGranule + 1;
        for (uint32_t granule = first; granule < end; ++granule) {
            if (marks[granule] != 0) visit(marks[granule], granule * kGranule);
        }
    }

    uint64_t granules_;
    std::vector<AsyncWrite> writes_{1};       // from 1
    std::vector<uint32_t> latest_write_;      // by granule: index in writes_, 0: none
    std::map<uint32_t, AsyncWrite> numbers_;  // by offset, a multiple of 4
    std::vector<ReaderMarks> reads_;
};

}   // namespace emulator
