// Global curveball trades of the rows of a layer (papilio/kernels/null/loops.py: `trade_rows`, the same bit for bit).
//
// Requires rows of ascending columns, each row and each entry numbered below 2^31, and an order of the rows in which
// neighbours are pairs. Each row is in one pair, so that pairs share nothing: a block owns a pair, of any size. Every
// entry has words of its own in device memory for what is between the steps, and traded rows are written to a second
// array: no pool is bound by shared memory.
//
// An entry that only one row of a pair has is pooled, with the random word of its number. The smallest words go to the
// first row, as many as it had: the k-th smallest is found by its bits, eight at a time. No two words of a trade are the
// same, as `mix` is one to one. The place of a column in its new row is the number of smaller columns that go there, found by
// prefix sums over both rows and its rank in the other one.
//
// Carstens, Berger and Strona, Curveball: a new generation of sampling algorithms for graphs with fixed degree sequence
// (arXiv 1609.05137).
#include "warp.cuh"

constexpr int kBins = 256;
constexpr int kBits = 8;

/// The random word of a number under a key; STEP of papilio/kernels/probe.py.
__device__ __forceinline__ unsigned long long draw_at(unsigned long long key, long long number) {
    return mix(key + (unsigned long long)number * 0x9e3779b97f4a7c15ull);
}

/// order[i] = (upper half of the word of the row, row): sorted, they give a random order of the rows.
extern "C" __global__ void __launch_bounds__(256)
order_keys(const int* __restrict__ rows, const long long n, const unsigned long long key, unsigned long long* order) {
    for (long long i = global_thread(); i < n; i += grid_threads())
        order[i] = (draw_at(key, rows[i]) & 0xffffffff00000000ull) | (unsigned)rows[i];
}

/// One row of a pair.
struct Row {
    long long begin;
    int length;
};

/// What the threads of a block share on a pair.
struct Shared {
    unsigned bins[kBins];
    unsigned warps[TRADE_THREADS / kWarpSize];
    unsigned left;  // goes to the first row, of the words that agree with the bits found so far
    unsigned count;  // words in the bin found last
    unsigned bin;
    unsigned n_both;  // columns that both rows have
};

/// The ranks of the entries of a row in the other one, those that it has too as ~rank; return how many of them this
/// thread saw.
__device__ __forceinline__ unsigned find_ranks(const int* columns, Row own, Row other, int* ranks) {
    unsigned n_both = 0;
    const int* others = columns + other.begin;
    for (int i = threadIdx.x; i < own.length; i += blockDim.x) {
        const int column = columns[own.begin + i];
        const int rank = first_not(other.length, [=](int at) { return others[at] < column; });
        const bool both = rank < other.length && others[rank] == column;
        ranks[own.begin + i] = both ? ~rank : rank;
        n_both += both;
    }
    return n_both;
}

/// Words below `limit` once they are shifted go to the first row.
struct Threshold {
    int shift;
    unsigned long long limit;

    __device__ __forceinline__ bool takes(unsigned long long word) const { return word >> shift < limit; }
};

/// Find the `left` smallest of the words of the pooled entries of two rows, some but not all.
__device__ Threshold find_threshold(const Row (&rows)[2], const int* ranks, unsigned long long key, unsigned left,
                                    Shared& shared) {
    unsigned long long found = 0;
    for (int shift = 64 - kBits;; shift -= kBits) {
        for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) shared.bins[bin] = 0;
        __syncthreads();
        for (int side = 0; side < 2; side++)
            for (int i = threadIdx.x; i < rows[side].length; i += blockDim.x) {
                const long long entry = rows[side].begin + i;
                if (ranks[entry] < 0) continue;
                const unsigned long long word = draw_at(key, entry) >> shift;
                if (word >> kBits == found) atomicAdd(&shared.bins[word & (kBins - 1)], 1u);
            }
        __syncthreads();
        if (threadIdx.x < kWarpSize) {
            constexpr int kEach = kBins / kWarpSize;
            unsigned own = 0;
            for (int at = 0; at < kEach; at++) own += shared.bins[threadIdx.x * kEach + at];
            unsigned before = warp_inclusive_sum(own) - own;
            if (before < left && left <= before + own) {
                int bin = threadIdx.x * kEach;
                while (before + shared.bins[bin] < left) before += shared.bins[bin++];
                shared.bin = bin;
                shared.count = shared.bins[bin];
                shared.left = left - before;
            }
        }
        __syncthreads();
        found = found << kBits | shared.bin;
        left = shared.left;
        if (left == shared.count || shift == 0) return {shift, found + 1};
    }
}

/// before[e] = (entries ahead of e in its row that go to the first row from the pool, those that both rows have), for
/// every entry e of a row; return the same for the end of the row, to every thread. Ends with a barrier.
__device__ unsigned long long sum_row(Row row, const int* ranks, unsigned long long key, Threshold threshold,
                                      unsigned long long* before, Shared& shared) {
    unsigned long long ahead = 0;
    const int warp = threadIdx.x / kWarpSize, n_warps = blockDim.x / kWarpSize;
    for (int first = 0; first < row.length; first += blockDim.x) {
        const int i = first + threadIdx.x;
        const long long entry = row.begin + i;
        unsigned own = 0;  // sums of a round are at most the threads of a block: two fit one word
        if (i < row.length) own = ranks[entry] < 0 ? 1u : threshold.takes(draw_at(key, entry)) ? 1u << 16 : 0u;
        const unsigned upto = warp_inclusive_sum(own);
        if (lane_id() == kWarpSize - 1) shared.warps[warp] = upto;
        __syncthreads();
        unsigned earlier = upto - own, all = 0;
        for (int at = 0; at < n_warps; at++) {
            if (at < warp) earlier += shared.warps[at];
            all += shared.warps[at];
        }
        if (i < row.length) before[entry] = ahead + ((unsigned long long)(earlier >> 16) << 32 | (earlier & 0xffffu));
        ahead += (unsigned long long)(all >> 16) << 32 | (all & 0xffffu);
        __syncthreads();
    }
    return ahead;
}

/// Write the entries of a row, `side` of the pair, to where they go; the second one leaves what both have to the first.
__device__ __forceinline__ void deal_row(const Row (&rows)[2], int side, const int* columns, const int* ranks,
                                         const unsigned long long* before, unsigned long long others,
                                         unsigned long long key, Threshold threshold, int* traded) {
    const Row own = rows[side], other = rows[1 - side];
    for (int i = threadIdx.x; i < own.length; i += blockDim.x) {
        const long long entry = own.begin + i;
        const bool both = ranks[entry] < 0;
        if (both && side == 1) continue;
        const int rank = both ? ~ranks[entry] : ranks[entry];
        const unsigned long long mine = before[entry];
        const unsigned long long theirs = rank < other.length ? before[other.begin + rank] : others;
        const unsigned n_both = (unsigned)mine, n_left = (unsigned)(mine >> 32) + (unsigned)(theirs >> 32);
        const bool left = threshold.takes(draw_at(key, entry));
        if (both || left) traded[rows[0].begin + n_both + n_left] = columns[entry];
        if (both || !left) traded[rows[1].begin + (unsigned)i + (unsigned)rank - n_both - n_left] = columns[entry];
    }
}

/// One global trade of n_rows rows by their order: a block for each pair, and for the last row of an odd number, which
/// stays as it is. `ranks` and `before` are room for each entry.
extern "C" __global__ void __launch_bounds__(TRADE_THREADS)
trade_pairs(const long long* __restrict__ offsets, const unsigned long long* __restrict__ order, const int n_rows,
            const unsigned long long key, const int* __restrict__ columns, int* ranks, unsigned long long* before,
            int* traded) {
    __shared__ Shared shared;
    for (long long at = 2ll * blockIdx.x; at < n_rows; at += 2ll * gridDim.x) {
        Row rows[2] = {{0, 0}, {0, 0}};
        for (int side = 0; side < 2 && at + side < n_rows; side++) {
            const unsigned row = (unsigned)order[at + side];
            rows[side] = {offsets[row], (int)(offsets[row + 1] - offsets[row])};
        }
        if (threadIdx.x == 0) shared.n_both = 0;
        __syncthreads();
        const unsigned n_seen = find_ranks(columns, rows[0], rows[1], ranks);
        find_ranks(columns, rows[1], rows[0], ranks);
        if (n_seen) atomicAdd(&shared.n_both, n_seen);
        __syncthreads();
        const unsigned n_own = rows[0].length - shared.n_both, n_other = rows[1].length - shared.n_both;
        Threshold threshold = {63, n_own ? 2ull : 0ull};  // all that is pooled comes from one row, and stays there
        if (n_own && n_other) threshold = find_threshold(rows, ranks, key, n_own, shared);
        const unsigned long long end_0 = sum_row(rows[0], ranks, key, threshold, before, shared);
        const unsigned long long end_1 = sum_row(rows[1], ranks, key, threshold, before, shared);
        deal_row(rows, 0, columns, ranks, before, end_1, key, threshold, traded);
        deal_row(rows, 1, columns, ranks, before, end_0, key, threshold, traded);
        __syncthreads();
    }
}
