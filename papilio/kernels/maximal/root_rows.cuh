// The roots of maximal bicliques: whose rows their matrices have.
#pragma once

#include "warp.cuh"

#define ROOT_PARAMETERS                                                                                                \
    const long long *__restrict__ indptr, const int *__restrict__ columns, const long long *__restrict__ hop_indptr,   \
        const int *__restrict__ hop, const long long *__restrict__ earlier_indptr, const int *__restrict__ earlier
/// The same as a RootGraph.
#define ROOT_ARGUMENTS {indptr, columns, hop_indptr, hop, earlier_indptr, earlier}

/// Left vertices with their right ones, and with the earlier and later left ones that share enough of them.
struct RootGraph {
    const long long* indptr;
    const int* columns;
    const long long* hop_indptr;
    const int* hop;
    const long long* earlier_indptr;
    const int* earlier;

    __device__ __forceinline__ int n_columns(int root) const { return (int)(indptr[root + 1] - indptr[root]); }

    __device__ __forceinline__ int n_before(int root) const {
        return (int)(earlier_indptr[root + 1] - earlier_indptr[root]);
    }

    __device__ __forceinline__ int n_rows(int root) const {
        return n_before(root) + (int)(hop_indptr[root + 1] - hop_indptr[root]);
    }

    /// The left vertex of a row of a root's matrix.
    __device__ __forceinline__ int row_vertex(int root, int row) const {
        const int before = n_before(root);
        return row < before ? earlier[earlier_indptr[root] + row] : hop[hop_indptr[root] + row - before];
    }
};
