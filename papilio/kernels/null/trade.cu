// Global curveball trades of the rows of a layer (papilio/kernels/null/loops.py: `trade_rows`, the same samples).
//
// Each row is in one pair, so that pairs share nothing: a warp owns a small pair, a block a large one. Nothing depends on
// the order of the columns in a row: a hash table finds the columns that both rows have, and the others are pooled, each
// with a random word that depends on the pair and the column. The smallest words go to the first row, as many as it had
// in the pool: the k-th smallest is found by its bits, eight at a time. No two words of a pair are the same, as `mix` is
// one to one. Pairs of at most kBlockEntries entries stay in shared memory.
//
// If the other layer trades next, the entries go directly to its rows, through a cursor for each row.
//
// Carstens, Berger and Strona, Curveball: a new generation of sampling algorithms for graphs with fixed degree sequence
// (arXiv 1609.05137).
#include "warp.cuh"

constexpr int kBins = 256;
constexpr int kBits = 8;
constexpr int kBlockEntries = 1024;  // of a pair that a block trades in shared memory
constexpr unsigned kColumn = 0x7fffffffu;  // the other bit of an entry: both rows have the column
constexpr int kEmpty = -1;

/// The random word of a number under a key; STEP of papilio/kernels/probe.py.
__device__ __forceinline__ unsigned long long draw_at(unsigned long long key, long long number) {
    return mix(key + (unsigned long long)number * 0x9e3779b97f4a7c15ull);
}

/// orders[t * n + i] = (t, upper half of the word of row i for the t-th trade of the layer from `first` on, row): once
/// sorted, a random order of the rows for each trade. Rows have `row_bits` bits.
extern "C" __global__ void __launch_bounds__(256)
order_keys(const int* __restrict__ rows, const long long n, const long long n_trades, const unsigned long long key,
           const long long first, const int layer, const int row_bits, unsigned long long* orders) {
    for (long long at = global_thread(); at < n * n_trades; at += grid_threads()) {
        const long long turn = first + at / n, trade = 2 * turn + ((turn & 1) ^ layer);
        const unsigned long long row = rows[at % n], word = draw_at(draw_at(key, 2 * trade), row);
        orders[at] = (unsigned long long)(at / n) << 32 << row_bits | word >> 32 << row_bits | row;
    }
}

/// Where the entries go: to rows of the same layer if `step` is 0, otherwise to the rows of the other layer.
struct Sink {
    unsigned long long* cursors;  // of the rows of the other layer: the next place, or one more if `step` is -1
    int step;
    int* entries;

    /// Any lane alone.
    __device__ __forceinline__ void turn(int row, int column) const {
        const unsigned long long place = atomicAdd(&cursors[column], (unsigned long long)(long long)step);
        entries[step > 0 ? place : place - 1] = row;
    }
};

/// One row of a pair; `entries` are in shared memory or its place in the array of all.
struct Row {
    int row;
    long long begin;
    int length;
    unsigned* entries;
};

/// The first row or the other one, field by field: both stay in registers.
__device__ __forceinline__ Row select(bool first, const Row& one, const Row& other) {
    return {first ? one.row : other.row, first ? one.begin : other.begin, first ? one.length : other.length,
            first ? one.entries : other.entries};
}

/// What the threads of a block share on a pair; what depends on its entries is in device memory for a larger pair.
struct BlockRoom {
    unsigned entries[kBlockEntries];
    int table[kBlockEntries];  // then the upper halves of the words
    unsigned bins[kBins];  // bin b at (b % kEach) * kWarpSize + b / kEach: a lane reads its bins without conflicts
    unsigned char both[kBlockEntries / 2];  // for each column of the shorter row whether both have it
    unsigned left;  // goes to the first row, of the words that agree with the bits found so far
    unsigned count;  // words in the bin found last
    unsigned bin;
    unsigned n_both;
    unsigned filled[2];
};

/// A hash table of the columns of a row, by their places in it. It has at least twice as many slots as entries: shared
/// memory, or as many words of device memory as both rows have entries.
struct Table {
    int* slots;
    int* more;  // slots from n_first on
    int n_first;
    int n;

    __device__ __forceinline__ int* at(int slot) const {
        return slot < n_first ? slots + slot : more + (slot - n_first);
    }
    __device__ __forceinline__ int first(int column) const { return (int)__umulhi((unsigned)column * 0x9e3779b1u, n); }
    __device__ __forceinline__ int next(int slot) const { return slot + 1 == n ? 0 : slot + 1; }
};

/// Words below `limit` once they are shifted go to the first row.
struct Threshold {
    int shift;
    unsigned long long limit;
};

/// The trade of a pair by a block.
struct BlockTrade {
    static constexpr int kEach = kBins / kWarpSize;

    BlockRoom& shared;
    Row rows[2];
    unsigned long long key;  // of the pair
    Table table;  // and, once the columns that both rows have are known, the upper halves of the words of the others

    /// Flag the columns that both rows have, in both. Ends with a barrier.
    __device__ void find_both(const Row& shorter, const Row& longer, unsigned char* both) {
        for (int slot = threadIdx.x; slot < table.n; slot += blockDim.x) *table.at(slot) = kEmpty;
        for (int i = threadIdx.x; i < shorter.length; i += blockDim.x) both[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < shorter.length; i += blockDim.x) {
            int slot = table.first(shorter.entries[i]);
            while (atomicCAS(table.at(slot), kEmpty, i) != kEmpty) slot = table.next(slot);
        }
        __syncthreads();
        unsigned n_both = 0;
        for (int i = threadIdx.x; i < longer.length; i += blockDim.x) {
            const unsigned column = longer.entries[i];
            int slot = table.first(column), found;
            while ((found = *table.at(slot)) != kEmpty && shorter.entries[found] != column) slot = table.next(slot);
            if (found == kEmpty) continue;
            both[found] = 1;
            longer.entries[i] = column | ~kColumn;
            ++n_both;
        }
        if (n_both) atomicAdd(&shared.n_both, n_both);
        __syncthreads();
        for (int i = threadIdx.x; i < shorter.length; i += blockDim.x)
            if (both[i]) shorter.entries[i] |= ~kColumn;
        __syncthreads();
    }

    /// Keep the upper halves of the words of the pooled entries. Ends with a barrier.
    __device__ void draw_words() {
#pragma unroll
        for (int side = 0; side < 2; side++)
            for (int i = threadIdx.x; i < rows[side].length; i += blockDim.x)
                *table.at((side ? rows[0].length : 0) + i) = (int)(draw_at(key, rows[side].entries[i]) >> 32);
        __syncthreads();
    }

    /// The word of an entry, shifted by a multiple of 8 bits.
    __device__ __forceinline__ unsigned long long word_of(int side, int i, int shift) const {
        if (shift < 32) return draw_at(key, rows[side].entries[i]) >> shift;
        return (unsigned)*table.at((side ? rows[0].length : 0) + i) >> (shift - 32);
    }

    /// Find the `left` smallest of the words of the pooled entries of both rows, some but not all.
    __device__ Threshold find_threshold(unsigned left) {
        unsigned long long found = 0;
        for (int shift = 64 - kBits;; shift -= kBits) {
            for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) shared.bins[bin] = 0;
            __syncthreads();
#pragma unroll
            for (int side = 0; side < 2; side++)
                for (int i = threadIdx.x; i < rows[side].length; i += blockDim.x) {
                    if (rows[side].entries[i] > kColumn) continue;
                    const unsigned long long word = word_of(side, i, shift);
                    const unsigned bin = (unsigned)word & (kBins - 1);
                    if (word >> kBits == found)
                        atomicAdd(&shared.bins[bin % kEach * kWarpSize + bin / kEach], 1u);
                }
            __syncthreads();
            if (threadIdx.x < kWarpSize) {
                unsigned own = 0;
                for (int at = 0; at < kEach; at++) own += shared.bins[at * kWarpSize + lane_id()];
                unsigned before = warp_inclusive_sum(own) - own;
                if (before < left && left <= before + own) {
                    int at = lane_id();
                    while (before + shared.bins[at] < left) before += shared.bins[at], at += kWarpSize;
                    shared.bin = lane_id() * kEach + at / kWarpSize;
                    shared.count = shared.bins[at];
                    shared.left = left - before;
                }
            }
            __syncthreads();
            found = found << kBits | shared.bin;
            left = shared.left;
            if (left == shared.count || shift == 0) return {shift, found + 1};
        }
    }

    /// Write the entries of row `side` to where they go.
    __device__ __forceinline__ void deal_row(int side, Threshold threshold, Sink sink) {
        const Row own = rows[side];
        for (int first = 0; first < own.length; first += blockDim.x) {
            const int i = first + threadIdx.x;
            const unsigned entry = i < own.length ? own.entries[i] : ~0u;
            const int column = (int)(entry & kColumn);
            const int to = entry > kColumn ? side : word_of(side, i, threshold.shift) < threshold.limit ? 0 : 1;
            if (sink.step) {
                if (i < own.length) sink.turn(to ? rows[1].row : rows[0].row, column);
                continue;
            }
            const unsigned lefts = __ballot_sync(kFullMask, i < own.length && to == 0);
            const unsigned rights = __ballot_sync(kFullMask, i < own.length && to == 1);
            unsigned at = 0;
            if (lane_id() < 2) {
                const unsigned n = __popc(lane_id() ? rights : lefts);
                if (n) at = atomicAdd(&shared.filled[lane_id()], n);
            }
            at = __shfl_sync(kFullMask, at, to);
            if (i < own.length)
                sink.entries[(to ? rows[1].begin : rows[0].begin) + at +
                             __popc((to ? rights : lefts) & lanes_before(lane_id()))] = column;
        }
    }

    /// Trade, with a word of `room` and a byte of `marks` for each entry, which only pairs of more than kBlockEntries use.
    __device__ void run(int* room, unsigned char* marks, Sink sink) {
        const int n = rows[0].length + rows[1].length;
        table = {room + rows[0].begin, room + rows[1].begin, rows[0].length, n};
        const bool is_first = rows[0].length <= rows[1].length;
        unsigned char* both = marks + (is_first ? rows[0].begin : rows[1].begin);
        if (threadIdx.x < 2) shared.filled[threadIdx.x] = 0;
        if (threadIdx.x == 0) shared.n_both = 0;
        if (n <= kBlockEntries) {
#pragma unroll
            for (int side = 0; side < 2; side++) {
                unsigned* to = shared.entries + (side ? rows[0].length : 0);
                for (int i = threadIdx.x; i < rows[side].length; i += blockDim.x) to[i] = rows[side].entries[i];
                rows[side].entries = to;
            }
            both = shared.both;
            table = {shared.table, nullptr, n, n};
        }
        __syncthreads();
        find_both(select(is_first, rows[0], rows[1]), select(is_first, rows[1], rows[0]), both);
        const unsigned n_own = rows[0].length - shared.n_both, n_other = rows[1].length - shared.n_both;
        draw_words();
        Threshold threshold = {56, n_own ? 256ull : 0ull};  // all that is pooled comes from one row, and stays there
        if (n_own && n_other) threshold = find_threshold(n_own);
        deal_row(0, threshold, sink);
        deal_row(1, threshold, sink);
        __syncthreads();
    }
};

constexpr int kWarps = TRADE_THREADS / kWarpSize;
constexpr int kRounds = TRADE_SMALL / kWarpSize;

/// What the lanes of a warp share on a pair.
struct WarpRoom {
    int table[TRADE_SMALL];  // columns of the shorter row
    unsigned hits[kRounds];  // a bit for each slot: whether the longer row has its column
};

/// The trade of a pair of at most TRADE_SMALL entries by a warp: entry 32 r + i of both rows is in register r of lane i.
struct WarpTrade {
    WarpRoom& shared;
    Row rows[2];
    unsigned long long key;  // of the pair

    __device__ void run(Sink sink) {
        const int lane = lane_id(), n_first = rows[0].length, n = n_first + rows[1].length;
        const bool is_first = n_first <= rows[1].length;  // whether the first row is the shorter one
        int columns[kRounds];
        unsigned words[kRounds], pooled = 0;  // a bit for each round
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize >= n) break;
            const int i = r * kWarpSize + lane;
            shared.table[i] = kEmpty;
            if (lane == 0) shared.hits[r] = 0;
            if (i < n) columns[r] = (int)(i < n_first ? rows[0].entries[i] : rows[1].entries[i - n_first]);
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize >= n) break;
            const int i = r * kWarpSize + lane;
            if (i >= n || (i < n_first) != is_first) continue;
            int slot = slot_of(columns[r], n);
            while (atomicCAS(&shared.table[slot], kEmpty, columns[r]) != kEmpty) slot = slot + 1 == n ? 0 : slot + 1;
            words[r] = slot;
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize >= n) break;
            const int i = r * kWarpSize + lane;
            if (i >= n || (i < n_first) == is_first) continue;
            int slot = slot_of(columns[r], n), found;
            while ((found = shared.table[slot]) != kEmpty && found != columns[r]) slot = slot + 1 == n ? 0 : slot + 1;
            if (found == kEmpty)
                pooled |= 1u << r;
            else
                atomicOr(&shared.hits[slot / kWarpSize], 1u << slot % kWarpSize);
        }
        __syncwarp();
        unsigned n_own = 0;
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize >= n) break;
            const int i = r * kWarpSize + lane;
            if (i >= n) continue;
            if ((i < n_first) == is_first && !(shared.hits[words[r] / kWarpSize] >> words[r] % kWarpSize & 1u))
                pooled |= 1u << r;
            n_own += i < n_first && pooled >> r & 1u;
            words[r] = (unsigned)(draw_at(key, columns[r]) >> 32);
        }
        const unsigned n_pooled = warp_total(__popc(pooled));
        const unsigned lefts = find_smallest(columns, words, pooled, n_pooled, warp_total(n_own), n);
        deal(columns, pooled, lefts, n, sink);
        __syncwarp();
    }

    static __device__ __forceinline__ int slot_of(int column, int n) {
        return (int)__umulhi((unsigned)column * 0x9e3779b1u, n);
    }

    /// The pooled entries of this lane among the `left` with the smallest words, a bit for each round.
    __device__ __forceinline__ unsigned find_smallest(const int (&columns)[kRounds], unsigned (&words)[kRounds],
                                                      unsigned pooled, unsigned n_pooled, unsigned left, int n) const {
        unsigned lefts = 0;  // of the entries that are decided
        for (int bit = 63; left != n_pooled && left; bit--) {
            if (bit == 31) {
#pragma unroll
                for (int r = 0; r < kRounds; r++)
                    if (pooled >> r & 1u) words[r] = (unsigned)draw_at(key, columns[r]);
            }
            unsigned zeros = 0;
#pragma unroll
            for (int r = 0; r < kRounds; r++) {
                if (r * kWarpSize >= n) break;
                zeros |= (~words[r] >> (bit & 31) & 1u) << r;
            }
            zeros &= pooled;
            const unsigned n_zeros = warp_total(__popc(zeros));
            if (left <= n_zeros) {
                pooled = zeros;
                n_pooled = n_zeros;
            } else {
                lefts |= zeros;
                pooled &= ~zeros;
                n_pooled -= n_zeros;
                left -= n_zeros;
            }
        }
        return left ? lefts | pooled : lefts;
    }

    /// Write the entries to where they go: those that are not pooled stay, the others go left or right.
    __device__ __forceinline__ void deal(const int (&columns)[kRounds], unsigned pooled, unsigned lefts, int n,
                                         Sink sink) {
        const int lane = lane_id(), n_first = rows[0].length;
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize >= n) break;
            const bool is_first = r * kWarpSize + lane < n_first;
            if (is_first && !(pooled >> r & 1u)) lefts |= 1u << r;
        }
        const unsigned own = n > lane ? lanes_before((n - lane + kWarpSize - 1) / kWarpSize) : 0u;
        const unsigned sum = __popc(lefts & own) << 16 | __popc(own & ~lefts);
        const unsigned before = sink.step ? 0u : warp_inclusive_sum(sum) - sum;
        long long left = rows[0].begin + (before >> 16), right = rows[1].begin + (before & 0xffffu);
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
            if (r * kWarpSize + lane >= n) break;
            const bool goes_left = lefts >> r & 1u;
            if (sink.step)
                sink.turn(goes_left ? rows[0].row : rows[1].row, columns[r]);
            else
                sink.entries[goes_left ? left++ : right++] = columns[r];
        }
    }
};

/// For the pairs of the warps of a block, or a pair of the whole block.
union Shared {
    WarpRoom warps[kWarps];
    BlockRoom block;
};

/// The rows at a place of an order and the next place, if there are any.
struct Pairs {
    const long long* offsets;
    const unsigned long long* order;
    int n_rows;
    int row_bits;

    __device__ __forceinline__ int row(long long at) const { return (int)(order[at] & ((1ull << row_bits) - 1)); }

    __device__ __forceinline__ int n_entries(long long at) const {
        long long n = 0;
        for (int side = 0; side < 2 && at + side < n_rows; side++)
            n += offsets[row(at + side) + 1] - offsets[row(at + side)];
        return (int)n;
    }

    template <class Trade>
    __device__ __forceinline__ void find(long long at, unsigned* columns, unsigned long long key, Trade& trade) const {
#pragma unroll
        for (int side = 0; side < 2; side++) {
            trade.rows[side] = {0, 0, 0, nullptr};
            if (at + side >= n_rows) continue;
            const int own = row(at + side);
            trade.rows[side] = {own, offsets[own], (int)(offsets[own + 1] - offsets[own]), columns + offsets[own]};
        }
        trade.key = draw_at(key, trade.rows[0].row);
    }
};

/// List the places of the pairs of more than TRADE_SMALL entries, for each of the orders of n_rows rows.
extern "C" __global__ void __launch_bounds__(256)
list_large(const long long* __restrict__ offsets, const unsigned long long* __restrict__ orders, const int n_rows,
           const long long n_orders, const int row_bits, const long long most, int* n_large, int* large) {
    const long long n_pairs = (n_rows + 1) / 2;
    for (long long at = global_thread(); at < n_pairs * n_orders; at += grid_threads()) {
        const long long number = at / n_pairs;
        const Pairs pairs = {offsets, orders + number * n_rows, n_rows, row_bits};
        const int place = (int)(2 * (at % n_pairs));
        if (pairs.n_entries(place) > TRADE_SMALL) large[number * most + atomicAdd(&n_large[number], 1)] = place;
    }
}

/// One global trade of n_rows rows by their order, two for each pair; the last of an odd number stays as it is. The first
/// n_blocks blocks trade the listed large pairs, and the warps of the other blocks the small ones. `columns` are
/// overwritten; `room` has a word and `marks` a byte for each entry.
extern "C" __global__ void __launch_bounds__(TRADE_THREADS)
trade_pairs(const long long* __restrict__ offsets, const unsigned long long* __restrict__ order, const int n_rows,
            const int row_bits, const int* __restrict__ n_large, const int* __restrict__ large, const int n_blocks,
            const unsigned long long key, unsigned* columns, int* room, unsigned char* marks,
            unsigned long long* cursors, const int step, int* traded) {
    __shared__ Shared shared;
    const Sink sink = {cursors, step, traded};
    const Pairs pairs = {offsets, order, n_rows, row_bits};
    if (blockIdx.x < n_blocks) {
        for (int at = blockIdx.x; at < *n_large; at += n_blocks) {
            BlockTrade trade{shared.block};
            pairs.find(large[at], columns, key, trade);
            trade.run(room, marks, sink);
        }
        return;
    }
    const int warp = threadIdx.x / kWarpSize;
    for (long long at = 2ll * ((blockIdx.x - n_blocks) * kWarps + warp); at < n_rows;
         at += 2ll * kWarps * (gridDim.x - n_blocks)) {
        WarpTrade trade{shared.warps[warp]};
        pairs.find(at, columns, key, trade);
        if (trade.rows[0].length + trade.rows[1].length <= TRADE_SMALL) trade.run(sink);
    }
}

/// Pass rows on as they are: a block for each of them.
extern "C" __global__ void __launch_bounds__(256)
pass_rows(const long long* __restrict__ offsets, const int* __restrict__ rows, const int n_rows,
          const int* __restrict__ columns, unsigned long long* cursors, const int step, int* passed) {
    const Sink sink = {cursors, step, passed};
    for (long long at = blockIdx.x; at < n_rows; at += gridDim.x) {
        const int row = rows[at];
        for (long long entry = offsets[row] + threadIdx.x; entry < offsets[row + 1]; entry += blockDim.x)
            if (step)
                sink.turn(row, columns[entry]);
            else
                passed[entry] = columns[entry];
    }
}
