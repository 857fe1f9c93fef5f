// Rows of K and V through a page table, by cp.async: what a block of 128 keys costs the warps that
// load it when the compiler unrolls their loops and when it does not, and what HBM gives for rows
// that lie apart. Head dimension 128, bf16: a row is 256 bytes, a tile of K or V 32 KiB.
#include <numeric>
#include <random>

#include "tensor_map.cuh"

constexpr int kBlock = 128, kTileBytes = kBlock * kRowBytes, kRing = 3, kPiece = 16;
constexpr size_t kStoreBytes = size_t(4) << 30;  // of K, and of V

// K and V as (page, key of the page, head, column); the table has the pages of every sequence.
struct Cache {
  const uint8_t *k, *v;
  const int* table;
  int heads, pages, page_log;
  long long page_stride, row_stride;  // in bytes
};

__device__ __forceinline__ void copy_16(uint32_t to, const uint8_t* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}

// Eight threads copy 128 bytes of a row, twice. Where a tile goes is free when the copies of the
// tile three before it have landed. Page numbers are read in a loop of one turn for each row that a
// thread copies; with `looped`, rows and the halves of a row are loops too, as compiled code has
// them that was told not to unroll: then page numbers are in local memory, not in registers.
template <bool looped, int threads>
__global__ void __launch_bounds__(threads)
    load_blocks(const Cache cache, int blocks, int first_sequence, Window* windows,
                uint32_t* sums) {
  extern __shared__ __align__(1024) uint8_t memory[];
  constexpr int rows = kBlock * 8 / threads;
  int page[rows], offset[rows];
  const int head = blockIdx.x % cache.heads, thread = threadIdx.x, column = thread % 8 * kPiece;
  const int* table = cache.table + (first_sequence + blockIdx.x / cache.heads) * cache.pages;
  uint32_t slot = 0;
  const long long start = cycles();
#pragma unroll 1
  for (int block = blocks - 1; block >= 0; --block) {
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
      const int key = block * kBlock + (i * threads + thread) / 8;
      page[i] = table[key >> cache.page_log];
      offset[i] = key & ((1 << cache.page_log) - 1);
    }
#pragma unroll 1
    for (int tensor = 0; tensor < 2; ++tensor) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kRing - 1) : "memory");
      const uint8_t* base = (tensor ? cache.v : cache.k) + head * kRowBytes + column;
      const uint32_t tile = shared_address(memory) + slot * kTileBytes;
      auto copy_row = [&](int i) {
        const uint8_t* from = base + page[i] * cache.page_stride + offset[i] * cache.row_stride;
        const uint32_t to = (i * threads + thread) / 8 * 128 + column;
        constexpr int halves_at_once = looped ? 1 : 2;
#pragma unroll halves_at_once
        for (int half = 0; half < 2; ++half) {
          const uint32_t plain = to + half * kTileBytes / 2;
          copy_16(tile + (plain ^ (plain >> 3 & 0x70)), from + half * 128);
        }
      };
      if (looped) {
#pragma unroll 1
        for (int i = 0; i < rows; ++i) copy_row(i);
      } else {
#pragma unroll
        for (int i = 0; i < rows; ++i) copy_row(i);
      }
      asm volatile("cp.async.commit_group;" ::: "memory");
      slot = slot == kRing - 1 ? 0 : slot + 1;
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  record(windows, start, cycles());
  __syncthreads();
  // The last tile is V of block 0.
  const uint32_t* words = reinterpret_cast<const uint32_t*>(memory);
  words += (slot + kRing - 1) % kRing * (kTileBytes / 4);
  uint32_t sum = 0;
  for (int i = thread; i < kTileBytes / 4; i += threads) sum ^= words[i];
  atomicXor(&sums[blockIdx.x], sum);
}

// One warp copies 512 bytes a turn, and adds to the address that the copy before has used: a turn
// lasts until that copy has read its registers.
__global__ void copy_in_turns(const uint8_t* from, int turns, Window* windows) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t to = shared_address(memory) + threadIdx.x * kPiece;
  from += threadIdx.x * kPiece;
  const long long start = cycles();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    copy_16(to, from);
    from += 32 * kPiece;
  }
  const long long end = cycles();
  asm volatile("cp.async.wait_all;" ::: "memory");
  record(windows, start, end);
}

struct Shape {
  int sequences, heads, blocks;
  int keys() const { return blocks * kBlock; }
};

struct Store {
  DeviceArray<uint32_t> k{kStoreBytes / 4}, v{kStoreBytes / 4};
  Store() {
    fill<<<1024, 256>>>(k.data, k.count);
    fill<<<1024, 256>>>(v.data, v.count);
    CHECK_KERNEL();
  }
};

struct Outcome {
  Samples per_block;         // cycles of every CTA
  Samples bytes_per_second;  // of the whole chip, by events
};

template <bool looped, int threads>
Outcome measure(const Store& store, const Shape& shape, int page_log, bool in_order, int ctas,
                int repetitions) {
  const int pages = shape.keys() >> page_log;
  std::vector<int> table(size_t(shape.sequences) * pages);
  REQUIRE(table.size() << page_log <= kStoreBytes / kRowBytes / shape.heads, "too many keys");
  std::iota(table.begin(), table.end(), 0);
  if (!in_order) std::shuffle(table.begin(), table.end(), std::mt19937(7));
  DeviceArray<int> on_device(table.size());
  CHECK(cudaMemcpy(on_device.data, table.data(), table.size() * 4, cudaMemcpyHostToDevice));
  const long long row = (long long)shape.heads * kRowBytes;
  const Cache cache{(const uint8_t*)store.k.data, (const uint8_t*)store.v.data, on_device.data,
                    shape.heads, pages, page_log, row << page_log, row};
  DeviceArray<Window> windows(size_t(ctas) * threads / 32);
  DeviceArray<uint32_t> sums(ctas);
  auto kernel = load_blocks<looped, threads>;
  allow_shared_memory(kernel, kRing * kTileBytes);
  Outcome result;
  for (int r = -1; r < repetitions; ++r) {  // the first one warms up
    // Another sequence every time, where not all are read: its pages and numbers are in no cache.
    const int first = ctas == shape.sequences * shape.heads ? 0 : (r + 1) % shape.sequences;
    windows.poison();
    CHECK(cudaMemset(sums.data, 0, ctas * 4));
    const double seconds = event_seconds([&] {
      kernel<<<ctas, threads, kRing * kTileBytes>>>(cache, shape.blocks, first, windows.data,
                                                    sums.data);
    });
    CHECK_KERNEL();
    const std::vector<uint32_t> found = sums.host();
    const std::vector<Window> all = windows.host();
    for (int c = 0; c < ctas; ++c) {
      uint32_t expected = 0;
      const int* numbers = &table[(size_t(first) + c / shape.heads) * pages];
      for (int key = 0; key < kBlock; ++key) {
        const int at = key & ((1 << page_log) - 1);
        const uint64_t place = (uint64_t(numbers[key >> page_log]) << page_log) + at;
        const uint64_t word = (place * shape.heads + c % shape.heads) * (kRowBytes / 4);
        for (int w = 0; w < kRowBytes / 4; ++w) expected ^= word_at(word + w);
      }
      REQUIRE(found[c] == expected, "CTA %d copied wrong rows", c);
      const std::vector<Window> cta(all.begin() + c * (threads / 32),
                                    all.begin() + (c + 1) * (threads / 32));
      if (r >= 0) result.per_block.push_back(elapsed_cycles(cta) / shape.blocks);
    }
    if (r >= 0) {
      result.bytes_per_second.push_back(2.0 * ctas * shape.blocks * kTileBytes / seconds);
    }
  }
  return result;
}

void measure_turn(const Store& store, const Options& options) {
  DeviceArray<Window> windows(1);
  auto launch = [&](int turns) {
    windows.poison();
    copy_in_turns<<<1, 32, 32 * kPiece>>>((const uint8_t*)store.k.data, turns, windows.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.written());
  };
  report("cp_async_turn_cycles", "cycles",
         slope(launch, 200, options.count(1000, 300), options.count(20, 2)),
         "one warp, 16 bytes a lane from L2, a loop whose copies share an address register");
}

// One CTA alone: its loops.
template <bool looped, int threads>
void measure_loops(const Store& store, const Options& options) {
  const Shape shape{32, 4, options.count(256, 8)};
  for (int page_log : {0, 3, 5, 7}) {
    const Outcome o = measure<looped, threads>(store, shape, page_log, false, 1, options.count(6, 1));
    report(text("page_rows_%s_%d_threads_page_%d_cycles", looped ? "looped" : "unrolled", threads,
                1 << page_log),
           "cycles", o.per_block,
           "one CTA alone copies K and V row by row, a ring of 3 tiles; per block of 128 keys",
           text("\"threads\": %d, \"page\": %d", threads, 1 << page_log));
  }
}

// All of HBM, by the pitch of rows and the size of pages: 128 CTAs, one for each head.
void measure_pitch(const Store& store, const Options& options) {
  for (int heads : {1, 4, 32}) {
    const Shape shape{128 / heads, heads, options.count(1024, 16)};
    for (int page_log : {0, 5, 7}) {
      for (bool in_order : {false, true}) {
        const Outcome o =
            measure<false, 128>(store, shape, page_log, in_order, 128, options.count(3, 1));
        report(text("page_rows_%d_heads_%s_page_%d_bytes_per_second", heads,
                    in_order ? "ordered" : "random", 1 << page_log),
               "bytes_per_second", o.bytes_per_second,
               "128 CTAs copy K and V of a head each, every byte once",
               text("\"heads\": %d, \"page\": %d", heads, 1 << page_log));
      }
    }
  }
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  const Store store;
  measure_turn(store, options);
  measure_loops<true, 64>(store, options);
  measure_loops<false, 64>(store, options);
  measure_loops<false, 128>(store, options);
  measure_pitch(store, options);
}
