// Tensors in global memory, their tensor maps, and a check of what a box holds.
//
// The tiles are those of an attention kernel at head dimension 128: a bf16 tensor with rows of 256
// bytes, boxes of 64 columns (128 bytes) by R rows, 128-byte swizzle. A 128 x 128 tile is two boxes
// of 16 KiB.
#pragma once

#include "common.cuh"
#include "ptx.cuh"

constexpr int kColumns = 128, kRowBytes = kColumns * 2, kBoxColumns = 64, kBoxRowBytes = 128;
constexpr int kStageRows = 128, kStageBytes = kStageRows * kBoxRowBytes;  // half a tile
constexpr size_t kCachedBytes = size_t(16) << 20;   // fits the L2 with room to spare
constexpr size_t kUncachedBytes = size_t(4) << 30;  // 70 times the L2

// Every 4-byte word holds a hash of its index, so that a checksum tells whether a box is right.
__host__ __device__ inline uint32_t word_at(uint64_t index) {
  uint32_t h = uint32_t(index) * 2654435761u ^ uint32_t(index >> 32);
  return h ^ h >> 15;
}
__global__ void fill(uint32_t* words, uint64_t count) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < count;
       i += uint64_t(gridDim.x) * blockDim.x) {
    words[i] = word_at(i);
  }
}
__global__ void read_all(const uint4* data, uint64_t count, uint32_t* sink) {
  uint32_t sum = 0;
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < count;
       i += uint64_t(gridDim.x) * blockDim.x) {
    uint4 v = __ldcg(data + i);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678) sink[0] = sum;
}

// Boxes of 64 columns of a bf16 tensor whose rows lie one after the other.
inline CUtensorMap tensor_map(void* data, uint64_t columns, uint64_t rows, uint32_t box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found));
    REQUIRE(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
    return Encode(function);
  }();
  CUtensorMap result;
  const cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * 2};
  const cuuint32_t box[] = {kBoxColumns, box_rows}, steps[] = {1, 1};
  CUresult status =
      encode(&result, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  REQUIRE(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled returned %d", int(status));
  return result;
}

struct Tensor {
  DeviceArray<uint32_t> words;
  uint32_t rows;

  explicit Tensor(size_t bytes) : words(bytes / 4), rows(uint32_t(bytes / kRowBytes)) {
    fill<<<1024, 256>>>(words.data, words.count);
    CHECK_KERNEL();
  }
  void warm_l2() const {
    DeviceArray<uint32_t> sink(1);
    read_all<<<528, 256>>>(reinterpret_cast<const uint4*>(words.data), words.count / 4, sink.data);
    CHECK_KERNEL();
  }
  CUtensorMap map(uint32_t box_rows) const {
    return tensor_map(words.data, kColumns, rows, box_rows);
  }
  // Exclusive-or of the words of one box; the swizzle does not change it.
  uint32_t checksum(int column, uint32_t row, uint32_t box_rows) const {
    uint32_t sum = 0;
    for (uint32_t r = row; r < row + box_rows; ++r) {
      for (int w = 0; w < kBoxRowBytes / 4; ++w) {
        sum ^= word_at(uint64_t(r) * (kRowBytes / 4) + column / 2 + w);
      }
    }
    return sum;
  }
};

__device__ __forceinline__ uint32_t hash(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}
