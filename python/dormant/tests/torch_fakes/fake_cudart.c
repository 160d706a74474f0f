/* A stand-in for libcudart.so, for tests: "device memory" is mapped pages, one thread at a time. */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, BLOCKS = 4096, DEVICES = 8 };

static struct {
    void *address;
    size_t bytes;
    int device;
} blocks[BLOCKS];
static uint64_t taken[DEVICES];
static _Thread_local int current;

int cudaGetDevice(int *device) {
    *device = current;
    return OK;
}

int cudaSetDevice(int device) {
    current = device;
    return OK;
}

int cudaMalloc(void **place, size_t bytes) {
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        return OUT_OF_MEMORY;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (!blocks[i].address) {
            blocks[i].address = address;
            blocks[i].bytes = bytes;
            blocks[i].device = current;
            taken[current] += bytes;
            *place = address;
            return OK;
        }
    }
    return OUT_OF_MEMORY;
}

int cudaFree(void *address) {
    if (!address) {
        return OK;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].address == address) {
            munmap(address, blocks[i].bytes);
            taken[blocks[i].device] -= blocks[i].bytes;
            blocks[i].address = NULL;
            return OK;
        }
    }
    return INVALID_VALUE;
}

int cudaThreadExchangeStreamCaptureMode(int *mode) {
    (void)mode;
    return OK;
}

uint64_t fake_foreign_bytes(int device) { return taken[device]; }
