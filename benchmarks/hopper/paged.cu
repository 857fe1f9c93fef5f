// Rows of K and V through a page table: what a block of 128 keys costs the warps that load it by
// cp.async when the compiler unrolls their loops and when it does not, and what HBM gives for rows
// that lie apart, to cp.async and to TMA. Head dimension 128, bf16: a row is 256 bytes, a tile of K
// or V 32 KiB.
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

// The same by TMA where a page is a block: one thread asks for two boxes of a tile.
__global__ void load_boxes(const __grid_constant__ CUtensorMap k,
                           const __grid_constant__ CUtensorMap v, const int* table, int heads,
                           int blocks, Window* windows, uint32_t* sums) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ alignas(8) uint64_t full[kRing];
  const int* pages = table + blockIdx.x / heads * blocks;
  const uint32_t base = shared_address(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kRing; ++s) mbarrier_init(shared_address(&full[s]), 1);
    mbarrier_init_fence();
  }
  __syncwarp();
  const int tiles = 2 * blocks, last = (tiles - 1) % kRing;
  const long long start = cycles();
  if (elect_one()) {
    auto issue = [&](int tile) {
      const int slot = tile % kRing, row = pages[blocks - 1 - tile / 2] * kBlock;
      const uint32_t barrier = shared_address(&full[slot]);
      mbarrier_expect_tx(barrier, kTileBytes);
      for (int half = 0; half < 2; ++half) {
        const int column = blockIdx.x % heads * kColumns + half * kBoxColumns;
        tma_load(base + slot * kTileBytes + half * kStageBytes, tile % 2 ? &v : &k, column, row,
                 barrier);
      }
    };
    for (int tile = 0; tile < kRing; ++tile) issue(tile);
    for (int tile = 0; tile < tiles; ++tile) {
      mbarrier_wait_plain(shared_address(&full[tile % kRing]), tile / kRing & 1);
      if (tile + kRing < tiles) issue(tile + kRing);
    }
  }
  __syncwarp();
  record(windows, start, cycles());
  mbarrier_wait_plain(shared_address(&full[last]), (tiles - 1) / kRing & 1);
  const uint32_t* words = reinterpret_cast<const uint32_t*>(memory) + last * (kTileBytes / 4);
  uint32_t sum = 0;
  for (int i = threadIdx.x; i < kTileBytes / 4; i += 32) sum ^= words[i];
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
  int sequences, heads, blocks, page_log;
  bool in_order;

  int pages() const { return blocks * kBlock >> page_log; }
  // The pages of all sequences: each of the cache once, in order or shuffled.
  std::vector<int> table() const {
    std::vector<int> numbers(size_t(sequences) * pages());
    REQUIRE(numbers.size() << page_log <= kStoreBytes / kRowBytes / heads, "too many keys");
    std::iota(numbers.begin(), numbers.end(), 0);
    if (!in_order) std::shuffle(numbers.begin(), numbers.end(), std::mt19937(7));
    return numbers;
  }
};

struct Store {
  DeviceArray<uint32_t> k{kStoreBytes / 4}, v{kStoreBytes / 4};
  Store() {
    fill<<<1024, 256>>>(k.data, k.count);
    fill<<<1024, 256>>>(v.data, v.count);
    CHECK_KERNEL();
  }
};

// What block 0 of V of a CTA's sequence and head holds.
uint32_t last_tile(const Shape& shape, const std::vector<int>& table, int sequence, int head) {
  uint32_t sum = 0;
  for (int key = 0; key < kBlock; ++key) {
    const uint64_t page = table[size_t(sequence) * shape.pages() + (key >> shape.page_log)];
    const uint64_t row = (page << shape.page_log) + (key & ((1 << shape.page_log) - 1));
    for (int w = 0; w < kRowBytes / 4; ++w) {
      sum ^= word_at((row * shape.heads + head) * (kRowBytes / 4) + w);
    }
  }
  return sum;
}

struct Outcome {
  Samples per_block;         // cycles of every CTA
  Samples bytes_per_second;  // of the whole chip, by events
};

// launch(table, first sequence, windows, sums) starts `ctas` CTAs of `warps` warps.
template <class Launch>
Outcome measure(const Shape& shape, int ctas, int warps, int repetitions, Launch launch) {
  const std::vector<int> table = shape.table();
  DeviceArray<int> numbers(table.size());
  CHECK(cudaMemcpy(numbers.data, table.data(), table.size() * 4, cudaMemcpyHostToDevice));
  DeviceArray<Window> windows(size_t(ctas) * warps);
  DeviceArray<uint32_t> sums(ctas);
  Outcome result;
  for (int r = -1; r < repetitions; ++r) {  // the first one warms up
    // Another sequence every time, where not all are read: its pages and numbers are in no cache.
    const int first = ctas == shape.sequences * shape.heads ? 0 : (r + 1) % shape.sequences;
    windows.poison();
    CHECK(cudaMemset(sums.data, 0, ctas * 4));
    const double seconds =
        event_seconds([&] { launch(numbers.data, first, windows.data, sums.data); });
    CHECK_KERNEL();
    const std::vector<uint32_t> found = sums.host();
    const std::vector<Window> all = windows.host();
    for (int c = 0; c < ctas; ++c) {
      const uint32_t expected =
          last_tile(shape, table, first + c / shape.heads, c % shape.heads);
      REQUIRE(found[c] == expected, "CTA %d copied wrong rows", c);
      const std::vector<Window> cta(all.begin() + c * warps, all.begin() + (c + 1) * warps);
      if (r >= 0) result.per_block.push_back(elapsed_cycles(cta) / shape.blocks);
    }
    if (r >= 0) {
      result.bytes_per_second.push_back(2.0 * ctas * shape.blocks * kTileBytes / seconds);
    }
  }
  return result;
}

template <bool looped, int threads>
Outcome measure_rows(const Store& store, const Shape& shape, int ctas, int repetitions) {
  const long long row = (long long)shape.heads * kRowBytes;
  auto kernel = load_blocks<looped, threads>;
  allow_shared_memory(kernel, kRing * kTileBytes);
  return measure(shape, ctas, threads / 32, repetitions,
                 [&](const int* table, int first, Window* windows, uint32_t* sums) {
                   const Cache cache{(const uint8_t*)store.k.data, (const uint8_t*)store.v.data,
                                     table, shape.heads, shape.pages(), shape.page_log,
                                     row << shape.page_log, row};
                   kernel<<<ctas, threads, kRing * kTileBytes>>>(cache, shape.blocks, first,
                                                                 windows, sums);
                 });
}

Outcome measure_boxes(const Store& store, const Shape& shape, int ctas, int repetitions) {
  allow_shared_memory(load_boxes, kRing * kTileBytes);
  const uint64_t rows = uint64_t(shape.sequences) * shape.blocks * kBlock;
  const CUtensorMap k = tensor_map(store.k.data, shape.heads * kColumns, rows, kBlock),
                    v = tensor_map(store.v.data, shape.heads * kColumns, rows, kBlock);
  return measure(shape, ctas, 1, repetitions,
                 [&](const int* table, int, Window* windows, uint32_t* sums) {
                   load_boxes<<<ctas, 32, kRing * kTileBytes>>>(k, v, table, shape.heads,
                                                                shape.blocks, windows, sums);
                 });
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
  for (int page_log : {0, 3, 5, 7}) {
    const Shape shape{32, 4, options.count(256, 8), page_log, false};
    const Outcome o = measure_rows<looped, threads>(store, shape, 1, options.count(6, 1));
    report(text("page_rows_%s_%d_threads_page_%d_cycles", looped ? "looped" : "unrolled", threads,
                1 << page_log),
           "cycles", o.per_block,
           "one CTA alone copies K and V row by row, a ring of 3 tiles; per block of 128 keys",
           text("\"threads\": %d, \"page\": %d", threads, 1 << page_log));
  }
}

// All of HBM, by the pitch of rows, the size of pages and their order: 128 CTAs, each its own head.
void measure_pitch(const Store& store, const Options& options) {
  const int blocks = options.count(1024, 16), repetitions = options.count(3, 1);
  for (int heads : {1, 4, 32}) {
    for (bool in_order : {false, true}) {
      const char* order = in_order ? "ordered" : "random";
      for (int page_log : {0, 5, 7}) {
        const Shape shape{128 / heads, heads, blocks, page_log, in_order};
        const Outcome o = measure_rows<false, 128>(store, shape, 128, repetitions);
        report(text("page_rows_%d_heads_%s_page_%d_bytes_per_second", heads, order, 1 << page_log),
               "bytes_per_second", o.bytes_per_second,
               "128 CTAs of 128 threads copy K and V of a head each by cp.async, every byte once",
               text("\"heads\": %d, \"page\": %d", heads, 1 << page_log));
      }
      const Shape shape{128 / heads, heads, blocks, 7, in_order};
      const Outcome o = measure_boxes(store, shape, 128, repetitions);
      report(text("page_boxes_%d_heads_%s_page_128_bytes_per_second", heads, order),
             "bytes_per_second", o.bytes_per_second, "the same by TMA, two boxes for a tile",
             text("\"heads\": %d, \"page\": 128", heads));
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
