// CUB's own algorithms, and a product of a thread for each row, timed by CUDA events around calls.
//
// Every function takes the arrays that it reads, the one that it writes, how many elements and how
// many segments there are, how many calls to time (in place of which it puts how many it has timed)
// and where to put the milliseconds of each. It returns a cudaError_t.

#include <algorithm>
#include <vector>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <cub/device/device_select.cuh>
#include <cuda/std/functional>
#include <thrust/iterator/counting_iterator.h>

namespace {

constexpr long long kBusy = 4'000'000;  // cycles, some two milliseconds, in which calls are queued
constexpr float kLongest = 200.0f;      // milliseconds of all calls together

__global__ void busy(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

struct Storage {
  void* pointer = nullptr;
  Storage() = default;
  Storage(const Storage&) = delete;
  cudaError_t allocate(size_t bytes) { return cudaMalloc(&pointer, std::max<size_t>(bytes, 1)); }
  ~Storage() { cudaFree(pointer); }
};

struct Interval {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Interval() {
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
  }
  Interval(const Interval&) = delete;
  ~Interval() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  template <class Call>
  cudaError_t around(Call call) {
    cudaEventRecord(begin);
    const cudaError_t status = call();
    cudaEventRecord(end);
    return status;
  }
  cudaError_t milliseconds(float* found) {
    cudaEventSynchronize(end);
    return cudaEventElapsedTime(found, begin, end);
  }
};

// `call` is a CUB algorithm of temporary storage and its size, which it tells where there is none.
template <class Call>
int timed(Call call, int* calls, float* milliseconds) {
  size_t bytes = 0;
  Storage storage;
  if (auto status = call(nullptr, bytes)) return status;
  if (auto status = storage.allocate(bytes)) return status;
  const auto run = [&] { return call(storage.pointer, bytes); };

  float first = 0.0f;
  Interval warm_up;
  if (auto status = run()) return status;
  if (auto status = warm_up.around(run)) return status;
  if (auto status = warm_up.milliseconds(&first)) return status;
  const int affordable = static_cast<int>(kLongest / std::max(first, 1e-3f));
  *calls = std::max(1, std::min(*calls, affordable));

  std::vector<Interval> intervals(*calls);
  busy<<<1, 1>>>(kBusy);
  for (auto& interval : intervals) {
    if (auto status = interval.around(run)) return status;
  }
  for (int i = 0; i < *calls; ++i) {
    if (auto status = intervals[i].milliseconds(milliseconds + i)) return status;
  }
  return cudaDeviceSynchronize();
}

template <class T>
int inclusive_sum(const void* const* in, void* out, int n, int* calls, float* milliseconds) {
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceScan::InclusiveSum(
            storage, bytes, static_cast<const T*>(in[0]), static_cast<T*>(out), n);
      },
      calls, milliseconds);
}

template <class T>
int sum(const void* const* in, void* out, int n, int* calls, float* milliseconds) {
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceReduce::Sum(
            storage, bytes, static_cast<const T*>(in[0]), static_cast<T*>(out), n);
      },
      calls, milliseconds);
}

// What `in` selects by flags, which are the operand behind it; the number of them is thrown away.
template <class Input, class T>
int select(Input in, const void* flags, T* out, int n, int* calls, float* milliseconds) {
  Storage selected;
  if (auto status = selected.allocate(sizeof(int))) return status;
  return timed(
      [=, &selected](void* storage, size_t& bytes) {
        return cub::DeviceSelect::Flagged(storage, bytes, in, static_cast<const bool*>(flags), out,
                                          static_cast<int*>(selected.pointer), n);
      },
      calls, milliseconds);
}

constexpr int kBlock = 256;

__global__ void multiply_rows(const float* values, const int* columns, const int* offsets,
                              const float* x, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = offsets[row]; i < offsets[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

}  // namespace

#define EXPORT(name) \
  extern "C" int name(const void* const* in, void* out, int n, int segments, int* calls, \
                      float* milliseconds)

EXPORT(InclusiveSum_float32) { return inclusive_sum<float>(in, out, n, calls, milliseconds); }
EXPORT(InclusiveSum_float64) { return inclusive_sum<double>(in, out, n, calls, milliseconds); }
EXPORT(InclusiveSum_int32) { return inclusive_sum<int>(in, out, n, calls, milliseconds); }
EXPORT(Sum_float32) { return sum<float>(in, out, n, calls, milliseconds); }

// Reads values and their keys.
EXPORT(InclusiveSumByKey_float32) {
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceScan::InclusiveSumByKey(
            storage, bytes, static_cast<const int*>(in[1]), static_cast<const float*>(in[0]),
            static_cast<float*>(out), n);
      },
      calls, milliseconds);
}

// Reads values and their keys; the keys of the results and their number are thrown away.
EXPORT(ReduceByKey_float32) {
  Storage keys, runs;
  if (auto status = keys.allocate(sizeof(int) * static_cast<size_t>(segments))) return status;
  if (auto status = runs.allocate(sizeof(int))) return status;
  return timed(
      [=, &keys, &runs](void* storage, size_t& bytes) {
        return cub::DeviceReduce::ReduceByKey(
            storage, bytes, static_cast<const int*>(in[1]), static_cast<int*>(keys.pointer),
            static_cast<const float*>(in[0]), static_cast<float*>(out),
            static_cast<int*>(runs.pointer), ::cuda::std::plus<>{}, n);
      },
      calls, milliseconds);
}

// Reads values and the offsets of segments, of which there is one more than segments.
EXPORT(SegmentedSum_float32) {
  const auto offsets = static_cast<const int*>(in[1]);
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceSegmentedReduce::Sum(
            storage, bytes, static_cast<const float*>(in[0]), static_cast<float*>(out), segments,
            offsets, offsets + 1);
      },
      calls, milliseconds);
}

// Reads values and flags.
EXPORT(Select_float32) {
  return select(static_cast<const float*>(in[0]), in[1], static_cast<float*>(out), n, calls,
                milliseconds);
}

// Reads flags.
EXPORT(SelectPlaces_int32) {
  return select(thrust::counting_iterator<int>(0), in[0], static_cast<int*>(out), n, calls,
                milliseconds);
}

// Lengths and the number of runs are thrown away; there are at most as many as segments.
EXPORT(RunLengthEncode_int32) {
  Storage lengths, runs;
  if (auto status = lengths.allocate(sizeof(int) * static_cast<size_t>(segments))) return status;
  if (auto status = runs.allocate(sizeof(int))) return status;
  return timed(
      [=, &lengths, &runs](void* storage, size_t& bytes) {
        return cub::DeviceRunLengthEncode::Encode(
            storage, bytes, static_cast<const int*>(in[0]), static_cast<int*>(out),
            static_cast<int*>(lengths.pointer), static_cast<int*>(runs.pointer), n);
      },
      calls, milliseconds);
}

EXPORT(Unique_int32) {
  Storage selected;
  if (auto status = selected.allocate(sizeof(int))) return status;
  return timed(
      [=, &selected](void* storage, size_t& bytes) {
        return cub::DeviceSelect::Unique(storage, bytes, static_cast<const int*>(in[0]),
                                         static_cast<int*>(out),
                                         static_cast<int*>(selected.pointer), n);
      },
      calls, milliseconds);
}

EXPORT(Histogram_int32) {
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceHistogram::HistogramEven(storage, bytes,
                                                   static_cast<const int*>(in[0]),
                                                   static_cast<int*>(out), segments + 1, 0,
                                                   segments, n);
      },
      calls, milliseconds);
}

// Reads keys and the offsets of segments.
EXPORT(SegmentedSort_float32) {
  const auto offsets = static_cast<const int*>(in[1]);
  return timed(
      [=](void* storage, size_t& bytes) {
        return cub::DeviceSegmentedSort::SortKeys(
            storage, bytes, static_cast<const float*>(in[0]), static_cast<float*>(out), n,
            segments, offsets, offsets + 1);
      },
      calls, milliseconds);
}

// Reads values, columns, offsets of rows and a vector: what is no algorithm of CUB.
EXPORT(ThreadPerRow_float32) {
  return timed(
      [=](void* storage, size_t& bytes) {
        if (storage == nullptr) {
          bytes = 0;
          return cudaSuccess;
        }
        multiply_rows<<<(segments + kBlock - 1) / kBlock, kBlock>>>(
            static_cast<const float*>(in[0]), static_cast<const int*>(in[1]),
            static_cast<const int*>(in[2]), static_cast<const float*>(in[3]),
            static_cast<float*>(out), segments);
        return cudaGetLastError();
      },
      calls, milliseconds);
}

extern "C" const char* explain(int status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}
