-- Prints what wrk has found as the last line of its output, for a program to read.
function done(summary, latency)
    local errors = 0
    for _, count in pairs(summary.errors) do
        errors = errors + count
    end
    local per_s = 1e6 * summary.requests / summary.duration
    local line = '{"requests": %d, "per_s": %f, "p50_us": %f, "p99_us": %f, "errors": %d}\n'
    io.write(line:format(summary.requests, per_s, latency:percentile(50), latency:percentile(99), errors))
end
