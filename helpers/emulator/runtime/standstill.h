// Tells where the threads of a cluster are when something is wrong.
#pragma once
#include <vector>

#include "cluster.h"
#include "cta.h"

namespace emulator {

// One row for each group of lanes of a warp that are in the same state at the same place.
std::vector<WarpState> warp_states(const Cluster& cluster);

// No thread of the cluster can go on and nothing is under way that would change this.
void report_standstill(Cluster& cluster);

// The launch is out of time, or was interrupted; `running`: the thread that ran, if any.
void report_cancelled(Cluster& cluster, const Thread* running);

}   // namespace emulator
