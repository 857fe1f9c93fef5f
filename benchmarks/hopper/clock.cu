// The SM clock under different loads, and the bandwidth and latency of L2 and HBM.
//
// A clock is cycles of one SM's counter over nanoseconds of the global timer, per launch.
#include "wgmma.cuh"

struct Pace {
  long long cycles, nanoseconds;
};

__device__ __forceinline__ void write_pace(Pace* out, long long cycle_start, long long time_start) {
  if (threadIdx.x == 0) out[blockIdx.x] = {cycles() - cycle_start, nanoseconds() - time_start};
}

Samples clock_hz(const std::vector<Pace>& paces) {
  Samples result;
  for (const Pace& p : paces) {
    REQUIRE(p.cycles > 0 && p.nanoseconds > 0, "a CTA left its pace unwritten");
    result.push_back(double(p.cycles) / double(p.nanoseconds) * 1e9);
  }
  return result;
}

// ---- clock -------------------------------------------------------------------------------------

__global__ void light_load(long long duration, Pace* out, float* sink) {
  const long long start = cycles(), time = nanoseconds();
  float x = float(threadIdx.x);
  while (cycles() - start < duration) {
#pragma unroll
    for (int i = 0; i < 64; ++i) x = fmaf(x, 0.999f, 0.5f);
  }
  write_pace(out, start, time);
  if (x == 1.25f) sink[0] = x;
}

extern __shared__ __align__(1024) uint8_t memory[];

// Two warpgroups per SM issue wgmma without pause on random operands.
__global__ void __launch_bounds__(256) tensor_load(int iterations, Pace* out, float* sink) {
  fill_tile(memory, blockIdx.x, kWgmmaM);
  fill_tile(memory + kATileBytes, blockIdx.x + 1000, kWgmmaN);
  fence_proxy_async();
  __syncthreads();
  const long long start = cycles(), time = nanoseconds();
  const uint64_t a = wgmma_descriptor(shared_address(memory));
  const uint64_t b = wgmma_descriptor(shared_address(memory + kATileBytes));
  float d[64] = {};
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
  __syncthreads();
  write_pace(out, start, time);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
  if (sum == 0.125f) sink[0] = sum;
}

void measure_clock(const Options& options) {
  const int sms = sm_count();
  DeviceArray<float> sink(1);
  DeviceArray<Pace> one(1), all(sms);
  const long long duration = options.count(40'000'000, 400'000);  // about 20 ms
  light_load<<<1, 32>>>(duration, one.data, sink.data);
  CHECK_KERNEL();
  report("sm_clock_one_warp_hz", "hz", clock_hz(one.host()), "clock64 over globaltimer, 20 ms",
         "\"ctas\": 1, \"threads\": 32");
  light_load<<<sms, 512>>>(duration, all.data, sink.data);
  CHECK_KERNEL();
  report("sm_clock_light_hz", "hz", clock_hz(all.host()),
         "clock64 over globaltimer, dependent FFMA on every SM for 20 ms", "\"threads\": 512");

  // About a quarter of a second per launch. The first launches run before the power limit bites.
  const int bytes = kATileBytes + kBTileBytes, launches = options.count(16, 2);
  const int iterations = options.count(400'000, 1000);
  Samples first, clocks, flops, flop_per_cycle;
  for (int l = 0; l < launches; ++l) {
    all.poison();
    tensor_load<<<sms, 256, bytes>>>(iterations, all.data, sink.data);
    CHECK_KERNEL();
    const std::vector<Pace> paces = all.host();
    const Samples hz = clock_hz(paces);
    if (l == 0) first = hz;
    if (l < launches / 2) continue;
    clocks.insert(clocks.end(), hz.begin(), hz.end());
    const double flop_per_sm = double(iterations) * 8 * 2 * kFlopPerWgmma;
    double longest = 0;
    for (const Pace& p : paces) {
      longest = std::max(longest, double(p.nanoseconds));
      flop_per_cycle.push_back(flop_per_sm / double(p.cycles));
    }
    flops.push_back(flop_per_sm * sms / (longest * 1e-9));
  }
  const char* method =
      "2 warpgroups of wgmma m64n128k16 on random operands on every SM; later half of the launches";
  const std::string params = text("\"launches\": %d, \"iterations\": %d", launches, iterations);
  report("sm_clock_sustained_first_launch_hz", "hz", first, "first of those launches", params);
  report("sm_clock_sustained_hz", "hz", clocks, method, params);
  report("wgmma_sustained_flop_per_second", "flop_per_second", flops, method, params);
  report("wgmma_sustained_flop_per_cycle", "flop_per_cycle", flop_per_cycle, method, params);
}

// ---- bandwidth ---------------------------------------------------------------------------------

// CTAs take turns at chunks of 128 KiB: 8 loads of 16 bytes per thread, all issued before the first
// use. `chunks` counts all passes over an array of `chunk_mask` + 1 chunks.
constexpr int kChunkLoads = 8, kChunkBytes = 1024 * 16 * kChunkLoads;

__global__ void __launch_bounds__(1024, 2)
    read_loop(const uint4* data, uint32_t chunk_mask, uint32_t chunks, Pace* out, uint32_t* sink) {
  const long long start = cycles(), time = nanoseconds();
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const uint4* chunk = data + size_t(c & chunk_mask) * (kChunkBytes / 16) + threadIdx.x;
    uint4 v[kChunkLoads];
#pragma unroll
    for (int i = 0; i < kChunkLoads; ++i) v[i] = __ldcg(chunk + i * 1024);
#pragma unroll
    for (int i = 0; i < kChunkLoads; ++i) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  __syncthreads();
  write_pace(out, start, time);
  if (sum == 0x12345678) sink[0] = sum;
}

__global__ void fill(uint32_t* words, uint64_t count) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < count;
       i += uint64_t(gridDim.x) * blockDim.x) {
    const uint32_t h = uint32_t(i) * 2654435761u;
    words[i] = h ^ h >> 15;
  }
}

void measure_bandwidth(const Options& options) {
  const size_t big = size_t(options.count(4, 1)) << 30, cached = size_t(16) << 20;
  const int sms = sm_count(), repetitions = options.count(9, 2);
  DeviceArray<uint8_t> source(big), destination(big);
  DeviceArray<uint32_t> sink(1);
  DeviceArray<Pace> paces(sms * 2);
  fill<<<1024, 256>>>(reinterpret_cast<uint32_t*>(source.data), big / 4);
  CHECK_KERNEL();

  Samples copy, read, l2, l2_per_cycle, one_sm, hz;
  for (int r = -1; r < repetitions; ++r) {
    const double seconds = event_seconds([&] {
      CHECK(cudaMemcpyAsync(destination.data, source.data, big, cudaMemcpyDeviceToDevice));
    });
    if (r >= 0) copy.push_back(2.0 * double(big) / seconds);
  }
  report("hbm_copy_bytes_per_second", "bytes_per_second", copy,
         "device-to-device memcpy, read and written bytes, events", text("\"bytes\": %zu", big));

  const uint4* data = reinterpret_cast<const uint4*>(source.data);
  for (int r = -1; r < repetitions; ++r) {
    const double seconds = event_seconds([&] {
      read_loop<<<sms * 2, 1024>>>(data, big / kChunkBytes - 1, big / kChunkBytes, paces.data,
                                   sink.data);
    });
    if (r < 0) continue;
    read.push_back(double(big) / seconds);
    const Samples now = clock_hz(paces.host());
    hz.insert(hz.end(), now.begin(), now.end());
  }
  report("hbm_read_bytes_per_second", "bytes_per_second", read,
         "16-byte loads, 2 x 1024 threads per SM, events", text("\"bytes\": %zu", big));
  report("sm_clock_hbm_read_hz", "hz", hz, "clock64 over globaltimer during those reads");

  // As many passes as CTAs, so that every CTA reads the same number of chunks.
  const uint32_t cached_chunks = cached / kChunkBytes, passes = sms * 2;
  for (int r = -1; r < repetitions; ++r) {
    const double seconds = event_seconds([&] {
      read_loop<<<sms * 2, 1024>>>(data, cached_chunks - 1, cached_chunks * passes, paces.data,
                                   sink.data);
    });
    if (r < 0) continue;
    l2.push_back(double(cached) * passes / seconds);
    double slowest = 0;
    for (const Pace& p : paces.host()) slowest = std::max(slowest, double(p.cycles));
    l2_per_cycle.push_back(double(cached) * passes / sms / slowest);
  }
  report("l2_read_bytes_per_second", "bytes_per_second", l2,
         "16-byte loads of a 16 MiB set, 2 x 1024 threads per SM, events",
         text("\"bytes\": %zu", cached));
  report("l2_read_all_sms_bytes_per_cycle", "bytes_per_cycle", l2_per_cycle,
         "the same per SM, over the slowest CTA's cycles", text("\"bytes\": %zu", cached));

  DeviceArray<Pace> single(1);
  for (int r = -1; r < repetitions; ++r) {
    read_loop<<<1, 1024>>>(data, cached_chunks - 1, cached_chunks, single.data, sink.data);
    CHECK_KERNEL();
    if (r >= 0) one_sm.push_back(double(cached) / double(single.host()[0].cycles));
  }
  report("l2_read_one_sm_bytes_per_cycle", "bytes_per_cycle", one_sm,
         "16-byte loads of a 16 MiB set by one CTA of 1024 threads",
         text("\"bytes\": %zu", cached));
}

// ---- latency -----------------------------------------------------------------------------------

// Every element names the next one: a random cycle through the array, one line of 128 bytes each.
// `at` carries the place between launches, so that a longer walk meets no line of a shorter one.
__global__ void chase(const uint32_t* next, int hops, Window* windows, uint32_t* place) {
  uint32_t at = *place;
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < hops; ++i) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + size_t(at) * 32) : "memory");
  }
  *place = at;
  windows[0] = {start, cycles()};
}

__global__ void atomic_chase(uint32_t* counter, int hops, Window* windows, uint32_t* sink) {
  uint32_t value = 0;
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < hops; ++i) {
    asm volatile("atom.global.add.u32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(counter + (value >> 31)), "r"(1)
                 : "memory");
  }
  sink[0] = value;
  windows[0] = {start, cycles()};
}

void measure_latency(const Options& options) {
  DeviceArray<Window> windows(1);
  DeviceArray<uint32_t> sink(1), place(1);
  auto chase_latency = [&](size_t bytes, int few, int many, bool warm) {
    const uint32_t lines = uint32_t(bytes / 128);
    std::vector<uint32_t> order(lines);
    for (uint32_t i = 0; i < lines; ++i) order[i] = i;
    uint64_t state = 88172645463325252ull;
    for (uint32_t i = lines - 1; i > 0; --i) {  // Sattolo: one cycle through all lines
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      std::swap(order[i], order[state % i]);
    }
    std::vector<uint32_t> image(bytes / 4, 0);
    for (uint32_t i = 0; i < lines; ++i) image[size_t(i) * 32] = order[i];
    DeviceArray<uint32_t> next(bytes / 4);
    CHECK(cudaMemcpy(next.data, image.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(place.data, 0, sizeof(uint32_t)));
    auto launch = [&](int hops) {
      windows.poison();
      chase<<<1, 1>>>(next.data, hops, windows.data, place.data);
      CHECK_KERNEL();
      return elapsed_cycles(windows.host());
    };
    if (warm) launch(int(lines));
    return slope(launch, few, many, options.count(5, 1));
  };
  report("ld_global_l2_latency_cycles", "cycles",
         chase_latency(size_t(8) << 20, 1000, options.count(20000, 2000), true),
         "pointer chase through 8 MiB, ld.global.cg, slope");
  report("ld_global_hbm_latency_cycles", "cycles",
         chase_latency(size_t(options.count(1024, 256)) << 20, 1000, options.count(20000, 2000),
                       false),
         "pointer chase through 1 GiB, ld.global.cg, slope; translation misses included");
  DeviceArray<uint32_t> counter(1);
  auto launch = [&](int hops) {
    windows.poison();
    CHECK(cudaMemset(counter.data, 0, 4));
    atomic_chase<<<1, 1>>>(counter.data, hops, windows.data, sink.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  report("atomic_add_global_latency_cycles", "cycles",
         slope(launch, 100, options.count(2000, 200), options.count(7, 2)),
         "dependent atomicAdd on one global word, as a tile scheduler does, slope");
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  measure_latency(options);
  measure_bandwidth(options);
  measure_clock(options);  // last: heats the chip
}
