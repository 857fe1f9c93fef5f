// What every microbenchmark shares: checked calls, poisoned device arrays, the slope method,
// and the JSON line that carries a result.
//
// A result is a list of samples. Its line holds the median, the 10th and 90th percentile and the
// number of samples; run.py repeats whole programs and merges their lines.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                               \
  do {                                                                                            \
    cudaError_t status_ = (call);                                                                 \
    if (status_ != cudaSuccess) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

// Launch errors surface at once, execution errors at the synchronisation.
#define CHECK_KERNEL()              \
  do {                              \
    CHECK(cudaGetLastError());      \
    CHECK(cudaDeviceSynchronize()); \
  } while (0)

#define REQUIRE(condition, ...)                                       \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fprintf(stderr, "\n");                                          \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

using Samples = std::vector<double>;

// Device memory that starts out as 0xff bytes, so that an output nobody wrote is recognised.
template <class T>
struct DeviceArray {
  size_t count;
  T* data = nullptr;

  explicit DeviceArray(size_t n) : count(n) {
    CHECK(cudaMalloc(&data, n * sizeof(T)));
    poison();
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data); }

  void poison() { CHECK(cudaMemset(data, 0xff, count * sizeof(T))); }
  std::vector<T> host() const {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  // The same, but an element that still holds the poison is an error.
  std::vector<T> written() const {
    const std::vector<T> values = host();
    T poison;
    memset(&poison, 0xff, sizeof(T));
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(memcmp(&values[i], &poison, sizeof(T)) != 0, "element %zu was not written", i);
    }
    return values;
  }
};

// The span of one warp's measured loop, in cycles of its SM's counter.
struct Window {
  long long start, end;
};

__device__ __forceinline__ long long cycles() {
  long long value;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
  return value;
}

__device__ __forceinline__ uint32_t cycles32() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(value)::"memory");
  return value;
}

__device__ __forceinline__ long long nanoseconds() {
  long long value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

// Every warp of a CTA writes its own window; index = warp number in the grid.
__device__ __forceinline__ void record(Window* windows, long long start, long long end) {
  if (threadIdx.x % 32 == 0) {
    windows[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = {start, end};
  }
}

// Cycles from the first start to the last end. All windows must be of one SM and all written.
inline double elapsed_cycles(const std::vector<Window>& windows) {
  long long first = windows[0].start, last = windows[0].end;
  for (const Window& w : windows) {
    REQUIRE(w.start > 0 && w.end >= w.start, "a warp left its window unwritten");
    first = std::min(first, w.start);
    last = std::max(last, w.end);
  }
  return double(last - first);
}

// Cycles per iteration as the slope between two loop counts: launch(iterations) returns elapsed
// cycles, and every fixed cost (first instruction fetch, ramp, clock reads) cancels.
template <class Launch>
Samples slope(Launch launch, int few, int many, int repetitions) {
  launch(few);  // instruction caches, lazy module load
  Samples result;
  for (int i = 0; i < repetitions; ++i) {
    double at_few = launch(few), at_many = launch(many);
    result.push_back((at_many - at_few) / (many - few));
  }
  return result;
}

inline double quantile(Samples samples, double q) {
  REQUIRE(!samples.empty(), "no samples");
  std::sort(samples.begin(), samples.end());
  return samples[size_t(std::lround(q * double(samples.size() - 1)))];
}

inline double median(const Samples& samples) { return quantile(samples, 0.5); }

inline double mean(const Samples& samples) {
  double total = 0;
  for (double x : samples) total += x;
  return total / double(samples.size());
}

inline Samples scaled(Samples samples, double factor) {
  for (double& x : samples) x *= factor;
  return samples;
}

// Straight line y = base + x / rate through points, by least squares.
struct Line {
  double base, per_unit;
};
inline Line fit_line(const Samples& x, const Samples& y) {
  double mean_x = mean(x), mean_y = mean(y), sxx = 0, sxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sxx += (x[i] - mean_x) * (x[i] - mean_x);
    sxy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return {mean_y - sxy / sxx * mean_x, sxy / sxx};
}

inline std::string text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

// One result line. `params` is the inside of a JSON object: text("\"warps\": %d", 4).
inline void report(const std::string& name, const char* unit, const Samples& samples,
                   const char* method, const std::string& params = "") {
  for (double x : samples) REQUIRE(std::isfinite(x), "%s is not finite", name.c_str());
  printf(
      "{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"p10\": %.6g, \"p90\": %.6g, "
      "\"n\": %zu, \"method\": \"%s\", \"params\": {%s}}\n",
      name.c_str(), median(samples), unit, quantile(samples, 0.1), quantile(samples, 0.9),
      samples.size(), method, params.c_str());
  fflush(stdout);
}

// `--quick` asks for tiny loops: it proves that everything runs, its figures mean nothing.
struct Options {
  bool quick = false;
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      REQUIRE(strcmp(argv[i], "--quick") == 0, "unknown argument '%s'; only --quick", argv[i]);
      quick = true;
    }
  }
  int count(int full, int tiny) const { return quick ? tiny : full; }
};

inline int sm_count() {
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  return value;
}

template <class Kernel>
void allow_shared_memory(Kernel kernel, int bytes) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

// Times `work` on the default stream with events, in seconds.
template <class Work>
double event_seconds(Work work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin));
  work();
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return milliseconds * 1e-3;
}
