// Counts memory traffic: groups the accesses of a warp's lanes into requests and adds up what they cost.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "protocol.h"
#include "traffic.h"

namespace emulator {

// One load or store instruction.
struct Site {
    SiteCounter counter;
    uint16_t index;
    int range = 0;   // the buffer or array it touched last
    bool has_log = false;
    std::vector<uint64_t> log[kWarp];   // per lane: the addresses since the last flush
};

class Tracer {
public:
    // The site of an instruction. One instruction may reach both spaces; it is counted in each.
    Site& site(uint64_t code, Space space, Op op, int bytes) {
        const uint64_t key = code * 2 + uint64_t(space);
        Recent& recent = recent_[(key * 0x9e3779b97f4a7c15ull) >> 54];
        if (recent.key != key) recent = {key, &find(key, code, space, op, bytes)};
        return *recent.site;
    }
    const Site& site_at(uint16_t index) const { return *sites_[index]; }

    void log(Site& site, int lane, uint64_t address) {
        if (!site.has_log) {
            site.has_log = true;
            active_.push_back(&site);
        }
        site.log[lane].push_back(address);
    }

    // Counts what a warp has done. The k-th execution of an instruction by each lane is one request: exact if the
    // lanes are back together. `running`: lanes that are not, since they were interrupted amid a long stretch; their
    // common part is counted and the rest kept.
    // with_example: the warp is the one whose requests serve as examples.
    void flush(uint32_t running, bool with_example);

    const std::vector<std::unique_ptr<Site>>& sites() const { return sites_; }

private:
    struct Recent {
        uint64_t key = 0;
        Site* site = nullptr;
    };
    Site& find(uint64_t key, uint64_t code, Space space, Op op, int bytes);
    static size_t complete_rows(const Site& site, uint32_t running);
    void count(Site& site, size_t rows, bool with_example);
    void keep_example(SiteCounter& counter, const Request& request);

    std::vector<std::unique_ptr<Site>> sites_;
    std::unordered_map<uint64_t, Site*> by_key_;
    Recent recent_[1024];
    std::vector<Site*> active_;
    uint64_t examples_ = 0;
};

}   // namespace emulator
