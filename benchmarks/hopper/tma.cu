// TMA latencies: loads by size and by where the data is, the cost of issuing, pairs of CTAs,
// stores.
#include "tensor_map.cuh"

// ---- load latency ------------------------------------------------------------------------------

// A sample is `boxes` boxes of `box_rows` rows: the halves of one tile, then the next rows' halves.
struct Sample {
  long long issued,
      complete;  // cycles from the start to past the last TMA instruction, and the wait
};

template <int Boxes>
__global__ void load_latency(const __grid_constant__ CUtensorMap map, uint32_t rows, int box_rows,
                             int samples, uint32_t seed, Sample* out, uint32_t* checksums) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t full = uniform(shared_address(&barrier)), tile = uniform(shared_address(memory));
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  const uint32_t box_bytes = box_rows * kBoxRowBytes;
  const uint32_t tile_rows = box_rows * ((Boxes + 1) / 2);
  int row = 0;
  if (elect_one()) {
#pragma unroll 1
    for (int i = 0; i < samples; ++i) {
      row = hash(i + seed) % (rows / tile_rows) * tile_rows;
      const long long start = cycles();
      mbarrier_expect_tx(full, Boxes * box_bytes);
#pragma unroll
      for (int b = 0; b < Boxes; ++b) {
        tma_load(tile + b * box_bytes, &map, b % 2 * kBoxColumns, row + b / 2 * box_rows, full);
      }
      const long long issued = cycles();
      mbarrier_wait_plain(full, i & 1);
      const long long complete = cycles();
      out[i] = {issued - start, complete - start};
    }
    // The last tile's words, for the host to check.
    uint32_t sum = 0;
    for (uint32_t w = 0; w < box_bytes / 4; ++w) sum ^= reinterpret_cast<uint32_t*>(memory)[w];
    checksums[0] = sum, checksums[1] = row;
  }
}

struct Latencies {
  Samples issued, complete;
  double first;  // latency of the very first load, which also fetches the tensor map
};

template <int Boxes>
Latencies measure_load(const Tensor& tensor, int box_rows, int samples, uint32_t seed) {
  const int bytes = Boxes * box_rows * kBoxRowBytes;
  DeviceArray<Sample> out(samples);
  DeviceArray<uint32_t> checksums(2);
  allow_shared_memory(load_latency<Boxes>, bytes);
  load_latency<Boxes><<<1, 32, bytes>>>(tensor.map(box_rows), tensor.rows, box_rows, samples, seed,
                                        out.data, checksums.data);
  CHECK_KERNEL();
  const std::vector<uint32_t> sums = checksums.written();
  REQUIRE(sums[0] == tensor.checksum(0, sums[1], box_rows), "a loaded box has the wrong contents");
  Latencies result;
  const std::vector<Sample> all = out.written();
  result.first = double(all[0].complete);
  for (size_t i = 4; i < all.size(); ++i) {
    result.issued.push_back(double(all[i].issued));
    result.complete.push_back(double(all[i].complete));
  }
  return result;
}

void measure_load_latency(const Tensor& cached, const Tensor& uncached, const Options& options) {
  const char* method =
      "stamps of the elected lane: before expect_tx to past the wait; random tiles, one at a time";
  const int samples = options.count(2000, 40);
  Samples bytes, l2_mean, near, far_extra, hbm_extra, hbm_median_extra;
  uint32_t seed = 1;
  auto both = [&](int size_kib, auto measure) {
    cached.warm_l2();
    const Samples l2 = measure(cached, seed++ * 1000003u).complete;
    const Samples hbm = measure(uncached, seed++ * 1000003u).complete;
    const std::string params = text("\"bytes\": %d", size_kib * 1024);
    report(text("tma_load_latency_l2_%dkib_cycles", size_kib), "cycles", l2, method, params);
    report(text("tma_load_latency_hbm_%dkib_cycles", size_kib), "cycles", hbm, method, params);
    if (size_kib > 32) return;  // larger than a stage, and always in both halves of the L2
    bytes.push_back(size_kib * 1024.0);
    l2_mean.push_back(mean(l2));
    near.push_back(quantile(l2, 0.1));
    far_extra.push_back(quantile(l2, 0.9) - quantile(l2, 0.1));
    hbm_extra.push_back(mean(hbm) - mean(l2));
    hbm_median_extra.push_back(median(hbm) - median(l2));
  };
  auto one_box = [&](int rows) {
    return [=](const Tensor& t, uint32_t s) { return measure_load<1>(t, rows, samples, s); };
  };
  both(1, one_box(8));
  both(2, one_box(16));
  both(4, one_box(32));
  both(8, one_box(64));
  both(16, one_box(128));
  both(32, [=](const Tensor& t, uint32_t s) { return measure_load<2>(t, 128, samples, s); });
  both(64, [=](const Tensor& t, uint32_t s) { return measure_load<4>(t, 128, samples, s); });

  const Line average = fit_line(bytes, l2_mean), closest = fit_line(bytes, near);
  report("tma_l2_base_cycles", "cycles", {average.base},
         "mean L2 latency = base + bytes / rate, least squares over 1..32 KiB");
  report("tma_l2_bytes_per_cycle", "bytes_per_cycle", {1 / average.per_unit},
         "rate of the same fit");
  report("tma_l2_near_base_cycles", "cycles", {closest.base},
         "same fit to the 10th percentiles: the L2 half next to the SM");
  report("tma_l2_near_bytes_per_cycle", "bytes_per_cycle", {1 / closest.per_unit},
         "rate of the fit to the 10th percentiles");
  report("tma_l2_far_extra_cycles", "cycles", far_extra,
         "90th minus 10th percentile of L2 latency, one sample per size: near and far L2 half");
  report("tma_hbm_extra_cycles", "cycles", hbm_extra,
         "mean HBM latency minus mean L2 latency, one sample per size");
  report("tma_hbm_median_extra_cycles", "cycles", hbm_median_extra,
         "median HBM latency minus median L2 latency, one sample per size");

  Samples first;
  cached.warm_l2();
  for (int i = 0; i < options.count(40, 4); ++i) {
    first.push_back(measure_load<1>(cached, 128, 8, seed++ * 1000003u).first);
  }
  report("tma_first_load_l2_16kib_cycles", "cycles", first,
         "first load of a launch: fetches the tensor map too; one sample per launch",
         "\"bytes\": 16384");

  const char* issue_method = "stamps round expect_tx and the TMA instructions of an elected lane";
  cached.warm_l2();
  report("tma_issue_cycles", "cycles", measure_load<1>(cached, 128, samples, 7).issued,
         issue_method, "\"boxes\": 1");
  report("tma_issue_2_boxes_cycles", "cycles", measure_load<2>(cached, 128, samples, 8).issued,
         issue_method, "\"boxes\": 2");
  report("tma_issue_4_boxes_cycles", "cycles", measure_load<4>(cached, 128, samples, 9).issued,
         issue_method, "\"boxes\": 4");
}

// ---- issue rate --------------------------------------------------------------------------------

// Loads of 1 KiB, `Boxes` per barrier phase, nobody waiting in between: the pace of the issuing
// lane.
template <int Boxes>
__global__ void issue_rate(const __grid_constant__ CUtensorMap map, int iterations,
                           Window* windows) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t full = uniform(shared_address(&barrier)), tile = uniform(shared_address(memory));
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (elect_one()) {
    mbarrier_expect_tx(full, iterations * Boxes * 1024);
    const long long start = cycles();
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int b = 0; b < Boxes; ++b) {
        tma_load(tile + b * 1024, &map, b % 2 * kBoxColumns, b / 2 * 8, full);
      }
    }
    windows[0] = {start, cycles()};
    mbarrier_wait_plain(full, 0);
  }
}

void measure_issue_rate(const Tensor& cached, const Options& options) {
  const CUtensorMap map = cached.map(8);
  DeviceArray<Window> windows(1);
  auto launch = [&](int iterations) {
    windows.poison();
    issue_rate<4><<<1, 32, 4096>>>(map, iterations, windows.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  report("tma_issue_per_box_cycles", "cycles",
         scaled(slope(launch, 16, options.count(200, 32), options.count(9, 2)), 0.25),
         "back-to-back 1 KiB loads of one elected lane, slope", "\"boxes_in_a_row\": 4");
}

// ---- two CTAs ----------------------------------------------------------------------------------

// Both CTAs of a cluster need the same tile. With multicast each loads half of it into both.
template <bool Multicast>
__global__ void __cluster_dims__(2, 1, 1)
    pair_latency(const __grid_constant__ CUtensorMap map, uint32_t rows, int samples, uint32_t seed,
                 long long* out) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t full = uniform(shared_address(&barrier)), tile = uniform(shared_address(memory));
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init_fence();
  }
  cluster_sync();
#pragma unroll 1
  for (int i = 0; i < samples; ++i) {
    const int row = hash(i + seed) % (rows / kStageRows) * kStageRows;
    cluster_sync();
    if (elect_one()) {
      const long long start = cycles();
      mbarrier_expect_tx(full, 2 * kStageBytes);
      if (Multicast) {
        tma_load_multicast(tile + rank * kStageBytes, &map, rank * kBoxColumns, row, full, 3);
      } else {
        tma_load(tile, &map, 0, row, full);
        tma_load(tile + kStageBytes, &map, kBoxColumns, row, full);
      }
      mbarrier_wait_plain(full, i & 1);
      out[rank * samples + i] = cycles() - start;
    }
    __syncwarp();
  }
  cluster_sync();
}

template <bool Multicast>
Samples measure_pair(const Tensor& tensor, int samples, uint32_t seed) {
  DeviceArray<long long> out(2 * samples);
  allow_shared_memory(pair_latency<Multicast>, 2 * kStageBytes);
  pair_latency<Multicast>
      <<<2, 32, 2 * kStageBytes>>>(tensor.map(kStageRows), tensor.rows, samples, seed, out.data);
  CHECK_KERNEL();
  Samples result;
  const std::vector<long long> all = out.written();
  for (int i = 0; i < 2 * samples; ++i) {
    if (i % samples >= 4) result.push_back(double(all[i]));
  }
  return result;
}

void measure_pairs(const Tensor& cached, const Tensor& uncached, const Options& options) {
  const int samples = options.count(1000, 40);
  const char* multicast =
      "2-CTA cluster, each CTA loads half a 32 KiB tile into both; issue to own full";
  const char* separate = "2-CTA cluster, each CTA loads the whole 32 KiB tile; issue to own full";
  const char* params = "\"bytes\": 32768, \"ctas\": 2";
  cached.warm_l2();
  report("tma_multicast_l2_32kib_cycles", "cycles", measure_pair<true>(cached, samples, 11),
         multicast, params);
  report("tma_pair_l2_32kib_cycles", "cycles", measure_pair<false>(cached, samples, 13), separate,
         params);
  report("tma_multicast_hbm_32kib_cycles", "cycles", measure_pair<true>(uncached, samples, 500009),
         multicast, params);
  report("tma_pair_hbm_32kib_cycles", "cycles", measure_pair<false>(uncached, samples, 900001),
         separate, params);
}

// ---- stores ------------------------------------------------------------------------------------

template <int Boxes, bool WaitRead>
__global__ void store_latency(const __grid_constant__ CUtensorMap map, uint32_t rows, int box_rows,
                              int samples, long long* out) {
  extern __shared__ __align__(1024) uint8_t memory[];
  for (int i = threadIdx.x; i < Boxes * box_rows * kBoxRowBytes / 4; i += 32) {
    reinterpret_cast<uint32_t*>(memory)[i] = 0xabcd1234u;
  }
  fence_proxy_async();
  __syncwarp();
  const uint32_t tile = uniform(shared_address(memory)), box_bytes = box_rows * kBoxRowBytes;
  if (elect_one()) {
#pragma unroll 1
    for (int i = 0; i < samples; ++i) {
      const int row = i * box_rows % (rows - box_rows);
      const long long start = cycles();
#pragma unroll
      for (int b = 0; b < Boxes; ++b) {
        tma_store(&map, b % 2 * kBoxColumns, row, tile + b * box_bytes);
      }
      tma_store_commit();
      if (WaitRead) {
        tma_store_wait_read<0>();
      } else {
        tma_store_wait<0>();
      }
      out[i] = cycles() - start;
    }
    tma_store_wait<0>();
  }
}

template <int Boxes, bool WaitRead>
Samples measure_store(const Tensor& tensor, int box_rows, int samples) {
  const int bytes = Boxes * box_rows * kBoxRowBytes;
  DeviceArray<long long> out(samples);
  allow_shared_memory(store_latency<Boxes, WaitRead>, bytes);
  CHECK(cudaMemset(tensor.words.data, 0xff, 4096));
  store_latency<Boxes, WaitRead>
      <<<1, 32, bytes>>>(tensor.map(box_rows), tensor.rows, box_rows, samples, out.data);
  CHECK_KERNEL();
  uint32_t first = 0;
  CHECK(cudaMemcpy(&first, tensor.words.data, 4, cudaMemcpyDeviceToHost));
  REQUIRE(first == 0xabcd1234u, "the stored tile did not reach memory");
  Samples result;
  const std::vector<long long> all = out.written();
  for (size_t i = 4; i < all.size(); ++i) result.push_back(double(all[i]));
  return result;
}

void measure_stores(const Tensor& cached, const Options& options) {
  const int samples = options.count(500, 40);
  const char* method = "stamps: before the store to the wait's return, one store at a time";
  struct Size {
    int kib;
    Samples read, complete;
  };
  const Size sizes[] = {
      {8, measure_store<1, true>(cached, 64, samples),
       measure_store<1, false>(cached, 64, samples)},
      {16, measure_store<1, true>(cached, 128, samples),
       measure_store<1, false>(cached, 128, samples)},
      {32, measure_store<2, true>(cached, 128, samples),
       measure_store<2, false>(cached, 128, samples)},
  };
  Samples bytes, read;
  for (const Size& size : sizes) {
    const std::string params = text("\"bytes\": %d", size.kib * 1024);
    report(text("tma_store_read_wait_%dkib_cycles", size.kib), "cycles", size.read, method, params);
    report(text("tma_store_wait_%dkib_cycles", size.kib), "cycles", size.complete, method, params);
    bytes.push_back(size.kib * 1024.0);
    read.push_back(median(size.read));
  }
  const Line line = fit_line(bytes, read);
  report("tma_store_base_cycles", "cycles", {line.base},
         "wait_group.read latency = base + bytes / rate, least squares over 8..32 KiB");
  report("tma_store_bytes_per_cycle", "bytes_per_cycle", {1 / line.per_unit},
         "rate of the same fit: how fast TMA drains shared memory");
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  const Tensor cached(kCachedBytes), uncached(kUncachedBytes);
  measure_load_latency(cached, uncached, options);
  measure_issue_rate(cached, options);
  measure_pairs(cached, uncached, options);
  measure_stores(cached, options);  // last: overwrites the tensor
}
