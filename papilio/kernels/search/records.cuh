// Output of a search that lists (LISTS 1): a record of words for each leaf, in a buffer of device memory.
//
// Records lie in the order in which they are found. Those that do not fit are counted, but not written: the host then
// searches fewer items at a time or, if one item finds too much, runs several searches, each for one *window* of records,
// by a hash of their words. Without LISTS nothing is written.
// ends: number of records found, and of their words. places: start << kLengthBits | number of words of each record, or ~0
// if it did not fit. The search may stop when `enough` are found.
#pragma once

#include "warp.cuh"

#ifndef LISTS
#define LISTS 0
#endif
constexpr bool kLists = LISTS != 0;

constexpr int kLengthBits = LENGTH_BITS;

#if LISTS
#define RECORD_PARAMETERS                                                                                            \
    , unsigned long long *record_ends, unsigned long long *record_places, const long long most_records,              \
        int *record_words, const long long max_words, const unsigned window, const unsigned n_windows,              \
        const long long enough
#define RECORD_SINK {record_ends, record_places, most_records, record_words, max_words, window, n_windows, enough, false}
#else
#define RECORD_PARAMETERS
#define RECORD_SINK {}
#endif

struct RecordSink {
#if LISTS
    unsigned long long* ends;
    unsigned long long* places;
    long long most_records;
    int* words;
    long long max_words;
    unsigned window;
    unsigned n_windows;
    long long enough;
    bool is_done;  // whether this warp has seen that no more records are needed

    /// Write a record of n words; `each` calls its argument with the place and the value of each word, every word by some
    /// lane. The warp.
    template <class Each>
    __device__ __forceinline__ void write(int n, const Each& each) {
        if (n_windows > 1) {
            unsigned long long hash = 0;
            each([&](int, int word) { hash += mix((unsigned)word); });
            if (warp_sum(hash) % n_windows != window) return;
        }
        long long at = -1, number = 0;
        if (lane_id() == 0) {
            number = (long long)atomicAdd(&ends[0], 1ull);
            const long long begin = (long long)atomicAdd(&ends[1], (unsigned long long)n);
            if (number < most_records) {
                if (begin + n <= max_words) at = begin;
                places[number] = at < 0 ? ~0ull : (unsigned long long)begin << kLengthBits | (unsigned)n;
            }
        }
        at = __shfl_sync(kFullMask, at, 0);
        is_done = __shfl_sync(kFullMask, number, 0) >= enough;
        if (at >= 0) each([&](int i, int word) { words[at + i] = word; });
        __syncwarp();
    }

    /// Whether no more records are needed; the warp.
    __device__ __forceinline__ bool is_full() {
        const unsigned long long found = lane_id() == 0 ? peek(&ends[0]) : 0ull;
        return is_done = (long long)__shfl_sync(kFullMask, found, 0) >= enough;
    }
#else
    static constexpr bool is_done = false;

    template <class Each>
    __device__ __forceinline__ void write(int, const Each&) {}
    __device__ __forceinline__ bool is_full() { return false; }
#endif
};
