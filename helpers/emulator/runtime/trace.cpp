#include "trace.h"

#include <algorithm>

namespace emulator {

Site& Tracer::find(uint64_t key, uint64_t code, Space space, Op op, int bytes) {
    Site*& site = by_key_[key];
    if (site == nullptr) {
        sites_.push_back(std::make_unique<Site>());
        site = sites_.back().get();
        site->index = uint16_t(sites_.size() - 1);
        site->counter = SiteCounter{int64_t(code), space, op, bytes, 0, 0, 0, 0, 0, 0, {}};
        std::fill_n(site->counter.example, kWarp, -1);
    }
    return *site;
}

size_t Tracer::complete_rows(const Site& site, uint32_t running) {
    size_t longest = 0, shortest = SIZE_MAX;
    for (int lane = 0; lane < kWarp; ++lane) {
        longest = std::max(longest, site.log[lane].size());
        if (running >> lane & 1) shortest = std::min(shortest, site.log[lane].size());
    }
    return std::min(longest, shortest);
}

// The first request with the most lanes. Addresses are as the kernel uses them; the launch makes them relative.
void Tracer::keep_example(SiteCounter& counter, const Request& request) {
    const auto is_active = [](int64_t address) { return address >= 0; };
    const auto lanes = std::count_if(counter.example, counter.example + kWarp, is_active);
    if (__builtin_popcount(request.active) <= lanes) return;
    if (counter.example_order == 0) counter.example_order = ++examples_;
    for (int lane = 0; lane < kWarp; ++lane) {
        counter.example[lane] = request.active >> lane & 1 ? int64_t(request.address[lane]) : -1;
    }
}

void Tracer::count(Site& site, size_t rows, bool with_example) {
    Request request;
    request.bytes = site.counter.bytes;
    request.op = site.counter.op;
    const bool is_shared = site.counter.space == Space::shared;
    for (size_t row = 0; row < rows; ++row) {
        request.active = 0;
        for (int lane = 0; lane < kWarp; ++lane) {
            if (row >= site.log[lane].size()) continue;
            request.address[lane] = site.log[lane][row];
            request.active |= 1u << lane;
        }
        const Cost cost = is_shared ? shared_cost(request) : global_cost(request);
        site.counter.requests += 1;
        site.counter.lanes += uint64_t(__builtin_popcount(request.active));
        site.counter.transactions += uint64_t(cost.transactions);
        site.counter.ideal += uint64_t(cost.ideal);
        if (with_example) keep_example(site.counter, request);
    }
}

void Tracer::flush(uint32_t running, bool with_example) {
    size_t kept = 0;
    for (Site* site : active_) {
        const size_t rows = complete_rows(*site, running);
        count(*site, rows, with_example);
        bool has_rest = false;
        for (std::vector<uint64_t>& log : site->log) {
            log.erase(log.begin(), log.begin() + std::ptrdiff_t(std::min(rows, log.size())));
            has_rest |= !log.empty();
        }
        site->has_log = has_rest;
        if (has_rest) active_[kept++] = site;
    }
    active_.resize(kept);
}

}   // namespace emulator
