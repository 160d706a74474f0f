/* Case F1: blocks A and B in a pausable region; write B; pause all; free A; resume all; read and
 * write B; free B. Whatever saver is preloaded is driven by its C symbols. */
#include "gpu.h"

static void *saver(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        fprintf(stderr, "nothing that is preloaded has %s\n", name);
        exit(3);
    }
    return found;
}

int main(void) {
    enum { BYTES = 4 << 20 };
    void (*set_region)(bool) = saver("tms_set_interesting_region");
    void (*set_tag)(const char *) = saver("tms_set_current_tag");
    void (*set_backup)(bool) = saver("tms_set_enable_cpu_backup");
    int (*pause_all)(const char *) = saver("tms_pause");
    int (*resume_all)(const char *) = saver("tms_resume");
    size_t start;
    void *a, *b;

    OK(GPU(DeviceSynchronize)());
    start = free_bytes();
    set_tag("default");
    set_backup(true);
    /* It stays on, as for a process that is pausable as a whole: the saver of the failure takes a
     * free outside a region for one of foreign memory. */
    set_region(true);
    a = allocate(BYTES);
    b = allocate(BYTES);
    fill(b, 0x42, BYTES);

    puts("pause");
    fflush(stdout);
    pause_all(NULL);
    IS(free_bytes(), start);
    puts("free A");
    fflush(stdout);
    OK(GPU(Free)(a));
    puts("resume");
    fflush(stdout);
    resume_all(NULL);
    IS(free_bytes(), start - BYTES); /* A's bytes stay away. */
    EXPECT(b, 0x42, BYTES);
    fill(b, 0x24, BYTES);
    EXPECT(b, 0x24, BYTES);
    puts("free B");
    fflush(stdout);
    OK(GPU(Free)(b));
    IS(free_bytes(), start);
    puts("all is well");
    return 0;
}
