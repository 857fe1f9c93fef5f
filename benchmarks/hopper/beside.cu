// What the tensor cores leave to others: a warpgroup runs wgmma without pause, others compute.
//
// Accumulators lie in the register file, so wgmma and ordinary instructions share its ports. Each
// companion is a piece of a softmax step as it is compiled; its time is measured alone and beside
// wgmma, with one and with two warps on each sub-partition, and so is what is left of wgmma's rate.
//
// And the order of the tensor cores: warpgroups that issue at the same moment, and when each is
// done.
#include "wgmma.cuh"

struct Tiles {
  uint8_t a[kATileBytes], b[kBTileBytes];
  volatile int done;
};
extern __shared__ __align__(1024) uint8_t memory[];

__device__ __forceinline__ Tiles& shared_tiles() { return *reinterpret_cast<Tiles*>(memory); }
constexpr int kTilesMemory = sizeof(Tiles);

__device__ __forceinline__ void prepare(Tiles& tiles) {
  fill_tile(tiles.a, 0, kWgmmaM);
  fill_tile(tiles.b, 1, kWgmmaN);
  if (threadIdx.x == 0) tiles.done = 0;
  fence_proxy_async();
  __syncthreads();
}

// ---- companions --------------------------------------------------------------------------------

enum Kind { kMaximum, kScale, kMultiply, kAdd, kExponential, kConvert, kMixed, kWoven };
constexpr const char* kNames[] = {"fmnmx", "ffma", "fmul", "fadd", "mufu", "f2fp", "mixed", "woven"};
constexpr const char* kWords[] = {
    "64 FMNMX in 4 chains",
    "64 FFMA in place",
    "64 FMUL in place",
    "64 FADD in 2 chains",
    "64 MUFU.EX2 in place",
    "32 F2FP.BF16.PACK_AB",
    "64 MUFU.EX2, 64 FADD, 64 FMUL and 32 F2FP, 8 scores at a time",
    "the same, woven: of each score's MUFU.EX2, an FADD and half an F2FP of earlier ones, an FMUL",
};
constexpr int kInstructions[] = {64, 64, 64, 64, 64, 32, 224, 224};
constexpr int kScores = 64;

struct Rows {
  float x[kScores], o[32], chain[4];
};

__device__ __forceinline__ void maximum(float& m, float x) {
  asm volatile("max.f32 %0, %0, %1;" : "+f"(m) : "f"(x));
}
__device__ __forceinline__ void scale(float& x, float by, float less) {
  asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(by), "f"(less));
}
__device__ __forceinline__ void multiply(float& x, float by) {
  asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(by));
}
__device__ __forceinline__ void add(float& total, float x) {
  asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(total) : "f"(x));
}
__device__ __forceinline__ void exponential(float& x) {
  asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
}
// In place, so that nobody finds it superfluous.
__device__ __forceinline__ void convert(float low, float& high) {
  asm volatile(
      "{\n.reg .b32 pair;\ncvt.rn.bf16x2.f32 pair, %0, %1;\nmov.b32 %0, pair;\n}"
      : "+f"(high)
      : "f"(low));
}
template <int K>
__device__ __forceinline__ void companion(Rows& r, float by, float less) {
  if (K == kWoven) {
#pragma unroll
    for (int j = 0; j < kScores; ++j) {
      exponential(r.x[j]);
      const int before = (j + kScores - 4) % kScores;
      add(r.chain[j % 2], r.x[before]);
      multiply(r.o[j % 32], by);
      if (before % 2) convert(r.x[before - 1], r.x[before]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kScores; i += 8) {
#pragma unroll
    for (int j = i; j < i + 8; ++j) {
      if (K == kMaximum) maximum(r.chain[j % 4], r.x[j]);
      if (K == kScale) scale(r.x[j], by, less);
      if (K == kMultiply) multiply(r.x[j], by);
      if (K == kAdd) add(r.chain[j % 2], r.x[j]);
      if (K == kExponential || K == kMixed) exponential(r.x[j]);
      
    }
#pragma unroll
    for (int j = i; j < i + 8; ++j) {
      if (K == kMixed) add(r.chain[j % 2], r.x[j]), multiply(r.o[j % 32], by);
      if ((K == kMixed || K == kConvert) && j % 2) convert(r.x[j - 1], r.x[j]);
    }
  }
}

// Whether a thread of warpgroup 0 gives true; the same for all, as wgmma needs it.
__device__ __forceinline__ bool seen_by_any(int value) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.s32 q, %1, 0;\nbarrier.cta.red.or.pred p, 2, 128, q;\n"
      "selp.s32 %0, 1, 0, p;\n}"
      : "=r"(any)
      : "r"(value)
      : "memory");
  return any;
}

struct Products {
  long long start, end, steps;
};

// Warpgroup 0 runs wgmma until the others have done their iterations, or nothing at all.
template <int K>
__global__ void __launch_bounds__(384)
    beside(int iterations, bool busy, Window* windows, Products* products, float* sink) {
  Tiles& tiles = shared_tiles();
  prepare(tiles);
  float sum = 0;
  if (threadIdx.x < 128) {
    const uint64_t a = wgmma_descriptor(shared_address(tiles.a));
    const uint64_t b = wgmma_descriptor(shared_address(tiles.b));
    float d[64] = {};
    long long steps = 0;
    const long long start = cycles();
    while (busy && !seen_by_any(tiles.done)) {
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 8; ++k) wgmma_step(d, a, b, k % 4);
      wgmma_commit();
      wgmma_wait<1>();
      steps += 8;
    }
    wgmma_wait<0>();
    wgmma_results_ready(d);
    if (threadIdx.x == 0) *products = {start, cycles(), steps};
#pragma unroll
    for (int i = 0; i < 64; ++i) sum += d[i];
  } else {
    Rows r;
#pragma unroll
    for (int i = 0; i < kScores; ++i) r.x[i] = -float((threadIdx.x + i) % 7) / 8;
#pragma unroll
    for (int i = 0; i < 32; ++i) r.o[i] = float(i + 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.chain[i] = 0;
    const float by = 1.0f - 1.0f / float(1 << 20) * float(iterations & 1), less = -0.25f;
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x - 128) : "memory");
    for (int i = 0; i < 4; ++i) companion<K>(r, by, less);  // wgmma is under way by then
    const long long start = cycles();
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) companion<K>(r, by, less);
    record(windows, start, cycles());
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x - 128) : "memory");
    tiles.done = 1;
#pragma unroll
    for (int i = 0; i < kScores; ++i) sum += r.x[i];
#pragma unroll
    for (int i = 0; i < 32; ++i) sum += r.o[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += r.chain[i];
  }
  sink[threadIdx.x] = sum;
}

template <int K>
void measure_companion(const Options& options) {
  allow_shared_memory(beside<K>, kTilesMemory);
  for (int groups : {1, 2}) {
    for (bool busy : {false, true}) {
      DeviceArray<Window> windows((1 + groups) * 4);
      DeviceArray<Products> products(1);
      DeviceArray<float> sink((1 + groups) * 128);
      Samples rate;
      auto launch = [&](int iterations) {
        windows.poison();
        beside<K><<<1, (1 + groups) * 128, kTilesMemory>>>(iterations, busy, windows.data,
                                                           products.data, sink.data);
        CHECK_KERNEL();
        const std::vector<Window> all = windows.host();
        const Products p = products.host()[0];
        if (busy && iterations > 64) {
          rate.push_back(double(p.steps) * kFlopPerWgmma / double(p.end - p.start));
        }
        return elapsed_cycles({all.begin() + 4, all.end()});
      };
      Samples per_step = slope(launch, 32, options.count(512, 128), options.count(7, 2));
      const char* where = busy ? "beside_wgmma" : "alone";
      report(text("%s_%d_warps_%s_cycles_per_warp", kNames[K], groups, where), "cycles_per_warp",
             scaled(per_step, 1.0 / (kInstructions[K] * groups)),
             text("%s, %d warp%s on each sub-partition, %s: for each instruction, slope", kWords[K],
                  groups, groups > 1 ? "s" : "",
                  busy ? "m64n128k16 without pause beside" : "tensor cores idle").c_str(),
             text("\"warps\": %d, \"busy\": %s", groups, busy ? "true" : "false"));
      if (busy) {
        report(text("wgmma_n128_beside_%s_%d_warps_flop_per_cycle", kNames[K], groups),
               "flop_per_cycle", rate, "what is left of wgmma's rate meanwhile",
               text("\"warps\": %d", groups));
      }
    }
  }
}

// ---- the order of the tensor cores -------------------------------------------------------------

// All warpgroups issue 8 k-steps behind one barrier, then wait.
__global__ void __launch_bounds__(384) together(int rounds, uint32_t* out, float* sink) {
  Tiles& tiles = shared_tiles();
  prepare(tiles);
  const uint64_t a = wgmma_descriptor(shared_address(tiles.a));
  const uint64_t b = wgmma_descriptor(shared_address(tiles.b));
  const int group = threadIdx.x / 128, groups = blockDim.x / 128;
  float d[64] = {};
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    const uint32_t start = cycles32();
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 8; ++k) wgmma_step(d, a, b, k % 4);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results_ready(d);
    const uint32_t took = cycles32() - start;
    if (threadIdx.x % 128 == 0) out[round * groups + group] = took;
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
  sink[threadIdx.x] = sum;
}

void measure_order(const Options& options) {
  allow_shared_memory(together, kTilesMemory);
  for (int groups : {2, 3}) {
    const int rounds = options.count(1000, 64);
    DeviceArray<uint32_t> out(size_t(rounds) * groups);
    DeviceArray<float> sink(groups * 128);
    together<<<1, groups * 128, kTilesMemory>>>(rounds, out.data, sink.data);
    CHECK_KERNEL();
    const std::vector<uint32_t> all = out.written();
    std::vector<Samples> by_rank(groups);
    for (int round = 8; round < rounds; ++round) {
      std::vector<uint32_t> took(all.begin() + round * groups, all.begin() + (round + 1) * groups);
      std::sort(took.begin(), took.end());
      for (int i = 0; i < groups; ++i) by_rank[i].push_back(took[i]);
    }
    for (int i = 0; i < groups; ++i) {
      report(text("wgmma_n128_%d_warpgroups_together_%d_done_cycles", groups, i + 1), "cycles",
             by_rank[i],
             text("stamps: %d warpgroups issue 8 k-steps each at the same moment, from before the "
                  "first wgmma until number %d of them has waited",
                  groups, i + 1).c_str(),
             text("\"warpgroups\": %d, \"rank\": %d", groups, i + 1));
    }
  }
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  measure_companion<kMaximum>(options);
  measure_companion<kScale>(options);
  measure_companion<kMultiply>(options);
  measure_companion<kAdd>(options);
  measure_companion<kExponential>(options);
  measure_companion<kConvert>(options);
  measure_companion<kMixed>(options);
  measure_companion<kWoven>(options);
  measure_order(options);
}
