/* A HIP runtime with no device behind it: it keeps books of ranges, handles and mappings, counts
 * calls, keeps each thread's current device, capture mode and last error, and answers as the
 * variables below say. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int Code;
typedef atomic_int Number;
#define DEVICES 4
#define PIECES 64
#define GRANULE (2 << 20)

/* Answers. */
Number init_result, version = 70253211, device_count = 2, count_result, has_vmm = 1, peers = 1;
Number create_result, reserve_result, free_result, register_result, synchronize_result;
/* How long each device is busy; may be cut short meanwhile. */
Number synchronize_ms[DEVICES];
Number capture_status, stream_result, unmap_result, access_result, get_access_result;
Number get_device_result, exchange_result;
/* Where released memory stays until the range is gone: never, always, every other time. */
Number keeps;
/* What one unmap over two mappings does: works, is refused, takes the first alone. */
Number joined;
/* A range that is reserved again: elsewhere, or not at all. */
Number elsewhere, wish_result;
/* How long a virtual memory call takes. */
Number slow_us;

/* Counts. */
Number reserves, frees, creates, handle_releases, maps, unmaps, accesses, copies, streams, readings;
Number synchronizations, handle_bytes_mib, waits, registrations;
/* Calls with the wrong device current, calls that might have broken a capture, and virtual memory
 * calls that came while another was under way. */
Number wrong_device, not_relaxed, overlaps;

/* What the last call was given. */
uint32_t last_properties[8];
Number last_access_count, last_host_access = -1, last_device = -1, last_register_device = -1;
static uint32_t rights[DEVICES];

typedef struct { uint64_t address; size_t size; int handle; } Piece;
typedef struct { uint64_t address; size_t size, kept; } Kept;
static Piece pieces[PIECES];
static Kept ranges[PIECES];
static struct { size_t size; uint64_t mapped_at; int released; } handles[4096];
static size_t used;
static uint64_t next_address = 1ull << 40;

static _Thread_local int current;
static _Thread_local unsigned mode;
static _Thread_local Code last_error;
static atomic_int inside;

static Code answer(Code code) { if (code) last_error = code; return code; }
static void relaxed(void) { if (mode != 2) not_relaxed++; }
static void on(int device) { if (current != device) wrong_device++; }
static Code done(Code code) { inside--; return answer(code); }
static void begin(void) {
    if (inside++) overlaps++;
    relaxed();
    last_device = current;
    if (slow_us) {
        struct timespec time = {0, slow_us * 1000L};
        nanosleep(&time, NULL);
    }
}

Code hipInit(unsigned flags) { return answer(flags ? 1 : init_result); }
Code hipRuntimeGetVersion(int *number) { *number = version; return 0; }
const char *hipGetErrorName(Code code) {
    return code == 2 ? "hipErrorOutOfMemory" : code == 700 ? "hipErrorIllegalAddress" : "hipErrorUnknown";
}
const char *hipGetErrorString(Code code) { return code == 2 ? "out of memory" : "unknown error"; }
Code hipGetLastError(void) { Code code = last_error; last_error = 0; return code; }
Code hipPeekAtLastError(void) { return last_error; }

Code hipGetDeviceCount(int *count) { *count = device_count; return answer(count_result); }
Code hipDeviceGetName(char *name, int length, int device) {
    strncpy(name, "Stand-in GPU", length);
    return 0;
}
Code hipDeviceTotalMem(size_t *bytes, int device) { *bytes = 1 << 30; return 0; }
Code hipDeviceGetAttribute(int *value, unsigned attribute, int device) {
    *value = attribute == 89 ? has_vmm : -1;
    return 0;
}
Code hipDeviceCanAccessPeer(int *can, int from, int to) { *can = peers; return 0; }

Code hipGetDevice(int *device) {
    if (!get_device_result) *device = current;
    return answer(get_device_result);
}
Code hipSetDevice(int device) {
    if (device < 0 || device >= device_count) return answer(101);
    current = device;
    return 0;
}
Code hipDeviceSynchronize(void) {
    synchronizations++;
    relaxed();
    last_device = current;
    struct timespec time = {0, 1000000L};
    for (int waited = 0; waited < synchronize_ms[current]; waited++) nanosleep(&time, NULL);
    return answer(synchronize_result);
}
Code hipThreadExchangeStreamCaptureMode(unsigned *other) {
    if (exchange_result) return answer(exchange_result);
    unsigned mine = mode;
    mode = *other;
    *other = mine;
    return 0;
}

Code hipMemGetInfo(size_t *free, size_t *total) {
    readings++;
    relaxed();
    last_device = current;
    *free = (1 << 30) - used;
    *total = 1 << 30;
    return 0;
}
Code hipMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    memcpy(last_properties, properties, sizeof last_properties);
    last_device = current;
    *bytes = option == 1 ? GRANULE : 1 << 12;
    return 0;
}
Code hipMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wish, uint64_t flags) {
    begin();
    if (alignment || flags) return done(1);
    if (size % GRANULE) return done(2);
    if (wish && wish_result) return done(wish_result);
    if (!wish && reserve_result) return done(reserve_result);
    for (int i = 0; i < PIECES; i++) if (!ranges[i].size) {
        *address = wish && !elsewhere ? wish : next_address;
        if (*address == next_address) next_address += size;
        ranges[i] = (Kept){*address, size, 0};
        reserves++;
        return done(0);
    }
    return done(2);
}
Code hipMemAddressFree(uint64_t address, size_t size) {
    begin();
    if (free_result) return done(free_result);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].size && pieces[i].address >= address && pieces[i].address < address + size)
            return done(999);
    for (int i = 0; i < PIECES; i++) if (ranges[i].address == address && ranges[i].size == size) {
        used -= ranges[i].kept;
        ranges[i].size = 0;
        frees++;
        return done(0);
    }
    return done(1);
}
Code hipMemCreate(uintptr_t *handle, size_t size, const uint32_t *properties, uint64_t flags) {
    begin();
    memcpy(last_properties, properties, sizeof last_properties);
    on((int)properties[3]);
    if (create_result) return done(create_result);
    if (size % GRANULE) return done(1);
    int number = ++creates;
    handles[number].size = size;
    used += size;
    handle_bytes_mib += size >> 20;
    *handle = number;
    return done(0);
}
Code hipMemRelease(uintptr_t handle) {
    begin();
    handle_releases++;
    if (handles[handle].released++) return done(1);
    handle_bytes_mib -= handles[handle].size >> 20;
    if (keeps == 1 || (keeps == 2 && handle_releases % 2)) {
        for (int i = 0; i < PIECES; i++)
            if (ranges[i].size && handles[handle].mapped_at >= ranges[i].address &&
                handles[handle].mapped_at < ranges[i].address + ranges[i].size)
                ranges[i].kept += handles[handle].size;
    } else {
        used -= handles[handle].size;
    }
    return done(0);
}
#ifndef WITHOUT_MAP
Code hipMemMap(uint64_t address, size_t size, size_t offset, uintptr_t handle, uint64_t flags) {
    begin();
    maps++;
    memset(rights, 0, sizeof rights);
    if (offset || flags || size != handles[handle].size) return done(1);
    handles[handle].mapped_at = address;
    for (int i = 0; i < PIECES; i++) if (!pieces[i].size) {
        pieces[i] = (Piece){address, size, (int)handle};
        return done(0);
    }
    return done(2);
}
#endif
Code hipMemUnmap(uint64_t address, size_t size) {
    begin();
    unmaps++;
    if (unmap_result) return done(unmap_result);
    int found = 0;
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].size && pieces[i].address >= address && pieces[i].address < address + size)
            found++;
    if (!found || (found > 1 && joined == 1)) return done(1);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].size && pieces[i].address >= address && pieces[i].address < address + size)
            if (joined != 2 || pieces[i].address == address) pieces[i].size = 0;
    return done(0);
}
Code hipMemSetAccess(uint64_t address, size_t size, const uint32_t *descriptors, size_t count) {
    begin();
    accesses++;
    if (access_result) return done(access_result);
    last_access_count = (int)count;
    last_host_access = -1;
    for (size_t i = 0; i < count; i++)
        if (descriptors[3 * i] == 1) rights[descriptors[3 * i + 1]] = descriptors[3 * i + 2];
        else last_host_access = (int)descriptors[3 * i + 1];
    return done(0);
}
Code hipMemGetAccess(uint64_t *flags, const uint32_t *location, uint64_t address) {
    *flags = rights[location[1]];
    return answer(get_access_result);
}

/* A stream's number says its device. */
Code hipStreamCreateWithFlags(uintptr_t *stream, unsigned flags) {
    relaxed();
    if (flags != 1) return answer(1);
    *stream = (uintptr_t)current << 8 | 4;
    streams++;
    return 0;
}
static void queue(uintptr_t stream) { relaxed(); on((int)(stream >> 8)); }
Code hipStreamDestroy(uintptr_t stream) { queue(stream); streams--; return 0; }
Code hipStreamSynchronize(uintptr_t stream) {
    waits++;
    queue(stream);
    return answer(stream_result);
}
Code hipStreamIsCapturing(uintptr_t stream, unsigned *status) {
    queue(stream);
    *status = capture_status;
    return 0;
}
Code hipMemcpyDtoHAsync(void *to, uint64_t from, size_t size, uintptr_t stream) {
    copies++;
    queue(stream);
    memset(to, 7, size);
    return 0;
}
Code hipMemcpyHtoDAsync(uint64_t to, const void *from, size_t size, uintptr_t stream) {
    copies++;
    queue(stream);
    return 0;
}
Code hipMemsetD8Async(uint64_t at, unsigned char byte, size_t size, uintptr_t stream) {
    copies++;
    queue(stream);
    return 0;
}
Code hipHostRegister(void *at, size_t size, unsigned flags) {
    relaxed();
    last_register_device = current;
    if (flags == 1 && !register_result) registrations++;
    return answer(flags == 1 ? register_result : 1);
}
Code hipHostUnregister(void *at) { relaxed(); registrations--; return 0; }
