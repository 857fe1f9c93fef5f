// 2^x on the special function unit, and by FlashAttention-4's polynomial on the FMA and ALU pipes.
#pragma once

#include <cstdint>

__device__ __forceinline__ float exp2_mufu(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Adding 1.5 * 2^23 with rounding down leaves the whole part in the low bits; 2^fraction is a
// cubic; the whole part is then added to the exponent bits. Eight instructions: FMNMX, FADD.RM,
// 2 FADD, 3 FFMA, LEA.
__device__ __forceinline__ float exp2_polynomial(float x) {
  const float shifter = 12582912.0f;
  const float clamped = fmaxf(x, -127.0f);
  float shifted;
  asm("add.rm.f32 %0, %1, %2;" : "=f"(shifted) : "f"(clamped), "f"(shifter));
  const float fraction = __fsub_rn(clamped, __fsub_rn(shifted, shifter));
  float p = __fmaf_rn(0.0771190897f, fraction, 0.227564394f);
  p = __fmaf_rn(p, fraction, 0.695146143f);
  p = __fmaf_rn(p, fraction, 1.0f);
  return __uint_as_float((__float_as_uint(shifted) << 23) + __float_as_uint(p));
}
