// The softmax arithmetic of one block: a thread holds one row of 128 fp32 scores in registers.
//
// Per step and thread: 128 max, one exponential for the rescale factor, 128 FFMA (scale, subtract
// the maximum), 128 exponentials, 64 conversions of two values to bf16, 128 row-sum adds. A share
// of the exponentials can go to the polynomial, on the FMA and ALU pipes. The packed
// exponentials become the next step's scores, so nothing is loaded, stored or hoisted out of the
// loop.
#include "common.cuh"
#include "exp2.cuh"

constexpr int kColumns = 128;
constexpr int kParts = 4;  // partial maxima and sums, to break dependency chains

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// `Polynomials` of every 16 exponentials are computed by polynomial, evenly spread.
template <int Polynomials>
__device__ __forceinline__ bool by_polynomial(int column) {
  return (column % 16) * Polynomials / 16 != (column % 16 + 1) * Polynomials / 16;
}

template <int Polynomials, bool WithMax>
__global__ void __launch_bounds__(256, 1)
    softmax_steps(int steps, int stagger, float scale, Window* windows, uint32_t* probabilities,
                  float* sums) {
  float s[kColumns];
  for (int i = 0; i < kColumns; ++i) s[i] = float((threadIdx.x * 37 + i * 11) % 64) * -0.1f;
  float row_max = 0.0f, row_sum[kParts] = {0, 0, 0, 0};
  __syncthreads();
  if (threadIdx.x >= 128) {  // the second warp of each sub-partition starts later
    const long long now = cycles();
    while (cycles() - now < stagger) {
    }
  }
  const long long start = cycles();
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    float rescale = scale;
    if (WithMax) {
      float part[kParts] = {row_max, s[1], s[2], s[3]};
#pragma unroll
      for (int i = 0; i < kColumns; ++i) part[i % kParts] = fmaxf(part[i % kParts], s[i]);
      const float new_max = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
      rescale = exp2_mufu((row_max - new_max) * scale);
      row_max = new_max;
    }
    const float offset = -row_max * scale;
    row_sum[0] *= rescale;
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      float y[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float x = fmaf(s[i + j], scale, offset);
        y[j] = by_polynomial<Polynomials>(i + j) ? exp2_polynomial(x) : exp2_mufu(x);
        row_sum[(i + j) % kParts] += y[j];
      }
      // The next step's scores: the packed pair, read as a float, is its upper element.
      s[i] = __uint_as_float(pack_bf16(y[0], y[1]));
      s[i + 1] = y[1];
    }
  }
  record(windows, start, cycles());
  sums[threadIdx.x] = row_sum[0] + row_sum[1] + row_sum[2] + row_sum[3];
#pragma unroll
  for (int i = 0; i < kColumns; i += 2) {
    probabilities[(threadIdx.x * kColumns + i) / 2] = __float_as_uint(s[i]);
  }
}

// The exponentials agree with the host's, to bf16 accuracy, on one step without the maximum.
template <int Polynomials>
void verify() {
  DeviceArray<Window> windows(4);
  DeviceArray<uint32_t> probabilities(kColumns / 2 * 128);
  DeviceArray<float> sums(128);
  const float scale = 0.7f;
  softmax_steps<Polynomials, false>
      <<<1, 128>>>(1, 0, scale, windows.data, probabilities.data, sums.data);
  CHECK_KERNEL();
  const std::vector<uint32_t> p = probabilities.written();
  const std::vector<float> row_sums = sums.written();
  for (int t = 0; t < 128; ++t) {
    double expected_sum = 0;
    for (int i = 0; i < kColumns; ++i) {
      const double expected = exp2(double(float((t * 37 + i * 11) % 64) * -0.1f) * scale);
      const uint32_t word = p[t * kColumns / 2 + i / 2];
      const uint32_t bits = i % 2 ? word & 0xffff0000u : word << 16;
      float got;
      memcpy(&got, &bits, 4);
      REQUIRE(fabs(got / expected - 1) < 5e-3, "thread %d column %d: %g, expected %g", t, i, got,
              expected);
      expected_sum += expected;
    }
    REQUIRE(fabs(row_sums[t] / expected_sum - 1) < 1e-3, "row sum of thread %d: %g, expected %g", t,
            row_sums[t], expected_sum);
  }
}

template <int Polynomials, bool WithMax>
void measure(const std::string& share, const Options& options) {
  verify<Polynomials>();
  const std::string name = "softmax_step_" + share + (WithMax ? "" : "_without_max");
  auto measure_warps = [&](const char* suffix, int warps, int stagger, const char* method) {
    const int threads = warps * 128;
    DeviceArray<Window> windows(threads / 32);
    DeviceArray<uint32_t> probabilities(kColumns / 2 * threads);
    DeviceArray<float> sums(threads);
    auto launch = [&](int steps) {
      windows.poison();
      softmax_steps<Polynomials, WithMax>
          <<<1, threads>>>(steps, stagger, 0.5f, windows.data, probabilities.data, sums.data);
      CHECK_KERNEL();
      return elapsed_cycles(windows.host());
    };
    report(text("%s_%s_cycles", name.c_str(), suffix), "cycles",
           scaled(slope(launch, 16, options.count(256, 32), options.count(9, 2)), 1.0 / warps),
           method,
           text("\"warps_per_smsp\": %d, \"polynomial_share\": %g, \"with_max\": %s, "
                "\"stagger_cycles\": %d",
                warps, Polynomials / 16.0, WithMax ? "true" : "false", stagger));
  };
  measure_warps("1_warp", 1, 0,
                "row step of 128 fp32 per thread, one warp per sub-partition, slope");
  measure_warps("2_warps", 2, 0,
                "two warps per sub-partition, started together: elapsed cycles per step and warp");
  measure_warps(
      "2_warps_staggered", 2, 700,
      "two warps per sub-partition, the second 700 cycles later: elapsed per step and warp");
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  measure<0, true>("all_mufu", options);
  measure<2, true>("poly_12p5", options);
  measure<3, true>("poly_18p75", options);
  measure<4, true>("poly_25", options);
  measure<8, true>("poly_50", options);
  measure<0, false>("all_mufu", options);
  measure<2, false>("poly_12p5", options);
  measure<3, false>("poly_18p75", options);
  measure<4, false>("poly_25", options);
  measure<8, false>("poly_50", options);
}
