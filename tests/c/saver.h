/* The functions of the saver: those of torch_memory_saver's names as the process has them, and the
 * interface of libdormant.so, which TEST_LIBRARY says the path of. */
#ifndef SAVER_H
#define SAVER_H

#include <dlfcn.h>
#include <sys/types.h>

#include "check.h"

#include "dormant.h"

static struct {
    void (*set_margin)(uint64_t);
    void (*set_region)(bool);
    bool (*get_region)(void);
    void (*set_tag)(const char *);
    const char *(*get_tag)(void);
    void (*set_cpu)(bool);
    bool (*get_cpu)(void);
    void (*set_backend)(const char *);
    const char *(*get_backend)(void);
    void (*set_disk)(bool);
    bool (*get_disk)(void);
    void (*set_directory)(const char *);
    void (*set_retain)(bool);
    bool (*get_retain)(void);
    int (*pause)(const char *);
    int (*resume)(const char *);
    const unsigned char *(*backup)(const void *, uint64_t);
    void *(*torch_malloc)(ssize_t, int, void *);
    void (*torch_free)(void *, ssize_t, int, void *);
} tms UNUSED;

#define DORMANT_FUNCTIONS(X)                                                                        \
    X(last_error) X(last_failures) X(version) X(build) X(configuration) X(configure)            \
    X(region_push) X(region_push_disabled) X(region_pop) X(region_current) X(region_carry)      \
    X(carried_push) X(carried_free) X(allocate) X(free) X(set_margin_bytes) X(margin_bytes)     \
    X(read) X(write) X(find) X(blocks) X(pause) X(resume) X(report_tags) X(report_devices)      \
    X(backend) X(devices) X(device_memory) X(stats) X(tag_stats) X(tag_state) X(backup)         \
    X(backup_release) X(drop_backup) X(trim) X(prepare) X(plan) X(notice_name) X(notice_text)   \
    X(capture_begin) X(capture_end)                                                             \
    X(enable_peer_access) X(disable_peer_access) X(torch_slot) X(torch_free) X(hooks_bound)

#define FIELD(name) __typeof__(&dormant_##name) name;
static struct {
    DORMANT_FUNCTIONS(FIELD)
} dormant UNUSED;

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s is not there\n", name);
        _exit(3);
    }
    return found;
}

UNUSED static void *open_library(const char *path) {
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "%s: %s\n", path ? path : "no path", dlerror());
        _exit(3);
    }
    return library;
}

/* Takes torch_memory_saver's names from a library, or from whichever was preloaded. */
UNUSED static void find_tms_in(void *library) {
    *(void **)&tms.set_margin = symbol(library, "set_memory_margin_bytes");
    *(void **)&tms.set_region = symbol(library, "tms_set_interesting_region");
    *(void **)&tms.get_region = symbol(library, "tms_get_interesting_region");
    *(void **)&tms.set_tag = symbol(library, "tms_set_current_tag");
    *(void **)&tms.get_tag = symbol(library, "tms_get_current_tag");
    *(void **)&tms.set_cpu = symbol(library, "tms_set_enable_cpu_backup");
    *(void **)&tms.get_cpu = symbol(library, "tms_get_enable_cpu_backup");
    *(void **)&tms.set_backend = symbol(library, "tms_set_cpu_backup_backend");
    *(void **)&tms.get_backend = symbol(library, "tms_get_cpu_backup_backend");
    *(void **)&tms.set_disk = symbol(library, "tms_set_enable_disk_backup");
    *(void **)&tms.get_disk = symbol(library, "tms_get_enable_disk_backup");
    *(void **)&tms.set_directory = symbol(library, "tms_set_disk_backup_dir");
    *(void **)&tms.set_retain = symbol(library, "tms_set_retain_cpu_backup");
    *(void **)&tms.get_retain = symbol(library, "tms_get_retain_cpu_backup");
    *(void **)&tms.pause = symbol(library, "tms_pause");
    *(void **)&tms.resume = symbol(library, "tms_resume");
    *(void **)&tms.backup = symbol(library, "tms_get_cpu_backup_pointer");
    *(void **)&tms.torch_malloc = symbol(library, "tms_torch_malloc");
    *(void **)&tms.torch_free = symbol(library, "tms_torch_free");
}

UNUSED static void find_tms(void) {
    find_tms_in(RTLD_DEFAULT);
}

UNUSED static void find_dormant_in(void *library) {
#define FIND(name) *(void **)&dormant.name = symbol(library, "dormant_" #name);
    DORMANT_FUNCTIONS(FIND)
}

UNUSED static void find_dormant(void) {
    find_dormant_in(open_library(getenv("TEST_LIBRARY")));
}

/* A region of raw switches. */
UNUSED static void enter(const char *tag, bool backup) {
    tms.set_tag(tag);
    tms.set_cpu(backup);
    tms.set_region(true);
}

UNUSED static void leave(void) {
    tms.set_region(false);
}

/* A region of dormant's. */
UNUSED static uint64_t push(const char *tag, int policy) {
    DormantRegion region = {.size = sizeof region, .policy = policy, .tag = tag};
    uint64_t entered = 0;
    OK(dormant.region_push(&region, &entered));
    HOLDS(entered != 0);
    return entered;
}

UNUSED static uint64_t push_disabled(void) {
    uint64_t entered = 0;
    OK(dormant.region_push_disabled(&entered));
    return entered;
}

UNUSED static int pause_tag(const char *tag) {
    return dormant.pause(&tag, 1, NULL, NULL);
}

UNUSED static int resume_tag(const char *tag) {
    return dormant.resume(&tag, 1, NULL, NULL);
}

UNUSED static int state_of(const char *tag) {
    int32_t state = -1;
    OK(dormant.tag_state(tag, &state));
    return state;
}

UNUSED static DormantStats stats(void) {
    DormantStats stats = {.size = sizeof stats};
    OK(dormant.stats(&stats));
    return stats;
}

/* Host memory of backups goes back in the background. */
UNUSED static void no_backups_soon(void) {
    for (int i = 0; stats().host_backup_bytes && i < 10000; i++) usleep(1000);
    IS(stats().host_backup_bytes, 0);
}

/* What is known of the block at an address. */
UNUSED static DormantBlock found(const void *address) {
    DormantBlock block = {.size = sizeof block};
    OK(dormant.find(address, &block));
    return block;
}

/* The text of this thread's last error. */
UNUSED static const char *last_text(void) {
    static __thread DormantError error;
    error.size = sizeof error;
    OK(dormant.last_error(&error));
    return error.text;
}

#endif
