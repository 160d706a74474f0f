/* A driver library with no device behind it: it counts calls, keeps each thread's current context
 * and capture mode, and answers as the variables below say. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int Code;
typedef atomic_int Number;
#define DEVICES 4

/* Answers. */
Number init_result, device_count = 2, has_vmm = 1, has_rdma = 1, peers = 1, create_result;
Number reserve_result, register_result, record_result, synchronize_result, synchronize_ms;
Number events_pending, capture_status, stream_result, get_current_result, exchange_result;
Number active_elsewhere[DEVICES];

/* Counts. */
Number retains, releases, events_created, events_destroyed, records, queries, synchronizations;
Number unmaps, reserves, frees, creates, handle_releases, copies, accesses;
Number streams, waits, registrations;
/* Calls that came in the wrong context, and calls that would have broken a capture. */
Number wrong_context, not_relaxed;

/* What the last call was given. */
uint32_t last_properties[8];
Number last_access_count, last_record_device, last_context_device = -1;
static uint32_t rights[DEVICES];
static Number held[DEVICES];
static char contexts[DEVICES];

static _Thread_local void *current;
static _Thread_local unsigned mode;

static int device_of(void *context) { return context ? (int)((char *)context - contexts) : -1; }
static void relaxed(void) { if (mode != 2) not_relaxed++; }
static void in_context(void *stream) {
    if (device_of(current) != (int)((uintptr_t)stream >> 8)) wrong_context++;
}

Code cuInit(unsigned flags) { return flags ? 1 : init_result; }
Code cuDriverGetVersion(int *version) { *version = 12040; return 0; }
Code cuGetErrorName(unsigned code, const char **text) {
    *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *text ? 0 : 1;
}
Code cuGetErrorString(unsigned code, const char **text) {
    *text = code == 2 ? "out of memory" : NULL;
    return *text ? 0 : 1;
}
Code cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
Code cuDeviceGetCount(int *count) { *count = device_count; return 0; }
Code cuDeviceGetName(char *name, int length, int device) {
    strncpy(name, "Stand-in GPU", length);
    return 0;
}
Code cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1 << 30; return 0; }
Code cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 102 ? has_vmm : attribute == 110 ? has_rdma : -1;
    return 0;
}
Code cuDeviceCanAccessPeer(int *can, int from, int to) { *can = peers; return 0; }

Code cuDevicePrimaryCtxRetain(void **context, int device) {
    relaxed();
    retains++;
    held[device]++;
    *context = &contexts[device];
    return 0;
}
Code cuDevicePrimaryCtxRelease_v2(int device) { releases++; held[device]--; return 0; }
Code cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = held[device] > 0 || active_elsewhere[device];
    return 0;
}
Code cuCtxGetCurrent(void **context) {
    if (!get_current_result) *context = current;
    return get_current_result;
}
Code cuCtxSetCurrent(void *context) { current = context; return 0; }
Code cuCtxSynchronize(void) {
    synchronizations++;
    relaxed();
    if (!current) return 201;
    struct timespec time = {synchronize_ms / 1000, synchronize_ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
    return synchronize_result;
}
Code cuThreadExchangeStreamCaptureMode(unsigned *other) {
    if (exchange_result) return exchange_result;
    unsigned mine = mode;
    mode = *other;
    *other = mine;
    return 0;
}

Code cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (!current) return 201;
    last_context_device = device_of(current);
    *free = 1 << 29;
    *total = 1 << 30;
    return 0;
}
Code cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    memcpy(last_properties, properties, sizeof last_properties);
    *bytes = option == 1 ? 2 << 20 : 1 << 16;
    return 0;
}
Code cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wish, uint64_t flags) {
    static atomic_ullong next = 1ull << 40;
    last_context_device = device_of(current);
    if (alignment || wish || flags) return 1;
    if (reserve_result) return reserve_result;
    reserves++;
    *address = atomic_fetch_add(&next, size);
    return 0;
}
Code cuMemAddressFree(uint64_t address, size_t size) { frees++; return 0; }
Code cuMemCreate(uint64_t *handle, size_t size, const void *properties, uint64_t flags) {
    memcpy(last_properties, properties, sizeof last_properties);
    last_context_device = device_of(current);
    if (create_result) return create_result;
    *handle = 77 + creates++;
    return 0;
}
Code cuMemRelease(uint64_t handle) { handle_releases++; return 0; }
#ifndef WITHOUT_MAP
Code cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags) {
    memset(rights, 0, sizeof rights);
    return offset || flags;
}
#endif
Code cuMemUnmap(uint64_t address, size_t size) { unmaps++; return 0; }
Code cuMemSetAccess(uint64_t address, size_t size, const uint32_t *descriptors, size_t count) {
    accesses++;
    last_access_count = (int)count;
    for (size_t i = 0; i < count; i++) rights[descriptors[3 * i + 1]] = descriptors[3 * i + 2];
    return 0;
}
Code cuMemGetAccess(uint64_t *flags, const uint32_t *location, uint64_t address) {
    *flags = rights[location[1]];
    return 0;
}

/* A stream's number says its device. */
Code cuStreamCreate(void **stream, unsigned flags) {
    relaxed();
    if (!current || flags != 1) return 1;
    *stream = (void *)((uintptr_t)device_of(current) << 8 | 4);
    streams++;
    return 0;
}
Code cuStreamDestroy_v2(void *stream) {
    streams--;
    relaxed();
    in_context(stream);
    return 0;
}
Code cuStreamSynchronize(void *stream) {
    waits++;
    relaxed();
    in_context(stream);
    return stream_result;
}
Code cuStreamIsCapturing(void *stream, unsigned *status) { *status = capture_status; return 0; }
Code cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
    copies++;
    in_context(stream);
    memset(to, 7, size);
    return 0;
}
Code cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
    copies++;
    in_context(stream);
    return 0;
}
Code cuMemsetD8Async(uint64_t at, unsigned char byte, size_t size, void *stream) {
    copies++;
    in_context(stream);
    return 0;
}
Code cuMemHostRegister_v2(void *at, size_t size, unsigned flags) {
    relaxed();
    if (!current || flags != 1) return 1;
    if (!register_result) registrations++;
    return register_result;
}
Code cuMemHostUnregister(void *at) {
    relaxed();
    if (!current) return 1;
    registrations--;
    return 0;
}

Code cuEventCreate(void **event, unsigned flags) {
    if (!current || flags != 2) return 1;
    *event = (void *)(uintptr_t)(100 + events_created++);
    return 0;
}
Code cuEventQuery(void *event) { queries++; relaxed(); return events_pending ? 600 : 0; }
Code cuEventDestroy_v2(void *event) { events_destroyed++; return 0; }
#ifndef WITHOUT_RECORD
Code cuCtxRecordEvent(void *context, void *event) {
    records++;
    if (context != current) wrong_context++;
    last_record_device = device_of(context);
    return record_result;
}
#endif
