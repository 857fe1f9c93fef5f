// wgmma m64n128k16, bf16 operands from shared memory, fp32 accumulators in registers.
//
// Operand tiles are K-major with 128-byte swizzle: a row is 64 bf16 = 128 bytes, and the 16-byte
// chunk c of row r sits at chunk c ^ (r % 8). One tile holds four k-steps of 16.
#pragma once

#include <cuda_bf16.h>

#include "common.cuh"
#include "ptx.cuh"

constexpr int kWgmmaM = 64, kWgmmaN = 128, kWgmmaK = 16, kTileK = 64;
constexpr int kFlopPerWgmma = 2 * kWgmmaM * kWgmmaN * kWgmmaK;
constexpr int kATileBytes = kWgmmaM * kTileK * 2, kBTileBytes = kWgmmaN * kTileK * 2;

// Matrix descriptor: start address, 1024 bytes between groups of 8 rows, 128-byte swizzle.
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t address) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

__device__ __forceinline__ uint32_t swizzled_offset(int row, int k) {
  return row * 128 + (((k / 8) ^ (row % 8)) * 16) + k % 8 * 2;
}

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from reading accumulators ahead of the wait: call it right after.
__device__ __forceinline__ void wgmma_results_ready(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d += A tile (64 x 16) * B tile (128 x 16) transposed; k-step `k` of the two tiles.
__device__ __forceinline__ void wgmma_step(float (&d)[64], uint64_t a_tile, uint64_t b_tile,
                                           int k) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a_tile + 2 * k), "l"(b_tile + 2 * k)
      : "memory");
}

// Fills the operand tiles of a CTA with reproducible values in [-1, 1) by hashing (row, k).
__host__ __device__ inline float operand_value(uint32_t which, uint32_t row, uint32_t k) {
  uint32_t h = (which * 131u + row) * 2654435761u ^ k * 40503u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return float(int(h & 255) - 128) / 128.0f;  // exact in bf16
}
__device__ __forceinline__ void fill_tile(uint8_t* tile, uint32_t which, int rows) {
  for (int i = threadIdx.x; i < rows * kTileK; i += blockDim.x) {
    const int row = i / kTileK, k = i % kTileK;
    *reinterpret_cast<__nv_bfloat16*>(tile + swizzled_offset(row, k)) =
        __float2bfloat16(operand_value(which, row, k));
  }
}
