// What surrounds a kernel's work: one CTA following another on an SM, register hand-over by
// setmaxnreg, and launches.
#include <functional>

#include "common.cuh"
#include "ptx.cuh"

// ---- CTA turnover ------------------------------------------------------------------------------

struct WarpLife {
  long long start, end;
  uint32_t sm, pad;
};

// Each CTA does nothing for `work` cycles. Every warp stamps its first and last moment; after the
// last stamp nothing but its store is left to do.
__device__ __forceinline__ void live(int work, WarpLife* lives) {
  const long long start = cycles();
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  WarpLife* mine = lives + (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) mine->start = start, mine->sm = sm;
  __syncthreads();
  long long now;
  do {
    now = cycles();
  } while (now - start < work);
  if (threadIdx.x % 32 == 0) mine->end = now;
}
__global__ void __launch_bounds__(512, 1) single(int work, WarpLife* lives) { live(work, lives); }
__global__ void __launch_bounds__(512, 1) __cluster_dims__(2, 1, 1)
    paired(int work, WarpLife* lives) {
  live(work, lives);
}

struct Turnover {
  Samples to_first, to_last;  // last warp's end to the next CTA's first / last warp's start
};

template <class Kernel>
Turnover turnover(Kernel kernel, int threads, int shared_bytes, int ctas_per_sm) {
  const int ctas = sm_count() * ctas_per_sm, warps = threads / 32;
  DeviceArray<WarpLife> lives(size_t(ctas) * warps);
  allow_shared_memory(kernel, shared_bytes);
  for (int r = 0; r < 2; ++r) {  // the first launch loads the code
    lives.poison();
    kernel<<<ctas, threads, shared_bytes>>>(3000, lives.data);
    CHECK_KERNEL();
  }
  struct CtaLife {
    long long first_start, last_start, end;
  };
  std::vector<std::vector<CtaLife>> by_sm(sm_count());
  const std::vector<WarpLife> all = lives.host();
  for (int c = 0; c < ctas; ++c) {
    CtaLife cta{all[c * warps].start, all[c * warps].start, all[c * warps].end};
    for (int w = 0; w < warps; ++w) {
      const WarpLife& warp = all[c * warps + w];
      REQUIRE(warp.end > warp.start && warp.sm < by_sm.size(), "CTA %d warp %d left no record", c,
              w);
      cta.first_start = std::min(cta.first_start, warp.start);
      cta.last_start = std::max(cta.last_start, warp.start);
      cta.end = std::max(cta.end, warp.end);
    }
    by_sm[all[c * warps].sm].push_back(cta);
  }
  Turnover result;
  for (std::vector<CtaLife>& sm : by_sm) {
    std::sort(sm.begin(), sm.end(),
              [](const CtaLife& a, const CtaLife& b) { return a.first_start < b.first_start; });
    for (size_t i = 1; i < sm.size(); ++i) {
      REQUIRE(sm[i].first_start > sm[i - 1].end, "two CTAs shared an SM");
      result.to_first.push_back(double(sm[i].first_start - sm[i - 1].end));
      result.to_last.push_back(double(sm[i].last_start - sm[i - 1].end));
    }
  }
  return result;
}

void measure_turnover(const Options& options) {
  const int per_sm = options.count(12, 3), kib = 1024;
  const char* method = "stamps on one SM: last warp of a CTA ends to first warp of the next starts";
  auto params = [](int threads, int bytes) {
    return text("\"threads\": %d, \"shared_bytes\": %d", threads, bytes);
  };
  const Turnover full = turnover(single, 512, 200 * kib, per_sm);
  report("cta_turnover_cycles", "cycles", full.to_first, method, params(512, 200 * kib));
  report("cta_turnover_last_warp_cycles", "cycles", full.to_last,
         "as cta_turnover_cycles, to the start of the next CTA's last warp",
         params(512, 200 * kib));
  report("cta_turnover_384_threads_cycles", "cycles",
         turnover(single, 384, 200 * kib, per_sm).to_first, method, params(384, 200 * kib));
  report("cta_turnover_128_threads_cycles", "cycles",
         turnover(single, 128, 200 * kib, per_sm).to_first, method, params(128, 200 * kib));
  report("cta_turnover_cluster2_cycles", "cycles",
         turnover(paired, 512, 200 * kib, per_sm).to_first,
         "as cta_turnover_cycles, clusters of two CTAs", params(512, 200 * kib));
}

// ---- start of a CTA ----------------------------------------------------------------------------

// What a warp-specialised kernel does first: one thread initialises 30 mbarriers, another
// prefetches four tensor maps, a fence publishes the barriers, and all 512 threads meet. No tensor
// memory.

struct Maps {
  alignas(64) uint8_t bytes[4][128];
};

__global__ void __launch_bounds__(512, 1)
    prologue(const __grid_constant__ Maps maps, Window* windows) {
  __shared__ alignas(8) uint64_t barriers[30];
  const long long start = cycles();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < 30; ++i) mbarrier_init(shared_address(&barriers[i]), 1 + i % 4 * 32);
    mbarrier_init_fence();
  }
  if (threadIdx.x == 32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("prefetch.tensormap [%0];" ::"l"(maps.bytes[i]) : "memory");
    }
  }
  bar_sync(0, 512);
  record(windows, start, cycles());
}

void measure_prologue(const Options& options) {
  DeviceArray<Window> windows(16);
  const Maps maps = {};
  Samples samples;
  for (int r = 0; r < options.count(50, 4); ++r) {
    windows.poison();
    prologue<<<1, 512>>>(maps, windows.data);
    CHECK_KERNEL();
    if (r > 0) samples.push_back(elapsed_cycles(windows.host()));
  }
  report(
      "cta_prologue_cycles", "cycles", samples,
      "first warp's start to last warp past the first barrier: 30 mbarriers, 4 prefetches, fence",
      "\"threads\": 512");
}

// ---- setmaxnreg --------------------------------------------------------------------------------

// FlashAttention-4's split of 512 threads at 128 registers: two warpgroups grow to 192, one shrinks
// to 72 and one to 56. `lead` > 0 delays the growth, so that its registers are free when it asks;
// `lead` < 0 delays the shrinking, so that the growth has to wait for it.
struct RegisterStamps {
  uint32_t before, after;
};

// One branch per warpgroup, as the compiler wants it.
__global__ void __launch_bounds__(512, 1) set_registers(int lead, RegisterStamps* out) {
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32;
  __syncthreads();
  const uint32_t start = cycles32();
  uint32_t before, after;
  if (warpgroup < 2) {
    while (int(cycles32() - start) < lead) {
    }
    before = cycles32();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;" ::: "memory");
    after = cycles32();
    if (threadIdx.x % 32 == 0) out[warp] = {before, after};
  } else if (warpgroup == 2) {
    while (int(cycles32() - start) < -lead) {
    }
    before = cycles32();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 72;" ::: "memory");
    after = cycles32();
    if (threadIdx.x % 32 == 0) out[warp] = {before, after};
  } else {
    while (int(cycles32() - start) < -lead) {
    }
    before = cycles32();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;" ::: "memory");
    after = cycles32();
    if (threadIdx.x % 32 == 0) out[warp] = {before, after};
  }
}

void measure_registers(const Options& options) {
  DeviceArray<RegisterStamps> out(16);
  Samples dec, inc, blocked;
  for (int lead : {2000, -2000}) {
    for (int r = 0; r < options.count(50, 4); ++r) {
      out.poison();
      set_registers<<<1, 512>>>(lead, out.data);
      CHECK_KERNEL();
      const std::vector<RegisterStamps> all = out.written();
      const uint32_t origin = all[8].before - 100000;
      uint32_t last_dec = 0, last_inc = 0;
      for (int w = 0; w < 16; ++w) {
        REQUIRE(all[w].after != 0xffffffffu, "warp %d left no record", w);
        if (w < 8) last_inc = std::max(last_inc, all[w].after - origin);
        if (w >= 8) last_dec = std::max(last_dec, all[w].before - origin);
        if (r == 0) continue;  // instruction fetch
        if (lead > 0) (w < 8 ? inc : dec).push_back(all[w].after - all[w].before);
      }
      if (lead < 0 && r > 0) blocked.push_back(int32_t(last_inc - last_dec));
    }
  }
  const char* params = "\"threads\": 512, \"registers\": [128, 192, 72, 56]";
  report("setmaxnreg_dec_cycles", "cycles", dec, "stamps round the instruction, every warp",
         params);
  report("setmaxnreg_inc_cycles", "cycles", inc,
         "stamps round the instruction, registers already free, every warp", params);
  report("setmaxnreg_cycles", "cycles", blocked,
         "hand-over: start of the last dec to the end of the last inc, which had been waiting",
         params);
}

// ---- launches ----------------------------------------------------------------------------------

__global__ void __launch_bounds__(512, 1) empty(int* never) {
  if (never != nullptr) *never = 1;
}

struct Shape {
  int ctas, threads, shared_bytes, cluster;
  bool programmatic;  // programmatic dependent launch
};

void launch_empty(const Shape& shape, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.ctas;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {unsigned(shape.cluster), 1, 1};
  }
  if (shape.programmatic) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  CHECK(cudaLaunchKernelEx(&config, empty, static_cast<int*>(nullptr)));
}

Samples microseconds_per_launch(const Shape& shape, bool graph, const Options& options) {
  const int launches = 1000;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::function<void()> submit = [&] {
    for (int i = 0; i < launches; ++i) launch_empty(shape, stream);
  };
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (graph) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    submit();
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&executable, captured, 0));
    submit = [&] { CHECK(cudaGraphLaunch(executable, stream)); };
  }
  Samples result;
  for (int r = -1; r < options.count(11, 2); ++r) {
    CHECK(cudaEventRecord(begin, stream));
    submit();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (r >= 0) result.push_back(milliseconds * 1e3 / launches);
  }
  if (graph) {
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(captured));
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaStreamDestroy(stream));
  return result;
}

void measure_launches(const Options& options) {
  const int sms = sm_count(), shared = 200 * 1024;
  allow_shared_memory(empty, shared);
  auto params = [](const Shape& s) {
    return text(
        "\"ctas\": %d, \"threads\": %d, \"shared_bytes\": %d, \"cluster\": %d, "
        "\"launches\": 1000",
        s.ctas, s.threads, s.shared_bytes, s.cluster);
  };
  const char* streamed = "1000 empty kernels in a stream, events";
  const char* graphed = "graph of 1000 dependent empty kernels, events, per node";
  const Shape tiny{1, 32, 0, 1, false}, full{sms, 512, shared, 1, false};
  const Shape pairs{sms, 512, shared, 2, false}, programmatic{sms, 512, shared, 1, true};
  const Shape tiny_programmatic{1, 32, 0, 1, true};
  const Shape ten_waves{sms * 10, 512, shared, 1, false};
  report("launch_stream_us", "us", microseconds_per_launch(full, false, options), streamed,
         params(full));
  report("launch_graph_us", "us", microseconds_per_launch(full, true, options), graphed,
         params(full));
  report("launch_graph_1_cta_us", "us", microseconds_per_launch(tiny, true, options), graphed,
         params(tiny));
  report("launch_graph_1_cta_programmatic_us", "us",
         microseconds_per_launch(tiny_programmatic, true, options),
         "same with programmatic dependent launch", params(tiny_programmatic));
  report("launch_graph_cluster2_us", "us", microseconds_per_launch(pairs, true, options), graphed,
         params(pairs));
  report("launch_graph_programmatic_us", "us", microseconds_per_launch(programmatic, true, options),
         "same with programmatic dependent launch", params(programmatic));
  report("launch_graph_10_waves_us", "us", microseconds_per_launch(ten_waves, true, options),
         graphed, params(ten_waves));
}

// ---- one kernel after another ------------------------------------------------------------------

// The last moment of a kernel to the first moment, on the same SM, of the kernel queued behind it.
// The CTAs of the first end together, to about 32 ns: when the global timer passes the multiple of
// 2^17 ns after next, 131 to 262 us later.
__global__ void __launch_bounds__(512, 1) end_together(WarpLife* lives) {
  const long long start = cycles(), deadline = ((nanoseconds() >> 17) + 2) << 17;
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  WarpLife* mine = lives + (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  while (nanoseconds() < deadline) {
  }
  if (threadIdx.x % 32 == 0) *mine = {start, cycles(), sm, 0};
}

void measure_kernel_to_kernel(const Options& options) {
  const int sms = sm_count(), threads = 512, warps = threads / 32, shared = 200 * 1024;
  DeviceArray<WarpLife> first(size_t(sms) * warps), second(size_t(sms) * warps);
  allow_shared_memory(single, shared);
  allow_shared_memory(end_together, shared);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  auto submit = [&] {
    end_together<<<sms, threads, shared, stream>>>(first.data);
    single<<<sms, threads, shared, stream>>>(1000, second.data);
  };
  cudaGraph_t captured;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  submit();
  CHECK(cudaStreamEndCapture(stream, &captured));
  CHECK(cudaGraphInstantiate(&executable, captured, 0));
  for (bool graph : {false, true}) {
    Samples samples;
    for (int r = -1; r < options.count(20, 2); ++r) {
      first.poison(), second.poison();
      CHECK(cudaDeviceSynchronize());
      if (graph) {
        CHECK(cudaGraphLaunch(executable, stream));
      } else {
        submit();
      }
      CHECK_KERNEL();
      if (r < 0) continue;
      std::vector<long long> end(sms, 0), start(sms, 0);
      for (const WarpLife& w : first.host()) end.at(w.sm) = std::max(end.at(w.sm), w.end);
      for (const WarpLife& w : second.host()) {
        start.at(w.sm) = start.at(w.sm) ? std::min(start.at(w.sm), w.start) : w.start;
      }
      for (int sm = 0; sm < sms; ++sm) {
        REQUIRE(end[sm] > 0 && start[sm] > end[sm], "SM %d did not run both kernels in turn", sm);
        samples.push_back(double(start[sm] - end[sm]));
      }
    }
    report(text("kernel_to_kernel_%s_cycles", graph ? "graph" : "stream"), "cycles", samples,
           "stamps on every SM: end of a 131-262 us kernel to start of the one queued behind it",
           text("\"ctas\": %d, \"threads\": %d, \"shared_bytes\": %d", sms, threads, shared));
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(captured));
  CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  measure_turnover(options);
  measure_prologue(options);
  measure_kernel_to_kernel(options);
  measure_registers(options);
  measure_launches(options);
}
