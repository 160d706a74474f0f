/* Case F1: blocks A and B in a pausable region; write B; pause all; free A; resume all; read and
 * write B; free B. Whatever saver is preloaded is driven by its C symbols. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemset(void *, int, size_t);
int cudaMemGetInfo(size_t *, size_t *);
int cudaDeviceSynchronize(void);
const char *cudaGetErrorString(int);

static void is(int have, int want, const char *what) {
    if (have != want) {
        fprintf(stderr, "%s: %d, not %d\n", what, have, want);
        exit(2);
    }
}

#define OK(call) is(call, 0, #call)

static void *saver(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        fprintf(stderr, "nothing that is preloaded has %s\n", name);
        exit(3);
    }
    return found;
}

static void expect(void *block, int byte, size_t bytes, unsigned char *back) {
    OK(cudaMemcpy(back, block, bytes, 2));
    for (size_t i = 0; i < bytes; i++) is(back[i], byte, "a byte");
}

int main(void) {
    enum { BYTES = 4 << 20 };
    void (*set_region)(bool) = saver("tms_set_interesting_region");
    void (*set_tag)(const char *) = saver("tms_set_current_tag");
    void (*set_backup)(bool) = saver("tms_set_enable_cpu_backup");
    int (*pause_all)(const char *) = saver("tms_pause");
    int (*resume_all)(const char *) = saver("tms_resume");
    unsigned char *back = malloc(BYTES);
    size_t start, now, total;
    void *a, *b;

    OK(cudaDeviceSynchronize());
    OK(cudaMemGetInfo(&start, &total));
    set_tag("default");
    set_backup(true);
    /* It stays on, as for a process that is pausable as a whole: the saver of the failure takes a
     * free outside a region for one of foreign memory. */
    set_region(true);
    OK(cudaMalloc(&a, BYTES));
    OK(cudaMalloc(&b, BYTES));
    OK(cudaMemset(b, 0x42, BYTES));

    puts("pause");
    fflush(stdout);
    pause_all(NULL);
    OK(cudaMemGetInfo(&now, &total));
    is(now == start, 1, "free bytes while paused");
    puts("free A");
    fflush(stdout);
    OK(cudaFree(a));
    puts("resume");
    fflush(stdout);
    resume_all(NULL);
    OK(cudaMemGetInfo(&now, &total));
    is(start - now == BYTES, 1, "A's bytes stay away");
    expect(b, 0x42, BYTES, back);
    OK(cudaMemset(b, 0x24, BYTES));
    expect(b, 0x24, BYTES, back);
    puts("free B");
    fflush(stdout);
    OK(cudaFree(b));
    OK(cudaMemGetInfo(&now, &total));
    is(now == start, 1, "free bytes at the end");
    puts("all is well");
    return 0;
}
