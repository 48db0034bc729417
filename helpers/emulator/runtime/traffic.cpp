#include "traffic.h"

namespace emulator {
namespace {

constexpr int kSectorBytes = 32;
constexpr int kBanks = 32;
constexpr int kBankBytes = 4;
constexpr int kPhaseBytes = kBanks * kBankBytes;

// Sorts a few values in place and drops repetitions; returns how many are left.
int sort_unique(uint64_t* values, int count) {
    bool ascending = true;   // usual: neighbouring lanes read neighbouring addresses
    for (int i = 1; i < count; ++i) ascending &= values[i - 1] <= values[i];
    if (!ascending) {
        for (int i = 1; i < count; ++i) {
            const uint64_t value = values[i];
            int place = i;
            for (; place > 0 && values[place - 1] > value; --place) values[place] = values[place - 1];
            values[place] = value;
        }
    }
    int kept = 0;
    for (int i = 0; i < count; ++i) {
        if (kept == 0 || values[i] != values[kept - 1]) values[kept++] = values[i];
    }
    return kept;
}

// Whether each active lane of [first, last) wants the same address as lane `i ^ distance`, where that is active,
// and some do.
bool share_in_pairs(const Request& request, int first, int last, int distance) {
    bool some = false;
    for (int i = first; i < last; ++i) {
        const int partner = i ^ distance;
        if (!(request.active >> i & 1) || !(request.active >> partner & 1)) continue;
        if (request.address[i] != request.address[partner]) return false;
        some = true;
    }
    return some;
}

// Splits a request into phases, which the banks serve one after the other. The phase rule: see
// `helpers/models/banks.py`, which has the same rule, its source and its calibration against a GPU.
// Writes the lanes of each phase as a mask and returns the number of phases.
int lane_phases(const Request& request, uint32_t (&phases)[kWarp]) {
    int count = kWarp * request.bytes / kPhaseBytes;
    if (count <= 1) {
        phases[0] = ~0u;
        return 1;
    }
    const int lanes = kWarp / count;
    const uint32_t group = (1u << lanes) - 1;
    for (int phase = 0; phase < count; ++phase) phases[phase] = group << phase * lanes;
    if (request.op == Op::store) return count;
    int kept = 0;
    for (int phase = 0; phase < count; phase += 2) {
        const int first = phase * lanes, last = first + 2 * lanes;
        if (share_in_pairs(request, first, last, 1) || share_in_pairs(request, first, last, 2)) {
            phases[kept++] = phases[phase] | phases[phase + 1];
        } else {
            phases[kept++] = phases[phase];
            phases[kept++] = phases[phase + 1];
        }
    }
    return kept;
}

// Passes that one phase takes: the largest number of distinct words wanted from one bank.
int phase_passes(const Request& request, uint32_t lanes) {
    uint64_t words[kWarp * 5];   // 16 bytes that start within a word touch five
    int count = 0;
    for (int i = 0; i < kWarp; ++i) {
        if (!(lanes >> i & 1)) continue;
        const uint64_t last = (request.address[i] + request.bytes - 1) / kBankBytes;
        for (uint64_t word = request.address[i] / kBankBytes; word <= last; ++word) words[count++] = word;
    }
    count = sort_unique(words, count);
    if (words[count - 1] - words[0] < kBanks) return 1;   // no two words in one bank
    int wanted[kBanks] = {}, passes = 0;
    for (int i = 0; i < count; ++i) {
        const int bank = int(words[i] % kBanks);
        if (++wanted[bank] > passes) passes = wanted[bank];
    }
    return passes;
}

}   // namespace

Cost global_cost(const Request& request) {
    uint64_t starts[kWarp];
    int count = 0;
    for (int i = 0; i < kWarp; ++i) {
        if (request.active >> i & 1) starts[count++] = request.address[i];
    }
    count = sort_unique(starts, count);
    int sectors = 0;
    uint64_t distinct = 0, next_sector = 0, next_byte = 0;   // the first not counted yet
    for (int i = 0; i < count; ++i) {
        const uint64_t begin = starts[i], end = starts[i] + request.bytes;
        distinct += begin >= next_byte ? end - begin : end - next_byte;
        next_byte = end;
        const uint64_t first = begin / kSectorBytes, last = (end - 1) / kSectorBytes;
        sectors += int(last - (first >= next_sector ? first : next_sector) + 1);
        next_sector = last + 1;
    }
    return {sectors, int((distinct + kSectorBytes - 1) / kSectorBytes)};
}

Cost shared_cost(const Request& request) {
    uint32_t phases[kWarp];
    const int count = lane_phases(request, phases);
    Cost cost{0, 0};
    for (int phase = 0; phase < count; ++phase) {
        const uint32_t lanes = phases[phase] & request.active;
        if (lanes == 0) continue;
        cost.transactions += phase_passes(request, lanes);
        cost.ideal += 1;
    }
    return cost;
}

}   // namespace emulator
