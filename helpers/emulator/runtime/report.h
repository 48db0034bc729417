// Collects reports: the same fault by many threads becomes one report with a count.
#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "protocol.h"

namespace emulator {

class Reports {
public:
    // `cta` orders reports: of equal ones, that of the first CTA is kept.
    void add(const Report& report, int64_t cta, std::vector<WarpState> states = {});
    void merge(const Reports& other);
    // The reports of CTAs up to the last one that counts, in the order of the grid, those of one CTA as they came;
    // fills in the table of states.
    // (How far workers got beyond that CTA is chance.)
    void list(int64_t last_cta, std::vector<Report>& reports, std::vector<WarpState>& states) const;

private:
    struct Entry {
        Report report;
        int64_t cta;
        int64_t order;   // among the reports of that CTA
        std::vector<WarpState> states;
        std::map<int64_t, int64_t> counts;   // by CTA
    };
    using Key = std::tuple<Kind, int64_t, int32_t, int64_t, int32_t, int32_t>;
    static Key key_of(const Report& report);

    std::map<Key, Entry> entries_;
    int64_t added_ = 0;
};

}   // namespace emulator
