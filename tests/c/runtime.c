/* A program of the CUDA runtime: allocates, fills, copies there and back, frees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMallocHost(void **, size_t);
int cudaFreeHost(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
int cudaMemset(void *, int, size_t);
int cudaMemGetInfo(size_t *, size_t *);
int cudaStreamCreate(void **);
int cudaStreamSynchronize(void *);
int cudaStreamDestroy(void *);
int cudaDeviceSynchronize(void);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int);

static void is(int have, int want, const char *what) {
    if (have != want) {
        fprintf(stderr, "%s: %d (%s), not %d\n", what, have, cudaGetErrorName(have), want);
        exit(1);
    }
}

#define OK(call) is(call, 0, #call)

int main(void) {
    enum { BYTES = 3000000 };
    size_t before, now, total;
    void *at, *host, *stream, *nothing = &at;
    unsigned char *back = malloc(BYTES);

    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&nothing, 0));
    is(nothing != NULL, 0, "no bytes");
    OK(cudaFree(NULL));
    OK(cudaMalloc(&at, BYTES));
    OK(cudaMemGetInfo(&now, &total));
    is(now < before, 1, "free bytes fell");
    OK(cudaMemset(at, 0x5A, BYTES));
    OK(cudaMemcpy(back, at, BYTES, 2));
    for (int i = 0; i < BYTES; i++) is(back[i], 0x5A, "a byte");

    OK(cudaMallocHost(&host, BYTES));
    OK(cudaStreamCreate(&stream));
    memset(host, 7, BYTES);
    OK(cudaMemcpyAsync(at, host, BYTES, 1, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    OK(cudaMemcpy(back, at, BYTES, 4));
    is(memcmp(back, host, BYTES), 0, "what came back");
    OK(cudaFreeHost(host));

    is(cudaFree(back), 1, "free of what was not allocated");
    is(cudaPeekAtLastError(), 1, "the last error");
    is(cudaGetLastError(), 1, "the last error");
    OK(cudaGetLastError());
    OK(cudaFree(at));
    OK(cudaDeviceSynchronize());
    OK(cudaMemGetInfo(&now, &total));
    is(now == before, 1, "free bytes rose");
    free(back);
    puts("all is well");
    return 0;
}
