#include "tensor_box.h"

#include <algorithm>
#include <cstring>

namespace emulator {
namespace {

// The columns and rows of a box that lie inside the matrix, counted from the box's own corner.
struct Inside {
    int64_t first_column, end_column, first_row, end_row;
    bool empty() const { return first_column >= end_column || first_row >= end_row; }
};

Inside inside(const TensorMapRecord& map, BoxPlace place) {
    return {std::max<int64_t>(0, -int64_t(place.x)), std::min<int64_t>(map.box[0], int64_t(map.dims[0]) - place.x),
            std::max<int64_t>(0, -int64_t(place.y)), std::min<int64_t>(map.box[1], int64_t(map.dims[1]) - place.y)};
}

// Calls visit(global, shared address, byte of the chunk, bytes) for the part inside the matrix of each chunk of a row.
template <class Visit>
void for_each_piece(const TensorMapRecord& map, BoxPlace place, const Inside& part, int64_t row, uint32_t offset,
                    Visit visit) {
    char* const global_row = reinterpret_cast<char*>(map.address) + (place.y + row) * int64_t(map.stride_bytes) +
                             place.x * int64_t(map.element_bytes);
    const uint32_t begin = uint32_t(part.first_column) * map.element_bytes;
    const uint32_t end = uint32_t(part.end_column) * map.element_bytes;
    const uint32_t shared_row = offset + uint32_t(row) * map.pitch();
    for (uint32_t chunk = begin / kChunkBytes * kChunkBytes; chunk < end; chunk += kChunkBytes) {
        const uint32_t first = std::max(begin, chunk), last = std::min(end, chunk + kChunkBytes);
        const uint32_t shared = swizzled(shared_row + chunk, map.is_swizzled());
        visit(global_row + first, shared + first - chunk, last - first);
    }
}

// A chunk in one move, which it nearly always is; at the edge of the matrix it may be shorter.
void copy(char* to, const char* from, uint32_t bytes) {
    if (bytes == kChunkBytes) {
        std::memcpy(to, from, kChunkBytes);
    } else {
        std::memcpy(to, from, bytes);
    }
}

}   // namespace

uint32_t bytes_inside(const TensorMapRecord& map, BoxPlace place) {
    const Inside part = inside(map, place);
    if (part.empty()) return 0;
    return uint32_t((part.end_column - part.first_column) * (part.end_row - part.first_row)) * map.element_bytes;
}

void load_box(const TensorMapRecord& map, BoxPlace place, char* shared, uint32_t offset) {
    const Inside part = inside(map, place);
    if (bytes_inside(map, place) != map.box_bytes()) {
        fill_box(map, shared, offset, 0);
        if (part.empty()) return;
    }
    for (int64_t row = part.first_row; row < part.end_row; ++row) {
        for_each_piece(map, place, part, row, offset, [&](const char* global, uint32_t address, uint32_t bytes) {
            copy(shared + address, global, bytes);
        });
    }
}

void fill_box(const TensorMapRecord& map, char* shared, uint32_t offset, unsigned char value) {
    for (uint32_t row = 0; row < map.box[1]; ++row) {
        for (uint32_t chunk = 0; chunk < map.row_bytes(); chunk += kChunkBytes) {
            const uint32_t address = swizzled(offset + row * map.pitch() + chunk, map.is_swizzled());
            std::memset(shared + address, value, kChunkBytes);
        }
    }
}

void store_box(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset) {
    Inside part = inside(map, place);
    if (part.empty()) return;
    const int64_t unit = kChunkBytes / map.element_bytes;
    part.end_column = (part.end_column + unit - 1) / unit * unit;
    for (int64_t row = part.first_row; row < part.end_row; ++row) {
        for_each_piece(map, place, part, row, offset, [&](char* global, uint32_t address, uint32_t bytes) {
            copy(global, shared + address, bytes);
        });
    }
}

bool has_unwritten_chunk(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset,
                         BoxPlace* found) {
    const Inside part = inside(map, place);
    if (part.empty()) return false;
    unsigned char poison[kChunkBytes];
    std::memset(poison, 0xff, sizeof poison);
    for (int64_t row = part.first_row; row < part.end_row; ++row) {
        const char* const row_start = reinterpret_cast<char*>(map.address) +
                                      (place.y + row) * int64_t(map.stride_bytes) + place.x * int64_t(map.element_bytes);
        int64_t column = -1;
        for_each_piece(map, place, part, row, offset, [&](const char* global, uint32_t address, uint32_t bytes) {
            if (column >= 0 || bytes != kChunkBytes || std::memcmp(shared + address, poison, kChunkBytes) != 0) return;
            column = (global - row_start) / int64_t(map.element_bytes);
        });
        if (column >= 0) {
            *found = {place.x + int(column), place.y + int(row)};
            return true;
        }
    }
    return false;
}

}   // namespace emulator
