// Tensor core: throughput of wgmma and what a waiter pays beyond the tensor time.
//
// Blackwell's tcgen05 signals completion through an mbarrier, which wgmma cannot do. Two stand-ins
// are measured: commit to wait_group return in the issuing warpgroup, and the same followed by an
// mbarrier arrival that another warp waits on.
#include "wgmma.cuh"

struct Tiles {
  uint8_t a[kATileBytes], b[kBTileBytes];
  uint64_t done, next;  // mbarriers
};
extern __shared__ __align__(1024) uint8_t memory[];

__device__ __forceinline__ Tiles& shared_tiles() { return *reinterpret_cast<Tiles*>(memory); }
constexpr int kTilesMemory = sizeof(Tiles);

__device__ __forceinline__ void prepare(Tiles& tiles) {
  if (shared_address(tiles.a) % 1024 != 0) __trap();  // what the swizzle and descriptors rely on
  fill_tile(tiles.a, 0, kWgmmaM);
  fill_tile(tiles.b, 1, kWgmmaN);
  fence_proxy_async();
  __syncthreads();
}

// ---- correctness: one 64 x 128 x 64 product against the host -----------------------------------

__global__ void __launch_bounds__(128) product(float* out) {
  Tiles& tiles = shared_tiles();
  prepare(tiles);
  float d[64] = {};
  wgmma_fence();
  for (int k = 0; k < 4; ++k) {
    wgmma_step(d, wgmma_descriptor(shared_address(tiles.a)),
               wgmma_descriptor(shared_address(tiles.b)), k);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_results_ready(d);
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    out[(row + i % 4 / 2 * 8) * kWgmmaN + column + i / 4 * 8 + i % 2] = d[i];
  }
}

void verify() {
  DeviceArray<float> out(kWgmmaM * kWgmmaN);
  allow_shared_memory(product, kTilesMemory);
  product<<<1, 128, kTilesMemory>>>(out.data);
  CHECK_KERNEL();
  const std::vector<float> got = out.written();
  for (int m = 0; m < kWgmmaM; ++m) {
    for (int n = 0; n < kWgmmaN; ++n) {
      double expected = 0;
      for (int k = 0; k < kTileK; ++k)
        expected += double(operand_value(0, m, k)) * operand_value(1, n, k);
      REQUIRE(std::abs(got[m * kWgmmaN + n] - expected) < 1e-3, "product[%d][%d]: %g, expected %g",
              m, n, got[m * kWgmmaN + n], expected);
    }
  }
}

// ---- latency -----------------------------------------------------------------------------------

struct Completion {
  uint32_t issued, waited,
      resumed;  // before the first wgmma, after wait_group, waiter past barrier
};

// Warps 0-3 issue `KSteps` wgmma and wait; warp 4 waits on the mbarrier that they then arrive on.
template <int KSteps>
__global__ void __launch_bounds__(160) completion(int rounds, Completion* out, float* sink) {
  Tiles& tiles = shared_tiles();
  const uint32_t done = shared_address(&tiles.done), next = shared_address(&tiles.next);
  if (threadIdx.x == 0) {
    mbarrier_init(done, 4);
    mbarrier_init(next, 1);
  }
  prepare(tiles);
  if (threadIdx.x < 128) {
    const uint64_t a = wgmma_descriptor(shared_address(tiles.a));
    const uint64_t b = wgmma_descriptor(shared_address(tiles.b));
    float d[64] = {};
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      const uint32_t issued = cycles32();
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < KSteps; ++k) wgmma_step(d, a, b, k % 4);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_results_ready(d);
      const uint32_t waited = cycles32();
      mbarrier_arrive_one_lane(done);
      if (threadIdx.x == 0) out[round].issued = issued, out[round].waited = waited;
      mbarrier_wait(next, round & 1);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) sum += d[i];
    sink[threadIdx.x] = sum;
  } else {
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      mbarrier_wait(done, round & 1);
      const uint32_t resumed = cycles32();
      if (threadIdx.x == 128) out[round].resumed = resumed;
      mbarrier_arrive_one_lane(next);
    }
  }
}

struct Latency {
  Samples to_wait, to_waiter;
};

template <int KSteps>
Latency measure_completion(int rounds) {
  DeviceArray<Completion> out(rounds);
  DeviceArray<float> sink(128);
  allow_shared_memory(completion<KSteps>, kTilesMemory);
  completion<KSteps><<<1, 160, kTilesMemory>>>(rounds, out.data, sink.data);
  CHECK_KERNEL();
  Latency latency;
  const std::vector<Completion> all = out.written();
  for (size_t i = 8; i < all.size(); ++i) {
    latency.to_wait.push_back(all[i].waited - all[i].issued);
    latency.to_waiter.push_back(all[i].resumed - all[i].issued);
  }
  return latency;
}

void measure_latency(const Options& options) {
  const int rounds = options.count(1000, 64);
  const double k_steps[] = {1, 2, 4, 8};
  const Latency latencies[] = {measure_completion<1>(rounds), measure_completion<2>(rounds),
                               measure_completion<4>(rounds), measure_completion<8>(rounds)};
  Samples x, to_wait, to_waiter;
  for (int i = 0; i < 4; ++i) {
    report(text("wgmma_n128_%d_ksteps_cycles", int(k_steps[i])), "cycles", latencies[i].to_wait,
           "stamps: before the first wgmma to wait_group 0 returned, one warpgroup",
           text("\"k_steps\": %d", int(k_steps[i])));
    x.push_back(k_steps[i]);
    to_wait.push_back(median(latencies[i].to_wait));
    to_waiter.push_back(median(latencies[i].to_waiter));
  }
  const Line wait = fit_line(x, to_wait), waiter = fit_line(x, to_waiter);
  report("wgmma_n128_per_kstep_cycles", "cycles", {wait.per_unit},
         "slope of issue to wait_group return over 1, 2, 4, 8 k-steps");
  report("wgmma_commit_to_wait_cycles", "cycles", {wait.base},
         "intercept of the same fit: issue, commit and wait beyond the tensor time");
  report("wgmma_commit_to_waiter_cycles", "cycles", {waiter.base},
         "as above, followed by an mbarrier arrival of 4 warps that another warp waits on");
}

// ---- throughput --------------------------------------------------------------------------------

__global__ void __launch_bounds__(256) sustained(int iterations, Window* windows, float* sink) {
  Tiles& tiles = shared_tiles();
  prepare(tiles);
  const uint64_t a = wgmma_descriptor(shared_address(tiles.a));
  const uint64_t b = wgmma_descriptor(shared_address(tiles.b));
  float d[64] = {};
  __syncthreads();
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 8; ++k) wgmma_step(d, a, b, k % 4);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  wgmma_results_ready(d);
  record(windows, start, cycles());
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
  sink[threadIdx.x] = sum;
}

void measure_throughput(const Options& options) {
  allow_shared_memory(sustained, kTilesMemory);
  for (int warpgroups : {1, 2}) {
    DeviceArray<Window> windows(warpgroups * 4);
    DeviceArray<float> sink(warpgroups * 128);
    auto launch = [&](int iterations) {
      windows.poison();
      sustained<<<1, warpgroups * 128, kTilesMemory>>>(iterations, windows.data, sink.data);
      CHECK_KERNEL();
      return elapsed_cycles(windows.host());
    };
    Samples rate = slope(launch, 32, options.count(1024, 64), options.count(7, 2));
    for (double& x : rate) x = 8.0 * kFlopPerWgmma * warpgroups / x;
    report(text("wgmma_n128_%d_warpgroup_flop_per_cycle", warpgroups), "flop_per_cycle", rate,
           "m64n128k16 without pause, one SM, slope", text("\"warpgroups\": %d", warpgroups));
  }
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  verify();
  measure_latency(options);
  measure_throughput(options);
}
