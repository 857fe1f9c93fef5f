// TMA bandwidth against bytes in flight, for one SM and for all of them, and streams of stores.
#include "tensor_map.cuh"

// ---- load bandwidth ----------------------------------------------------------------------------

// Up to four warps keep a ring of 16 KiB stages full: wait for a stage, then reissue it at once.
constexpr int kProducers = 4, kMaxStages = 13;

__global__ void __launch_bounds__(kProducers * 32)
    load_bandwidth(const __grid_constant__ CUtensorMap map, uint32_t rows, int stages, int loads,
                   uint32_t first_tile, Window* windows) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ alignas(8) uint64_t barriers[kMaxStages];
  const uint32_t base = shared_address(memory);
  const int warp = threadIdx.x / 32, producers = min(kProducers, stages);
  const uint32_t last_tile = rows / kStageRows * 2 - 1;  // a power of two less one
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) mbarrier_init(shared_address(&barriers[s]), 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  const long long start = cycles();
  if (warp < producers && elect_one()) {
    // Stage s of this warp's share carries loads s, s + stages, ...; CTAs take turns over the
    // tensor, two neighbouring boxes (one tile) at a time.
    auto issue = [&](int load, int stage) {
      const uint32_t pair = load / 2 * gridDim.x + blockIdx.x;
      const uint32_t tile = (first_tile + pair * 2 + load % 2) & last_tile;
      const uint32_t full = shared_address(&barriers[stage]);
      mbarrier_expect_tx(full, kStageBytes);
      tma_load(base + stage * kStageBytes, &map, tile % 2 * kBoxColumns, tile / 2 * kStageRows,
               full);
    };
    for (int stage = warp; stage < stages; stage += producers) issue(stage, stage);
    uint32_t parity = 0;
    for (int done = 0; done < loads; done += stages, parity ^= 1) {
      for (int stage = warp; stage < stages; stage += producers) {
        if (done + stage >= loads) break;
        mbarrier_wait_plain(shared_address(&barriers[stage]), parity);
        if (done + stage + stages < loads) issue(done + stage + stages, stage);
      }
    }
  }
  __syncwarp();
  record(windows, start, cycles());
}

struct Bandwidth {
  Samples per_sm;            // bytes per cycle of every SM of every repetition
  Samples bytes_per_second;  // of the whole chip, by events
};

Bandwidth measure_bandwidth(const Tensor& tensor, int ctas, int stages, int loads,
                            int repetitions) {
  const int warps = ctas * kProducers, bytes = stages * kStageBytes;
  const CUtensorMap map = tensor.map(kStageRows);
  DeviceArray<Window> windows(warps);
  allow_shared_memory(load_bandwidth, bytes);
  Bandwidth result;
  const uint32_t tiles = tensor.rows / kStageRows * 2;
  for (int r = -1; r < repetitions; ++r) {  // the first one warms up
    windows.poison();
    const uint32_t first = (r + 1) * 7919u * 2 % tiles;
    const double seconds = event_seconds([&] {
      load_bandwidth<<<ctas, kProducers * 32, bytes>>>(map, tensor.rows, stages, loads, first,
                                                       windows.data);
    });
    CHECK_KERNEL();
    if (r < 0) continue;
    const std::vector<Window> all = windows.host();
    for (int c = 0; c < ctas; ++c) {
      const std::vector<Window> cta(all.begin() + c * kProducers,
                                    all.begin() + (c + 1) * kProducers);
      result.per_sm.push_back(double(loads) * kStageBytes / elapsed_cycles(cta));
    }
    result.bytes_per_second.push_back(double(loads) * kStageBytes * ctas / seconds);
  }
  return result;
}

void measure_load_bandwidth(const Tensor& cached, const Tensor& uncached, const Options& options) {
  const char* method =
      "4 warps refill a ring of 16 KiB stages as each arrives; bytes over cycles, every SM a "
      "sample";
  for (bool all_sms : {false, true}) {
    for (bool hbm : {false, true}) {
      const char* where = hbm ? "hbm" : "l2";
      const char* scope = all_sms ? "all_sms" : "one_sm";
      const int ctas = all_sms ? sm_count() : 1;
      const int loads = options.count(all_sms ? 1200 : 2400, 40);
      Bandwidth best;
      for (int stages : {1, 2, 3, 4, 6, 8, 12}) {
        if (!hbm) cached.warm_l2();
        Bandwidth b =
            measure_bandwidth(hbm ? uncached : cached, ctas, stages, loads, options.count(3, 1));
        report(text("tma_%s_%s_%dkib_in_flight_bytes_per_cycle", where, scope, stages * 16),
               "bytes_per_cycle", b.per_sm, method,
               text("\"sms\": %d, \"bytes_in_flight\": %d", ctas, stages * kStageBytes));
        if (best.per_sm.empty() || median(b.per_sm) > median(best.per_sm)) best = b;
      }
      report(text("tma_%s_%s_peak_bytes_per_cycle", where, scope), "bytes_per_cycle", best.per_sm,
             "best of the bytes-in-flight sweep", text("\"sms\": %d", ctas));
      if (all_sms) {
        report(text("tma_%s_%s_peak_bytes_per_second", where, scope), "bytes_per_second",
               best.bytes_per_second, "same launches, whole chip, timed by events",
               text("\"sms\": %d", ctas));
      }
    }
  }
}

// ---- stores ------------------------------------------------------------------------------------

// Four stores of 16 KiB in flight, on every CTA.
__global__ void store_stream(const __grid_constant__ CUtensorMap map, uint32_t rows, int stores,
                             Window* windows) {
  extern __shared__ __align__(1024) uint8_t memory[];
  for (int i = threadIdx.x; i < 4 * kStageBytes / 4; i += 32) {
    reinterpret_cast<uint32_t*>(memory)[i] = i;
  }
  fence_proxy_async();
  __syncwarp();
  const uint32_t last_tile = rows / kStageRows * 2 - 1;
  const long long start = cycles();
  if (elect_one()) {
#pragma unroll 1
    for (int i = 0; i < stores; ++i) {
      const uint32_t tile = ((i / 2 * gridDim.x + blockIdx.x) * 2 + i % 2) & last_tile;
      tma_store(&map, tile % 2 * kBoxColumns, tile / 2 * kStageRows,
                shared_address(memory) + i % 4 * kStageBytes);
      tma_store_commit();
      tma_store_wait_read<3>();
    }
    tma_store_wait<0>();
  }
  __syncwarp();
  record(windows, start, cycles());
}

void measure_store_streams(const Tensor& cached, const Tensor& uncached, const Options& options) {
  allow_shared_memory(store_stream, 4 * kStageBytes);
  for (bool all_sms : {false, true}) {
    for (bool hbm : {false, true}) {
      if (!all_sms && hbm) continue;
      const Tensor& tensor = hbm ? uncached : cached;
      const int ctas = all_sms ? sm_count() : 1, stores = options.count(600, 24);
      DeviceArray<Window> windows(ctas);
      Samples rate;
      for (int r = 0; r < options.count(3, 1); ++r) {
        windows.poison();
        store_stream<<<ctas, 32, 4 * kStageBytes>>>(tensor.map(kStageRows), tensor.rows, stores,
                                                    windows.data);
        CHECK_KERNEL();
        for (const Window& w : windows.host()) {
          rate.push_back(double(stores) * kStageBytes / elapsed_cycles({w}));
        }
      }
      report(text("tma_store_%s_%s_bytes_per_cycle", all_sms ? "all_sms" : "one_sm",
                  hbm ? "hbm" : "l2"),
             "bytes_per_cycle", rate, "4 stores of 16 KiB in flight, every SM a sample",
             text("\"sms\": %d, \"destination_bytes\": %zu", ctas, tensor.words.count * 4));
    }
  }
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  const Tensor cached(kCachedBytes), uncached(kUncachedBytes);
  measure_load_bandwidth(cached, uncached, options);
  measure_store_streams(cached, uncached, options);  // last: overwrites the tensors
}
