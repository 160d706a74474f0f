/* Opens a library of the wheels by its path, as a program without Python does, and takes one block
 * through its life on the simulated device.
 *
 *   smoke LIBRARY        libdormant.so, through dormant.h
 *   smoke LIBRARY tms    libdormant.so or a drop-in file, through the names of torch_memory_saver
 *   smoke -  tms         what LD_PRELOAD has loaded
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "dormant.h"

enum { BYTES = 3 << 20 };

static void *library;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) fprintf(stderr, "no %s: %s\n", name, dlerror());
    return found;
}

#define GET(name) __typeof__(&name) p_##name = (__typeof__(&name))symbol(#name); if (!p_##name) return 1
#define HAS(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static int filled_with(const unsigned char *bytes, unsigned char value) {
    for (size_t i = 0; i < BYTES; i += 4096) if (bytes[i] != value) return 0;
    return bytes[BYTES - 1] == value;
}

static int engine(void) {
    GET(dormant_version); GET(dormant_backend); GET(dormant_region_push); GET(dormant_region_pop);
    GET(dormant_allocate); GET(dormant_find); GET(dormant_pause); GET(dormant_resume); GET(dormant_free);
    HAS(strcmp(p_dormant_backend(), "sim") == 0);

    struct DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_HOST, .tag = "weights"};
    uint64_t entered;
    void *address = NULL;
    HAS(p_dormant_region_push(&region, &entered) == DORMANT_STATUS_OK);
    HAS(p_dormant_allocate(BYTES, 0, NULL, &address) == DORMANT_STATUS_OK);
    HAS(p_dormant_region_pop(entered) == DORMANT_STATUS_OK);
    memset(address, 0xA5, BYTES);

    const char *tags[] = {"weights"};
    struct DormantReport report = {.size = sizeof report};
    HAS(p_dormant_pause(tags, 1, NULL, &report) == DORMANT_STATUS_OK);
    HAS(report.moved.blocks == 1 && report.moved.bytes >= BYTES);
    struct DormantBlock block = {.size = sizeof block};
    HAS(p_dormant_find(address, &block) == DORMANT_STATUS_OK);
    HAS(block.state == DORMANT_STATE_PAUSED && block.bytes == BYTES && strcmp(block.tag, "weights") == 0);
    HAS(p_dormant_resume(tags, 1, NULL, NULL) == DORMANT_STATUS_OK);
    HAS(filled_with(address, 0xA5));
    HAS(p_dormant_free(address) == DORMANT_STATUS_OK);
    HAS(p_dormant_find(address, &block) == DORMANT_STATUS_NOT_FOUND);
    printf("dormant %s on %s: well\n", p_dormant_version(), p_dormant_backend());
    return 0;
}

void tms_set_interesting_region(bool on);
void tms_set_current_tag(const char *tag);
void tms_set_enable_cpu_backup(bool on);
void *tms_torch_malloc(ssize_t bytes, int device, void *stream);
void tms_torch_free(void *block, ssize_t bytes, int device, void *stream);
uint8_t *tms_get_cpu_backup_pointer(uint8_t *address, uint64_t bytes);
int tms_pause(const char *tag);
int tms_resume(const char *tag);

static int drop_in(void) {
    GET(tms_set_interesting_region); GET(tms_set_current_tag); GET(tms_set_enable_cpu_backup);
    GET(tms_torch_malloc); GET(tms_torch_free); GET(tms_get_cpu_backup_pointer);
    GET(tms_pause); GET(tms_resume);
    p_tms_set_interesting_region(true);
    p_tms_set_current_tag("weights");
    p_tms_set_enable_cpu_backup(true);
    unsigned char *address = p_tms_torch_malloc(BYTES, 0, NULL);
    HAS(address != NULL);
    memset(address, 0x5A, BYTES);
    HAS(p_tms_get_cpu_backup_pointer(address, BYTES) == NULL);
    HAS(p_tms_pause("weights") == 0);
    const unsigned char *saved = p_tms_get_cpu_backup_pointer(address, BYTES);
    HAS(saved != NULL && filled_with(saved, 0x5A));
    HAS(p_tms_resume("weights") == 0);
    HAS(filled_with(address, 0x5A));
    p_tms_torch_free(address, BYTES, 0, NULL);
    printf("tms: well\n");
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int preloaded = strcmp(arguments[1], "-") == 0;
    library = dlopen(preloaded ? NULL : arguments[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return count > 2 ? drop_in() : engine();
}
