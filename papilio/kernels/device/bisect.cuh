// Binary search, by a condition.
#pragma once

/// The first of the places 0 to n - 1 that is not `before` what is searched, or n; all that are come first. Any lane alone.
template <class Place, class Before>
__device__ __forceinline__ Place first_not(Place n, Before before) {
    Place low = 0;
    while (low < n) {
        const Place middle = low + ((n - low) >> 1);
        if (before(middle))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}
