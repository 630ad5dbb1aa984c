/* Kernel density of a few to thousands of values, in pixels of an axis, so that a logarithmic axis has the density of
 * logarithms. */

const DENSITY_STEP = 1.5; /* pixels */

/* Silverman's rule supposes one mode. Configurations have several (a kernel, a tile, an order each makes its own), with
 * much between them, which makes its bandwidth as wide as the gaps that it should show. So it is never more than a
 * thirtieth of the range; and a pixel and a half at least, below which there is nothing to see. */
function density_bandwidth(values) {
    const n = values.length;
    const sorted = [...values].sort((a, b) => a - b);
    const at = (share) => sorted[Math.min(n - 1, Math.floor(share * n))];
    const mean = sorted.reduce((sum, value) => sum + value, 0) / n;
    const deviation = Math.sqrt(sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, n - 1));
    const quartiles = (at(0.75) - at(0.25)) / 1.34;
    const silverman = 0.9 * (quartiles > 0 ? Math.min(deviation, quartiles) : deviation) * n ** -0.2;
    return Math.max(1.5, Math.min(silverman, (sorted[n - 1] - sorted[0]) / 30));
}

/* {from, heights}: at every step from `from`, the highest being 1. It ends two bandwidths beyond the values. */
function density_of(values) {
    const bandwidth = density_bandwidth(values);
    const from = Math.min(...values) - 2 * bandwidth;
    const to = Math.max(...values) + 2 * bandwidth;
    const heights = [];
    for (let at = from; at <= to + DENSITY_STEP / 2; at += DENSITY_STEP) {
        let sum = 0;
        for (const value of values) {
            const off = (value - at) / bandwidth;
            if (Math.abs(off) < 5) sum += Math.exp(-0.5 * off * off);
        }
        heights.push(sum);
    }
    const most = Math.max(...heights);
    return { from, heights: heights.map((height) => height / most) };
}

function density_at(density, value) {
    const at = (value - density.from) / DENSITY_STEP;
    const before = Math.floor(at);
    const low = density.heights[before] ?? 0;
    return low + (at - before) * ((density.heights[before + 1] ?? 0) - low);
}
