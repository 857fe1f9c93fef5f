// Throughput and latency of the instructions a softmax step is made of, per SM sub-partition.
//
// A warp runs `Chains` independent dependency chains; one chain gives the latency, eight the
// throughput. Figures are cycles per warp instruction (32 threads) on one sub-partition, so an
// instruction at 16 threads per cycle and SM, as MUFU.EX2 is, reads 8.
#include "common.cuh"
#include "exp2.cuh"
#include "ptx.cuh"

// Run-time operands, so that nothing is known at compile time.
struct Operands {
  float a, b;
  uint32_t i, j;
};

// ---- single instructions -----------------------------------------------------------------------
//
// `x` is the chain's value; every `step` is one instruction that reads and writes it.

#define FLOAT_OP(Name, statement)                                              \
  struct Name {                                                                \
    float x;                                                                   \
    __device__ void start(int seed) { x = 0.001f * float(seed % 97) + 0.25f; } \
    __device__ void step(const Operands& k, int u) { statement; }              \
    __device__ float value() const { return x; }                               \
  };
#define INTEGER_OP(Name, statement)                                 \
  struct Name {                                                     \
    uint32_t x;                                                     \
    __device__ void start(int seed) { x = seed * 2654435761u + 1; } \
    __device__ void step(const Operands& k, int u) { statement; }   \
    __device__ float value() const { return __uint_as_float(x); }   \
  };

FLOAT_OP(MufuEx2, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)))
FLOAT_OP(Ffma, asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(k.a), "f"(k.b)))
FLOAT_OP(Fadd, asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(k.b)))
FLOAT_OP(Fmul, asm volatile("mul.f32 %0, %0, %1;" : "+f"(x) : "f"(k.a)))
FLOAT_OP(Fmnmx, asm volatile("max.f32 %0, %0, %1;" : "+f"(x) : "f"(u % 2 ? k.a : k.b)))
FLOAT_OP(F2fp, {
  uint32_t packed;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(x), "f"(k.a));
  x = __uint_as_float(packed);
})
INTEGER_OP(Iadd3, asm volatile("{\n.reg .u32 t;\nadd.u32 t, %0, %1;\nadd.u32 %0, t, %2;\n}" : "+r"(
                                   x) : "r"(k.i),
                               "r"(k.j)))
INTEGER_OP(Lop3, asm volatile("lop3.b32 %0, %0, %1, %2, 0xe8;" : "+r"(x) : "r"(k.i),
                              "r"(u % 2 ? k.i : k.j)))
INTEGER_OP(Shf, asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(x) : "r"(k.i), "r"(k.j)))
INTEGER_OP(Shfl, asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(x)))
INTEGER_OP(VoteBallot,
           asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, %1;\n"
                        "vote.sync.ballot.b32 %0, p, 0xffffffff;\n}" : "+r"(x) : "r"(k.i)))
INTEGER_OP(VoteAny,
           asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %0, %1;\n"
                        "vote.sync.any.pred q, p, 0xffffffff;\nselp.u32 %0, %2, %0, q;\n}" : "+r"(
                            x) : "r"(k.i),
                        "r"(k.j)))

FLOAT_OP(PolynomialExp2, x = exp2_polynomial(x))

// ---- mixtures: what shares a pipe and what overlaps --------------------------------------------

// One MUFU.EX2 and K FFMA on other registers.
template <int K>
struct MufuFfma {
  float m, f[4];
  __device__ void start(int seed) {
    m = 0.001f * float(seed % 97);
    for (int i = 0; i < 4; ++i) f[i] = m + float(i);
  }
  __device__ void step(const Operands& k, int) {
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(m));
#pragma unroll
    for (int i = 0; i < K; ++i) {
      asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(f[i % 4]) : "f"(k.a), "f"(k.b));
    }
  }
  __device__ float value() const { return m + f[0] + f[1] + f[2] + f[3]; }
};

// One MUFU.EX2 and K shifts (ALU pipe).
template <int K>
struct MufuShf {
  float m;
  uint32_t s[4];
  __device__ void start(int seed) {
    m = 0.001f * float(seed % 97);
    for (int i = 0; i < 4; ++i) s[i] = seed * (i + 1);
  }
  __device__ void step(const Operands& k, int) {
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(m));
#pragma unroll
    for (int i = 0; i < K; ++i) {
      asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(s[i % 4]) : "r"(k.i), "r"(k.j));
    }
  }
  __device__ float value() const { return m + __uint_as_float(s[0] ^ s[1] ^ s[2] ^ s[3]); }
};

// One each of two instructions.
template <class A, class B>
struct Pair {
  A a;
  B b;
  __device__ void start(int seed) { a.start(seed), b.start(seed + 1); }
  __device__ void step(const Operands& k, int u) { a.step(k, u), b.step(k, u); }
  __device__ float value() const { return a.value() + b.value(); }
};

// M exponentials on MUFU and one by polynomial.
template <int M>
struct MufuPolynomial {
  float m[M], p;
  __device__ void start(int seed) {
    p = 0.001f * float(seed % 97);
    for (int i = 0; i < M; ++i) m[i] = p;
  }
  __device__ void step(const Operands&, int) {
#pragma unroll
    for (int i = 0; i < M; ++i) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(m[i]));
    p = exp2_polynomial(p);
  }
  __device__ float value() const {
    float sum = p;
    for (int i = 0; i < M; ++i) sum += m[i];
    return sum;
  }
};

// A causal mask on 32 scores of a row: where the bit of a 32-bit mask is clear, the score becomes
// minus infinity. Here it becomes the mask, new in every step, lest masks of several steps be
// merged.
struct ApplyMask {
  float x[32];
  uint32_t mask;
  __device__ void start(int seed) {
    mask = seed * 2654435761u;
    for (int i = 0; i < 32; ++i) x[i] = float(seed + i);
  }
  __device__ void step(const Operands& k, int) {
    mask = mask * k.i + k.j;
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i] = mask & 1u << i ? x[i] : __uint_as_float(mask);
  }
  __device__ float value() const {
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += x[i];
    return sum;
  }
};

template <class Op, int Chains, int Steps>
__global__ void __launch_bounds__(512)
    chains(int iterations, Operands k, Window* windows, float* sink) {
  Op chain[Chains];
#pragma unroll
  for (int c = 0; c < Chains; ++c) chain[c].start(threadIdx.x * 31 + c);
  __syncthreads();
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int u = 0; u < Steps / Chains; ++u) {
#pragma unroll
      for (int c = 0; c < Chains; ++c) chain[c].step(k, u);
    }
  }
  const long long end = cycles();
  record(windows, start, end);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < Chains; ++c) sum += chain[c].value();
  sink[threadIdx.x] = sum;
}

// Cycles per step and warp on one sub-partition, `warps` warps on each of the four.
template <class Op, int Chains, int Steps>
Samples per_step(int warps, const Options& options) {
  const int threads = warps * 128;
  DeviceArray<Window> windows(threads / 32);
  DeviceArray<float> sink(threads);
  const Operands k{0.999f, 0.0001f, 0x5bd1e995u, 7u};
  auto launch = [&](int iterations) {
    windows.poison();
    chains<Op, Chains, Steps><<<1, threads>>>(iterations, k, windows.data, sink.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  return scaled(slope(launch, 16, options.count(256, 32), options.count(7, 2)),
                1.0 / (Steps * warps));
}

// Throughput with four warps and with one warp per sub-partition.
template <class Op, int Steps = 256>
void throughput(const char* name, const Options& options) {
  const char* method = "8 independent chains per warp, all 4 sub-partitions, slope";
  report(text("%s_cycles_per_warp", name), "cycles_per_warp", per_step<Op, 8, Steps>(4, options),
         method, "\"warps_per_smsp\": 4");
  report(text("%s_single_warp_cycles_per_warp", name), "cycles_per_warp",
         per_step<Op, 8, Steps>(1, options), method, "\"warps_per_smsp\": 1");
}

template <class Op>
void latency(const char* name, const Options& options) {
  report(text("%s_latency_cycles", name), "cycles", per_step<Op, 1, 128>(1, options),
         "one dependent chain per warp, slope", "\"warps_per_smsp\": 1");
}

template <class Op>
void throughput_and_latency(const char* name, const Options& options) {
  throughput<Op>(name, options);
  latency<Op>(name, options);
}

// ---- shared memory -----------------------------------------------------------------------------

// Accesses per loop iteration: enough to hide the wait for the last of them.
template <int Bytes>
constexpr int kAccesses = Bytes == 4 ? 64 : 16;

// Conflict-free accesses of `Bytes` per lane; every warp uses its own 4 KiB. Volatile, so that the
// compiler neither merges nor narrows them.
template <int Bytes, bool Store>
__global__ void shared_traffic(int iterations, Window* windows, uint32_t* sink) {
  extern __shared__ uint4 memory[];
  uint32_t address = shared_address(memory) + threadIdx.x / 32 * 4096 + threadIdx.x % 32 * Bytes;
  for (int i = threadIdx.x; i < int(blockDim.x) / 32 * 256; i += blockDim.x) {
    memory[i] = make_uint4(i, i, i, i);
  }
  uint32_t sum = threadIdx.x;
  __syncthreads();
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    uint32_t r[kAccesses<Bytes>][4];
#pragma unroll
    for (int u = 0; u < kAccesses<Bytes>; ++u) {
      const uint32_t a = address + u * 32 * Bytes % 4096;
      if (Store && Bytes == 4) {
        asm volatile("st.volatile.shared.b32 [%0], %1;" ::"r"(a), "r"(sum) : "memory");
      } else if (Store) {
        asm volatile("st.volatile.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(a), "r"(sum)
                     : "memory");
      } else if (Bytes == 4) {
        asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(r[u][0]) : "r"(a) : "memory");
      } else {
        asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[u][0]), "=r"(r[u][1]), "=r"(r[u][2]), "=r"(r[u][3])
                     : "r"(a)
                     : "memory");
      }
    }
    if (!Store) {
#pragma unroll
      for (int u = 0; u < kAccesses<Bytes>; ++u) sum ^= r[u][Bytes / 4 - 1];
    }
  }
  record(windows, start, cycles());
  sink[threadIdx.x] = sum;
}

__global__ void shared_chase(int iterations, Window* windows, uint32_t* sink) {
  __shared__ uint32_t next[32];
  next[threadIdx.x] = shared_address(&next[(threadIdx.x + 1) % 32]);
  __syncthreads();
  uint32_t at = next[threadIdx.x];
  const long long start = cycles();
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int u = 0; u < 32; ++u) {
      asm volatile("ld.shared.b32 %0, [%0];" : "+r"(at)::"memory");
    }
  }
  record(windows, start, cycles());
  sink[threadIdx.x] = at;
}

template <int Bytes, bool Store>
void shared_rate(const char* name, int warps, const Options& options) {
  DeviceArray<Window> windows(warps);
  DeviceArray<uint32_t> sink(warps * 32);
  auto kernel = shared_traffic<Bytes, Store>;
  allow_shared_memory(kernel, warps * 4096);
  auto launch = [&](int iterations) {
    windows.poison();
    kernel<<<1, warps * 32, warps * 4096>>>(iterations, windows.data, sink.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  Samples per_iteration = slope(launch, 16, options.count(512, 32), options.count(7, 2));
  for (double& x : per_iteration) x = double(kAccesses<Bytes>) * 32 * Bytes * warps / x;
  report(name, "bytes_per_cycle", per_iteration, "conflict-free accesses of one SM, slope",
         text("\"warps\": %d, \"bytes_per_lane\": %d", warps, Bytes));
}

void measure_shared_memory(const Options& options) {
  shared_rate<4, false>("lds32_16_warps_bytes_per_cycle", 16, options);
  shared_rate<16, false>("lds128_16_warps_bytes_per_cycle", 16, options);
  shared_rate<4, true>("sts32_16_warps_bytes_per_cycle", 16, options);
  shared_rate<16, true>("sts128_16_warps_bytes_per_cycle", 16, options);
  shared_rate<4, false>("lds32_4_warps_bytes_per_cycle", 4, options);
  shared_rate<16, false>("lds128_4_warps_bytes_per_cycle", 4, options);
  shared_rate<4, true>("sts32_4_warps_bytes_per_cycle", 4, options);
  shared_rate<16, true>("sts128_4_warps_bytes_per_cycle", 4, options);

  DeviceArray<Window> windows(1);
  DeviceArray<uint32_t> sink(32);
  auto launch = [&](int iterations) {
    windows.poison();
    shared_chase<<<1, 32>>>(iterations, windows.data, sink.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  report("lds32_latency_cycles", "cycles",
         scaled(slope(launch, 8, options.count(256, 16), options.count(7, 2)), 1.0 / 32),
         "pointer chase, one warp, slope");
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  throughput_and_latency<MufuEx2>("mufu_ex2", options);
  throughput_and_latency<Ffma>("ffma", options);
  throughput_and_latency<Fadd>("fadd", options);
  throughput_and_latency<Fmul>("fmul", options);
  throughput_and_latency<Fmnmx>("fmnmx", options);
  throughput_and_latency<F2fp>("f2fp", options);
  throughput_and_latency<Iadd3>("iadd3", options);
  throughput_and_latency<Lop3>("lop3", options);
  throughput_and_latency<Shf>("shf", options);
  throughput_and_latency<Shfl>("shfl", options);
  latency<VoteBallot>("vote_ballot", options);
  latency<VoteAny>("vote_any", options);
  throughput<PolynomialExp2, 64>("poly_exp2_deg3", options);
  latency<PolynomialExp2>("poly_exp2_deg3", options);

  throughput<MufuFfma<1>, 64>("mix_mufu_1_ffma", options);
  throughput<MufuFfma<2>, 64>("mix_mufu_2_ffma", options);
  throughput<MufuFfma<4>, 64>("mix_mufu_4_ffma", options);
  throughput<MufuFfma<6>, 64>("mix_mufu_6_ffma", options);
  throughput<MufuFfma<8>, 64>("mix_mufu_8_ffma", options);
  throughput<MufuShf<2>, 64>("mix_mufu_2_shf", options);
  throughput<MufuShf<3>, 64>("mix_mufu_3_shf", options);
  throughput<MufuShf<4>, 64>("mix_mufu_4_shf", options);
  throughput<Pair<F2fp, Fmnmx>, 64>("mix_f2fp_fmnmx", options);
  throughput<Pair<Fmnmx, Ffma>, 64>("mix_fmnmx_ffma", options);
  throughput<Pair<F2fp, Ffma>, 64>("mix_f2fp_ffma", options);
  throughput<Pair<MufuEx2, F2fp>, 64>("mix_mufu_f2fp", options);
  throughput<Pair<MufuEx2, Shfl>, 64>("mix_mufu_shfl", options);
  throughput<MufuPolynomial<1>, 32>("mix_1_mufu_1_poly", options);
  throughput<MufuPolynomial<2>, 16>("mix_2_mufu_1_poly", options);
  throughput<MufuPolynomial<3>, 16>("mix_3_mufu_1_poly", options);
  throughput<MufuPolynomial<7>, 8>("mix_7_mufu_1_poly", options);

  const char* mask_method =
      "32 scores per step: new mask, R2P and FSEL; cycles per score and warp, slope";
  report("mask_apply_cycles_per_element", "cycles_per_element",
         scaled(per_step<ApplyMask, 1, 16>(4, options), 1.0 / 32), mask_method,
         "\"warps_per_smsp\": 4");
  report("mask_apply_single_warp_cycles_per_element", "cycles_per_element",
         scaled(per_step<ApplyMask, 1, 16>(1, options), 1.0 / 32), mask_method,
         "\"warps_per_smsp\": 1");

  measure_shared_memory(options);
}
