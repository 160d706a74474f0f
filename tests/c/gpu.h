/* The runtime of either vendor: with FOR_HIP its names begin with hip. */
#ifndef GPU_H
#define GPU_H

#include <dlfcn.h>

#include "check.h"

#ifdef FOR_HIP
#define GPU(name) hip##name
#define DRIVER_LIBRARY "libamdhip64.so.7"
#else
#define GPU(name) cuda##name
#define DRIVER_LIBRARY "libcuda.so.1"
#endif

int GPU(Malloc)(void **, size_t);
int GPU(Free)(void *);
int GPU(Memcpy)(void *, const void *, size_t, int);
int GPU(Memset)(void *, int, size_t);
int GPU(MemGetInfo)(size_t *, size_t *);
int GPU(GetDevice)(int *);
int GPU(SetDevice)(int);
int GPU(DeviceSynchronize)(void);
int GPU(DeviceEnablePeerAccess)(int, unsigned);
int GPU(DeviceDisablePeerAccess)(int);
int GPU(IpcGetMemHandle)(void *, void *);
int GPU(StreamCreate)(void **);
int GPU(StreamDestroy)(void *);
int GPU(StreamBeginCapture)(void *, int);
int GPU(StreamBeginCaptureToGraph)(void *, void *, const void *, const void *, size_t, int);
int GPU(StreamEndCapture)(void *, void **);
int GPU(StreamIsCapturing)(void *, int *);
int GPU(GraphCreate)(void **, unsigned);
int GPU(GraphDestroy)(void *);
int GPU(GetLastError)(void);
int GPU(PeekAtLastError)(void);

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3 };
enum { TO_DEVICE = 1, TO_HOST = 2 };
enum { GRANULE = 2 << 20, MIB = 1 << 20 };

UNUSED static size_t free_bytes(void) {
    size_t now, total;
    OK(GPU(MemGetInfo)(&now, &total));
    return now;
}

UNUSED static void *allocate(size_t bytes) {
    void *block = NULL;
    OK(GPU(Malloc)(&block, bytes));
    HOLDS(block != NULL);
    return block;
}

UNUSED static void fill(void *block, int byte, size_t bytes) {
    OK(GPU(Memset)(block, byte, bytes));
}

UNUSED static void expect_at(const void *block, int byte, size_t bytes, const char *file, int line) {
    unsigned char *back = malloc(bytes);
    is(GPU(Memcpy)(back, block, bytes, TO_HOST), 0, "the copy", file, line);
    for (size_t i = 0; i < bytes; i++) is(back[i], byte, "a byte", file, line);
    free(back);
}

#define EXPECT(block, byte, bytes) expect_at(block, byte, bytes, __FILE__, __LINE__)

UNUSED static void *driver(const char *name) {
    void *library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s in %s\n", name, DRIVER_LIBRARY);
        _exit(3);
    }
    return found;
}

/* How often the stand-in's function was called. */
UNUSED static long long calls(const char *name) {
    uint64_t (*count)(const char *) = driver("double_calls");
    return (long long)count(name);
}

/* How often memory that can be paused was made or unmade. */
UNUSED static long long virtual_calls(void) {
#ifdef FOR_HIP
    static const char *const names[] = {
        "hipMemAddressReserve", "hipMemAddressFree", "hipMemCreate", "hipMemRelease", "hipMemMap",
        "hipMemUnmap", "hipMemSetAccess", "hipMemGetAllocationGranularity",
    };
#else
    static const char *const names[] = {
        "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap",
        "cuMemUnmap", "cuMemSetAccess", "cuMemGetAllocationGranularity",
    };
#endif
    long long all = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) all += calls(names[i]);
    return all;
}

#endif
