#include "report.h"

#include <algorithm>
#include <utility>

namespace emulator {

Reports::Key Reports::key_of(const Report& report) {
    return {report.kind, report.place.code, report.place.line, report.other.code, report.other.line, report.buffer};
}

void Reports::add(const Report& report, int64_t cta, std::vector<WarpState> states) {
    const auto [found, is_new] = entries_.try_emplace(key_of(report));
    Entry& entry = found->second;
    entry.counts[cta] += 1;
    if (is_new || cta < entry.cta) {
        entry.report = report;
        entry.cta = cta;
        entry.order = ++added_;
        entry.states = std::move(states);
    }
}

void Reports::merge(const Reports& other) {
    for (const auto& [key, theirs] : other.entries_) {
        const auto [found, is_new] = entries_.try_emplace(key, theirs);
        if (is_new) continue;
        Entry& entry = found->second;
        entry.counts.insert(theirs.counts.begin(), theirs.counts.end());   // a CTA runs on one worker
        if (theirs.cta < entry.cta) {
            entry.report = theirs.report;
            entry.cta = theirs.cta;
            entry.order = theirs.order;
            entry.states = theirs.states;
        }
    }
}

void Reports::list(int64_t last_cta, std::vector<Report>& reports, std::vector<WarpState>& states) const {
    std::multimap<std::pair<int64_t, int64_t>, const Entry*> entries;   // keeps the order of equals
    for (const auto& [key, entry] : entries_) {
        if (entry.cta <= last_cta) entries.emplace(std::pair(entry.cta, entry.order), &entry);
    }
    for (const auto& [when, entry] : entries) {
        Report report = entry->report;
        report.count = 0;
        for (const auto& [cta, count] : entry->counts) report.count += cta <= last_cta ? count : 0;
        report.first_state = int64_t(states.size());
        report.state_count = int32_t(entry->states.size());
        states.insert(states.end(), entry->states.begin(), entry->states.end());
        reports.push_back(report);
    }
}

}   // namespace emulator
