// What synchronisation costs: mbarrier hand-offs, named barriers, remote arrivals, fences.
//
// Hand-offs are measured by ping-pong. Group A arrives on one barrier and waits on another; group B
// waits on the first and arrives on the second. Both are on one SM and read the same counter, so
// stamps give each direction: arrival to resumption. Before each arrival a stamped run holds for a
// moment, so that the stores of the stamps do not queue ahead of it.
#include "common.cuh"
#include "ptx.cuh"

// ---- mbarrier hand-off -------------------------------------------------------------------------

struct HandOff {
  int a_warps, b_warps;  // warps on each side; every warp arrives once per round
  int first_b;           // warp number of B's first warp: chooses its sub-partition
  int hold;              // cycles that a side waits before it arrives again
};

// Who arrives: lane 0, known beforehand; the lane that elect.sync names each time; every lane.
enum class Arrive { lane_0, elected, all_lanes };

template <Arrive Who>
__device__ __forceinline__ void arrive(uint32_t barrier, bool lane_0) {
  if (Who == Arrive::lane_0) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n@p mbarrier.arrive.shared::cta.b64 _, [%0];\n}" ::
            "r"(barrier),
        "r"(uint32_t(lane_0))
        : "memory");
  } else if (Who == Arrive::elected) {
    mbarrier_arrive_one_lane(barrier);
  } else {
    mbarrier_arrive(barrier);
  }
}

template <bool Divergent>
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  if (Divergent) {
    mbarrier_wait_plain(barrier, parity);
  } else {
    mbarrier_wait(barrier, parity);
  }
}

// Both sides run the same loop, so both directions have the same code; B merely waits once before.
// `arrived` and `resumed` hold the counter of every round and warp, 32 warps to a row. `Divergent`
// hides from the compiler that a warp takes its role as one, so it guards against divergence.
template <Arrive Who, bool Divergent, bool Stamps>
__global__ void hand_off(HandOff shape, int rounds, uint32_t* arrived, uint32_t* resumed,
                         Window* windows) {
  __shared__ alignas(8) uint64_t barriers[2];
  const uint32_t to_b = shared_address(&barriers[0]), to_a = shared_address(&barriers[1]);
  const int warp = Divergent ? threadIdx.x / 32 : uniform(threadIdx.x / 32);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    const int lanes = Who == Arrive::all_lanes ? 32 : 1;
    mbarrier_init(to_b, shape.a_warps * lanes);
    mbarrier_init(to_a, shape.b_warps * lanes);
  }
  __syncthreads();
  const bool in_a = warp < shape.a_warps;
  const bool in_b = warp >= shape.first_b && warp < shape.first_b + shape.b_warps;
  const uint32_t mine = uniform(in_a ? to_a : to_b), theirs = uniform(in_a ? to_b : to_a);
  const uint32_t hold = uniform(shape.hold);
  const int trips = in_a ? rounds : rounds - 1;
  if (Stamps) arrived += warp, resumed += warp;
  const long long start = cycles();
  if (in_a || in_b) {
    uint32_t parity = 0;
    if (in_b) {
      wait<Divergent>(mine, parity);
      parity ^= 1;
      if (Stamps && lane == 0) *resumed = cycles32();
      if (Stamps) resumed += 32;
    }
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
      if (Stamps) {
        const uint32_t holding_since = cycles32();
        while (cycles32() - holding_since < hold) {
        }
      }
      const uint32_t before = cycles32();
      arrive<Who>(theirs, lane == 0);
      wait<Divergent>(mine, parity);
      const uint32_t after = cycles32();
      parity ^= 1;
      if (Stamps && lane == 0) *arrived = before, *resumed = after;
      if (Stamps) arrived += 32, resumed += 32;
    }
    if (in_b) {
      if (Stamps && lane == 0) *arrived = cycles32();
      arrive<Who>(theirs, lane == 0);
    }
  }
  record(windows, start, cycles());
}

// Last arrival to last resumption, both directions, every round but the first and the last.
template <Arrive Who, bool Divergent = false>
Samples hand_off_stamps(HandOff shape, int rounds) {
  const int warps = std::max(shape.a_warps, shape.first_b + shape.b_warps);
  DeviceArray<uint32_t> arrived(size_t(rounds) * 32), resumed(size_t(rounds) * 32);
  DeviceArray<Window> windows(warps);
  hand_off<Who, Divergent, true>
      <<<1, warps * 32>>>(shape, rounds, arrived.data, resumed.data, windows.data);
  CHECK_KERNEL();
  const std::vector<uint32_t> a = arrived.host(), r = resumed.host();
  // Latest stamp of a group of warps in a round, relative to `origin`: survives the counter's wrap.
  auto latest = [](const std::vector<uint32_t>& stamps, int round, int first, int count,
                   uint32_t origin) {
    uint32_t last = 0;
    for (int w = first; w < first + count; ++w) {
      last = std::max(last, stamps[round * 32 + w] - origin + (1u << 20));
    }
    return last;
  };
  Samples latencies;
  for (int round = 8; round < rounds - 1; ++round) {
    const uint32_t origin = a[round * 32];
    const double to_b = double(latest(r, round, shape.first_b, shape.b_warps, origin)) -
                        latest(a, round, 0, shape.a_warps, origin);
    const double to_a = double(latest(r, round, 0, shape.a_warps, origin)) -
                        latest(a, round, shape.first_b, shape.b_warps, origin);
    REQUIRE(to_b > 0 && to_b < 10000 && to_a > 0 && to_a < 10000, "a hand-off took %g and %g", to_b,
            to_a);
    latencies.push_back(to_b);
    latencies.push_back(to_a);
  }
  return latencies;
}

// Half a round trip as a loop slope, without stamps inside the loop.
template <Arrive Who>
Samples hand_off_slope(HandOff shape, const Options& options) {
  const int warps = std::max(shape.a_warps, shape.first_b + shape.b_warps);
  DeviceArray<Window> windows(warps);
  auto launch = [&](int rounds) {
    windows.poison();
    hand_off<Who, false, false><<<1, warps * 32>>>(shape, rounds, nullptr, nullptr, windows.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  return scaled(slope(launch, 64, options.count(4096, 256), options.count(9, 2)), 0.5);
}

void measure_hand_offs(const Options& options) {
  const int rounds = options.count(2000, 64);
  const char* stamped = "ping-pong, clock stamps: last arrival to last waiter past its wait";
  auto params = [](const HandOff& s, int lanes) {
    return text(
        "\"warps_arriving\": %d, \"warps_waiting\": %d, \"lanes_arriving\": %d, "
        "\"hold_cycles\": %d",
        s.a_warps, s.b_warps, lanes, s.hold);
  };
  const int settle = 200;
  const HandOff one{1, 1, 1, settle}, same_smsp{1, 1, 4, settle}, parked{1, 1, 1, 5000};
  const HandOff four{4, 4, 4, settle}, eight{8, 8, 8, settle}, eight_to_one{8, 1, 8, settle};

  report("mbarrier_arrive_to_resume_cycles", "cycles", hand_off_stamps<Arrive::lane_0>(one, rounds),
         stamped, params(one, 1));
  report("mbarrier_arrive_to_resume_elected_cycles", "cycles",
         hand_off_stamps<Arrive::elected>(one, rounds),
         "as mbarrier_arrive_to_resume_cycles, elect.sync before every arrival", params(one, 1));
  report("mbarrier_arrive_to_resume_all_lanes_cycles", "cycles",
         hand_off_stamps<Arrive::all_lanes>(one, rounds), stamped, params(one, 32));
  report("mbarrier_arrive_to_resume_same_smsp_cycles", "cycles",
         hand_off_stamps<Arrive::lane_0>(same_smsp, rounds),
         "as mbarrier_arrive_to_resume_cycles, both warps on one sub-partition",
         params(same_smsp, 1));
  report("mbarrier_arrive_to_resume_parked_cycles", "cycles",
         hand_off_stamps<Arrive::lane_0>(parked, options.count(500, 32)), stamped,
         params(parked, 1));
  report("mbarrier_arrive_to_resume_divergent_cycles", "cycles",
         hand_off_stamps<Arrive::elected, true>(one, rounds),
         "as the elected form, compiled without knowing that the warp is converged",
         params(one, 1));
  report("mbarrier_arrive_to_resume_4_warps_cycles", "cycles",
         hand_off_stamps<Arrive::lane_0>(four, rounds), stamped, params(four, 1));
  report("mbarrier_arrive_to_resume_4_warps_all_lanes_cycles", "cycles",
         hand_off_stamps<Arrive::all_lanes>(four, rounds), stamped, params(four, 32));
  report("mbarrier_arrive_to_resume_8_warps_to_1_all_lanes_cycles", "cycles",
         hand_off_stamps<Arrive::all_lanes>(eight_to_one, rounds),
         "as above; samples alternate between 8 warps to 1 and 1 warp to 8",
         params(eight_to_one, 32));

  const char* sloped = "ping-pong, half a round trip as a loop slope, loop overhead included";
  report("mbarrier_half_round_trip_cycles", "cycles", hand_off_slope<Arrive::lane_0>(one, options),
         sloped, params(one, 1));
  report("mbarrier_half_round_trip_elected_cycles", "cycles",
         hand_off_slope<Arrive::elected>(one, options), sloped, params(one, 1));
  report("mbarrier_half_round_trip_all_lanes_cycles", "cycles",
         hand_off_slope<Arrive::all_lanes>(one, options), sloped, params(one, 32));
  report("mbarrier_half_round_trip_4_warps_cycles", "cycles",
         hand_off_slope<Arrive::lane_0>(four, options), sloped, params(four, 1));
  report("mbarrier_half_round_trip_4_warps_all_lanes_cycles", "cycles",
         hand_off_slope<Arrive::all_lanes>(four, options), sloped, params(four, 32));
  report("mbarrier_half_round_trip_8_warps_cycles", "cycles",
         hand_off_slope<Arrive::lane_0>(eight, options), sloped, params(eight, 1));
  report("mbarrier_half_round_trip_8_warps_all_lanes_cycles", "cycles",
         hand_off_slope<Arrive::all_lanes>(eight, options), sloped, params(eight, 32));
}

// ---- instructions back to back -----------------------------------------------------------------

constexpr int kInARow = 64;  // the loop's own instructions then add about 0.2 cycles to each

// A synchronisation instruction repeated by every warp of one CTA. `one_lane` leaves lane 0 alone.
struct Bench {
  uint32_t barrier;  // mbarrier whose phase 0 has completed
  uint32_t scratch;  // 16 bytes of shared memory per thread
  int threads;
  uint32_t sink;
};

struct ArriveOneLane {
  static constexpr bool one_lane = true;
  __device__ static void run(Bench& b) { mbarrier_arrive(b.barrier); }
};
struct ArriveAllLanes {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) { mbarrier_arrive(b.barrier); }
};
struct ArriveExpectTx {
  static constexpr bool one_lane = true;
  __device__ static void run(Bench& b) { mbarrier_expect_tx(b.barrier, 0); }
};
struct TryWaitHit {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) { mbarrier_wait(b.barrier, 0); }
};
struct TryWaitHitPipelined {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) { b.sink += mbarrier_test(b.barrier, 0); }
};
struct BarSync {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) { bar_sync(1, b.threads); }
};
struct SyncWarp {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench&) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
};
struct Elect {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) { b.sink += elect_one(); }
};
struct FenceProxyAsync {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench&) { fence_proxy_async(); }
};
struct StoreThenFenceProxyAsync {
  static constexpr bool one_lane = false;
  __device__ static void run(Bench& b) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(b.scratch), "r"(b.sink)
                 : "memory");
    fence_proxy_async();
  }
};

template <class Op>
__global__ void repeat(int arrivals, int iterations, Window* windows, uint32_t* sink) {
  __shared__ alignas(8) uint64_t barrier;
  __shared__ uint4 scratch[512];
  Bench bench{uniform(shared_address(&barrier)), shared_address(&scratch[threadIdx.x]),
              int(blockDim.x), 0};
  if (threadIdx.x == 0) {
    mbarrier_init(bench.barrier, arrivals);
    if (arrivals == 1) mbarrier_arrive(bench.barrier);
  }
  __syncthreads();
  const long long start = cycles();
  if (!Op::one_lane || threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int u = 0; u < kInARow; ++u) Op::run(bench);
    }
  }
  record(windows, start, cycles());
  sink[threadIdx.x] = bench.sink;
}

template <class Op>
Samples repeated(int threads, int arrivals, const Options& options) {
  DeviceArray<Window> windows(threads / 32);
  DeviceArray<uint32_t> sink(threads);
  auto launch = [&](int iterations) {
    windows.poison();
    repeat<Op><<<1, threads>>>(arrivals, iterations, windows.data, sink.data);
    CHECK_KERNEL();
    return elapsed_cycles(windows.host());
  };
  return scaled(slope(launch, 8, options.count(128, 32), options.count(9, 2)), 1.0 / kInARow);
}

void measure_instructions(const Options& options) {
  const char* method = "64 in a row in a loop, slope between two loop counts";
  auto params = [](int threads) { return text("\"threads\": %d", threads); };
  const int never = 1 << 19;  // more arrivals than a run makes
  report("mbarrier_arrive_issue_cycles", "cycles", repeated<ArriveOneLane>(32, never, options),
         method, "\"lanes\": 1");
  report("mbarrier_arrive_issue_completing_cycles", "cycles",
         repeated<ArriveOneLane>(32, 1, options),
         "as mbarrier_arrive_issue_cycles, every arrival completes a phase", "\"lanes\": 1");
  report("mbarrier_arrive_issue_all_lanes_cycles", "cycles",
         repeated<ArriveAllLanes>(32, never, options), method, "\"lanes\": 32");
  report("mbarrier_expect_tx_issue_cycles", "cycles", repeated<ArriveExpectTx>(32, never, options),
         method, "\"lanes\": 1");
  report("mbarrier_try_wait_hit_cycles", "cycles", repeated<TryWaitHit>(32, 1, options), method,
         params(32));
  report("mbarrier_try_wait_hit_4_warps_cycles", "cycles", repeated<TryWaitHit>(128, 1, options),
         method, params(128));
  report("mbarrier_try_wait_hit_pipelined_cycles", "cycles",
         repeated<TryWaitHitPipelined>(32, 1, options),
         "as above, result read as data instead of branched on", params(32));
  for (int threads : {32, 64, 128, 256, 384, 416, 512}) {
    report(text("bar_sync_%d_cycles", threads), "cycles", repeated<BarSync>(threads, 1, options),
           "every thread syncs, slope", params(threads));
  }
  report("syncwarp_cycles", "cycles", repeated<SyncWarp>(32, 1, options), method, params(32));
  report("elect_sync_cycles", "cycles", repeated<Elect>(32, 1, options),
         "elect.sync, select and add, slope", params(32));
  report("fence_proxy_async_cycles", "cycles", repeated<FenceProxyAsync>(32, 1, options), method,
         params(32));
  report("fence_proxy_async_4_warps_cycles", "cycles", repeated<FenceProxyAsync>(128, 1, options),
         "as above, cycles per fence of every warp", params(128));
  report("sts128_fence_proxy_async_cycles", "cycles",
         repeated<StoreThenFenceProxyAsync>(128, 1, options),
         "pairs of one 16-byte shared store and one fence, slope", params(128));
}

// ---- named barrier hand-off --------------------------------------------------------------------

// Half of the warps arrive on a barrier (without waiting) that the other half syncs on, and back.
__global__ void named_hand_off(int a_warps, int rounds, Window* windows) {
  const int threads = blockDim.x;
  const bool in_a = int(uniform(threadIdx.x / 32)) < a_warps;
  __syncthreads();
  const long long start = cycles();
  if (in_a) {
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      bar_arrive(1, threads);
      bar_sync(2, threads);
    }
  } else {
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      bar_sync(1, threads);
      bar_arrive(2, threads);
    }
  }
  record(windows, start, cycles());
}

// Issue of bar.arrive alone: one warp arrives on eight barriers in a row, another syncs on them.
__global__ void named_arrive_issue(int rounds, long long* issue) {
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x < 32) {
      const long long before = cycles();
#pragma unroll
      for (int id = 1; id <= 8; ++id) bar_arrive(id, 64);
      const long long after = cycles();
      if (threadIdx.x == 0) issue[round] = after - before;
    } else {
#pragma unroll
      for (int id = 1; id <= 8; ++id) bar_sync(id, 64);
    }
    __syncthreads();
  }
}

void measure_named_barriers(const Options& options) {
  for (int threads : {64, 128, 256, 384, 416, 512}) {
    const int warps = threads / 32, a_warps = warps / 2;
    DeviceArray<Window> windows(warps);
    auto launch = [&](int rounds) {
      windows.poison();
      named_hand_off<<<1, threads>>>(a_warps, rounds, windows.data);
      CHECK_KERNEL();
      return elapsed_cycles(windows.host());
    };
    report(text("named_barrier_%d_cycles", threads), "cycles",
           scaled(slope(launch, 64, options.count(4096, 256), options.count(9, 2)), 0.5),
           "bar.arrive to bar.sync ping-pong, half a round trip as a loop slope",
           text("\"threads\": %d, \"warps_arriving\": %d", threads, a_warps));
  }
  DeviceArray<long long> issue(options.count(500, 32));
  named_arrive_issue<<<1, 64>>>(int(issue.count), issue.data);
  CHECK_KERNEL();
  Samples samples;
  for (long long x : issue.written()) samples.push_back(double(x) / 8);
  report("named_barrier_arrive_issue_cycles", "cycles", samples,
         "stamps round bar.arrive on eight barriers in a row", "\"threads\": 64");
}

// ---- clusters ----------------------------------------------------------------------------------

// Two CTAs on two SMs, one warp each, arriving on each other's barrier.
enum class Scope { cta, cluster };

template <Scope S>
__device__ __forceinline__ void remote_arrive(uint32_t remote_barrier, bool lane_0) {
  if (S == Scope::cta) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n"
        "@p mbarrier.arrive.shared::cluster.b64 _, [%0];\n}" ::"r"(remote_barrier),
        "r"(uint32_t(lane_0))
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n"
        "@p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n}" ::"r"(remote_barrier),
        "r"(uint32_t(lane_0))
        : "memory");
  }
}

template <Scope S>
__device__ __forceinline__ void scoped_wait(uint32_t barrier, uint32_t parity) {
  if (S == Scope::cta) {
    mbarrier_wait(barrier, parity);
  } else {
    asm volatile(
        "{\n.reg .pred done;\nWAIT:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra.uni DONE;\nbra.uni WAIT;\nDONE:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
  }
}

template <Scope S>
__global__ void __cluster_dims__(2, 1, 1) remote_hand_off(int rounds, Window* windows) {
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t rank = cluster_rank(), mine = uniform(shared_address(&barrier));
  const uint32_t theirs = uniform(remote_address(mine, rank ^ 1));
  if (threadIdx.x == 0) {
    mbarrier_init(mine, 1);
    mbarrier_init_fence();
  }
  cluster_sync();
  const long long start = cycles();
  // The same loop on both sides; rank 1 merely waits once before and arrives once after.
  if (rank == 1) scoped_wait<S>(mine, 0);
#pragma unroll 1
  for (uint32_t trip = rank; trip < uint32_t(rounds); ++trip) {
    remote_arrive<S>(theirs, threadIdx.x == 0);
    scoped_wait<S>(mine, trip & 1);
  }
  if (rank == 1) remote_arrive<S>(theirs, threadIdx.x == 0);
  record(windows, start, cycles());
  cluster_sync();
}

__global__ void __cluster_dims__(2, 1, 1) cluster_barriers(int rounds, Window* windows) {
  cluster_sync();
  const long long start = cycles();
  for (int round = 0; round < rounds; ++round) cluster_sync();
  record(windows, start, cycles());
}

void measure_clusters(const Options& options) {
  // The two SMs have their own counters: only the leader CTA's window counts.
  auto leader_slope = [&](auto kernel, int threads) {
    DeviceArray<Window> windows(2 * threads / 32);
    auto launch = [&](int rounds) {
      windows.poison();
      kernel<<<2, threads>>>(rounds, windows.data);
      CHECK_KERNEL();
      std::vector<Window> all = windows.host();
      all.resize(threads / 32);
      return elapsed_cycles(all);
    };
    return slope(launch, 64, options.count(2048, 256), options.count(9, 2));
  };
  const char* method = "ping-pong between the CTAs of a cluster, half a round trip as a loop slope";
  report("cluster_remote_arrive_cycles", "cycles",
         scaled(leader_slope(remote_hand_off<Scope::cta>, 32), 0.5), method,
         "\"lanes\": 1, \"semantics\": \"default (CTA scope)\"");
  report("cluster_remote_arrive_release_cycles", "cycles",
         scaled(leader_slope(remote_hand_off<Scope::cluster>, 32), 0.5), method,
         "\"lanes\": 1, \"semantics\": \"release.cluster, acquire.cluster\"");
  report("cluster_barrier_cycles", "cycles", leader_slope(cluster_barriers, 128),
         "barrier.cluster arrive and wait, slope", "\"ctas\": 2, \"threads_per_cta\": 128");
}

// ---- stamps ------------------------------------------------------------------------------------

// What a stamp costs: two in a row.
__global__ void stamp_pair(int rounds, long long* apart) {
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const long long before = cycles(), after = cycles();
    if (threadIdx.x == 0) apart[round] = after - before;
  }
}

void measure_stamps(const Options& options) {
  DeviceArray<long long> apart(options.count(500, 32));
  stamp_pair<<<1, 32>>>(int(apart.count), apart.data);
  CHECK_KERNEL();
  Samples samples;
  for (long long x : apart.written()) samples.push_back(double(x));
  report("clock_stamp_pair_cycles", "cycles", samples, "two reads of clock64 in a row");
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  measure_stamps(options);
  measure_hand_offs(options);
  measure_instructions(options);
  measure_named_barriers(options);
  measure_clusters(options);
}
