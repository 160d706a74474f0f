/* The C interface by itself, on the simulated device, whose memory the CPU reads at its address:
 * sized structs, wrong arguments, errors. */
#include "saver.h"

enum { GRANULE = 2 << 20 };

static void *block_of(const char *tag, int policy, size_t bytes) {
    DormantRegion region = {.size = sizeof region, .policy = policy, .tag = tag};
    void *block = NULL;
    OK(dormant.allocate(bytes, 0, &region, &block));
    HOLDS(block != NULL);
    return block;
}

/* A struct with room behind it. */
#define ROOMY(type, name)                                                                       \
    union {                                                                                     \
        type it;                                                                                \
        uint32_t size;                                                                          \
        unsigned char bytes[sizeof(type) + 64];                                                 \
    } name

/* Calls with a struct of a size, and holds that no byte past that or past the struct is written. */
#define WRITES(type, call)                                                                      \
    do {                                                                                        \
        ROOMY(type, room);                                                                      \
        const size_t sizes[] = {8, sizeof(type) - 4, sizeof(type), sizeof(type) + 64};          \
        for (int i = 0; i < 4; i++) {                                                           \
            memset(&room, 0xEE, sizeof room);                                                   \
            room.size = (uint32_t)sizes[i];                                                     \
            OK(call);                                                                           \
            IS(room.size, sizes[i]);                                                            \
            size_t end = sizes[i] < sizeof(type) ? sizes[i] : sizeof(type);                     \
            for (size_t j = end; j < sizeof room; j++) IS(room.bytes[j], 0xEE);                 \
        }                                                                                       \
        const uint32_t wrong[] = {0, 1, 4, 7, 5000, UINT32_MAX};                                \
        for (int i = 0; i < 6; i++) {                                                           \
            memset(&room, 0xEE, sizeof room);                                                   \
            room.size = wrong[i];                                                               \
            IS(call, DORMANT_STATUS_INVALID_ARGUMENT);                                          \
            for (size_t j = 4; j < sizeof room; j++) IS(room.bytes[j], 0xEE);                   \
        }                                                                                       \
    } while (0)

static void written_structs(void) {
    uint32_t on;
    void *block = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    WRITES(DormantConfig, dormant.configuration(&room.it));
    WRITES(DormantRegion, dormant.region_current(&room.it, &on));
    WRITES(DormantBlock, dormant.find(block, &room.it));
    WRITES(DormantStats, dormant.stats(&room.it));
    WRITES(DormantReport, dormant.resume(NULL, 0, NULL, &room.it));
    WRITES(DormantPlan, dormant.plan(NULL, 0, NULL, &room.it));
    WRITES(DormantPrepared, dormant.prepare(NULL, 0, NULL, &room.it));
    WRITES(DormantReport, dormant.pause(NULL, 0, NULL, &room.it));
    WRITES(DormantError, dormant.last_error(&room.it));
}

/* A call that is refused for its struct has done nothing. */
static void refused_before_anything(void) {
    void *block = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    DormantReport report = {.size = 0};
    IS(dormant.pause(NULL, 0, NULL, &report), DORMANT_STATUS_INVALID_ARGUMENT);
    IS(found(block).state, DORMANT_STATE_ACTIVE);
    HOLDS(strstr(last_text(), "DormantReport.size is 0"));
    OK(dormant.pause(NULL, 0, NULL, NULL));
    IS(dormant.resume(NULL, 0, NULL, &report), DORMANT_STATUS_INVALID_ARGUMENT);
    IS(found(block).state, DORMANT_STATE_PAUSED);
    OK(dormant.resume(NULL, 0, NULL, NULL));
}

/* What an older caller leaves out is as if it said nothing. */
static void read_structs(void) {
    ROOMY(DormantRegion, region);
    ROOMY(DormantPauseOptions, pausing);
    ROOMY(DormantResumeOptions, resuming);
    uint64_t entered;
    memset(&region, 0xEE, sizeof region);
    region.size = 8;
    region.it.policy = DORMANT_POLICY_HOST;
    OK(dormant.region_push(&region.it, &entered));
    void *block;
    OK(dormant.allocate(100, 0, NULL, &block));
    SAME(found(block).tag, "default");
    IS(found(block).policy, DORMANT_POLICY_HOST);
    OK(dormant.region_pop(entered));
    const DormantRegion was = {.size = offsetof(DormantRegion, host_mode), .policy = DORMANT_POLICY_HOST,
                               .tag = "was"};
    DormantRegion now = {.size = sizeof now};
    uint32_t on;
    memset(&region, 0xEE, sizeof region);
    memcpy(&region, &was, offsetof(DormantRegion, host_mode));
    OK(dormant.region_push(&region.it, &entered));
    OK(dormant.region_current(&now, &on));
    SAME(now.tag, "was");
    IS(now.host_mode, DORMANT_HOST_MODE_OWN);
    IS(now.checksum, DORMANT_CHECKSUM_OWN);
    OK(dormant.region_pop(entered));
    memset(&pausing, 0xEE, sizeof pausing);
    pausing.size = 8;
    pausing.it.policy = DORMANT_POLICY_OWN;
    OK(dormant.pause(NULL, 0, &pausing.it, NULL));
    OK(dormant.resume(NULL, 0, NULL, NULL));
    pausing.size = offsetof(DormantPauseOptions, checksum);
    pausing.it.timeout_ms = -1;
    OK(dormant.pause(NULL, 0, &pausing.it, NULL));
    OK(dormant.plan(NULL, 0, &pausing.it, &(DormantPlan){.size = sizeof(DormantPlan)}));
    memset(&resuming, 0xEE, sizeof resuming);
    resuming.size = sizeof resuming;
    resuming.it.timeout_ms = resuming.it.wait_for_memory_ms = 0;
    OK(dormant.resume(NULL, 0, &resuming.it, NULL));
    region.size = pausing.size = resuming.size = 0;
    IS(dormant.region_push(&region.it, &entered), DORMANT_STATUS_INVALID_ARGUMENT);
    IS(dormant.pause(NULL, 0, &pausing.it, NULL), DORMANT_STATUS_INVALID_ARGUMENT);
    IS(dormant.resume(NULL, 0, &resuming.it, NULL), DORMANT_STATUS_INVALID_ARGUMENT);
    IS(found(block).state, DORMANT_STATE_ACTIVE);
}

#define REFUSED(call) IS(call, DORMANT_STATUS_INVALID_ARGUMENT)

static void nulls(void) {
    DormantRegion region = {.size = sizeof region};
    DormantBackup *lease;
    DormantCarried *carried;
    const void *bytes;
    const char *tags[] = {"w", NULL};
    uint64_t number;
    int32_t state;
    size_t length;
    uint32_t slot, on;
    void *block = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    OK(dormant.pause(NULL, 7, NULL, NULL)); /* All: the count says nothing then. */
    IS(found(block).state, DORMANT_STATE_PAUSED);
    REFUSED(dormant.configuration(NULL));
    REFUSED(dormant.configure(NULL));
    REFUSED(dormant.last_error(NULL));
    dormant.last_failures(NULL, NULL);
    REFUSED(dormant.devices(NULL, NULL));
    OK(dormant.device_memory(0, NULL, NULL));
    REFUSED(dormant.region_push(NULL, &number));
    REFUSED(dormant.region_push(&region, NULL));
    REFUSED(dormant.region_push_disabled(NULL));
    REFUSED(dormant.region_current(NULL, &on));
    REFUSED(dormant.region_current(&region, NULL));
    REFUSED(dormant.region_carry(NULL));
    OK(dormant.region_carry(&carried));
    REFUSED(dormant.carried_push(NULL, &number));
    REFUSED(dormant.carried_push(carried, NULL));
    dormant.carried_free(carried);
    dormant.carried_free(NULL);
    REFUSED(dormant.allocate(100, 0, NULL, NULL));
    OK(dormant.free(NULL));
    IS(dormant.find(NULL, &(DormantBlock){.size = sizeof(DormantBlock)}), DORMANT_STATUS_NOT_FOUND);
    REFUSED(dormant.find(block, NULL));
    REFUSED(dormant.blocks(NULL, NULL));
    REFUSED(dormant.read(block, NULL, 1));
    REFUSED(dormant.write(block, NULL, 1));
    IS(dormant.read(NULL, &number, 1), DORMANT_STATUS_NOT_FOUND);
    IS(dormant.write(NULL, &number, 1), DORMANT_STATUS_NOT_FOUND);
    REFUSED(dormant.pause(tags, 2, NULL, NULL));
    REFUSED(dormant.resume(tags, 2, NULL, NULL));
    REFUSED(dormant.drop_backup(tags, 2, NULL));
    REFUSED(dormant.prepare(tags, 2, NULL, NULL));
    OK(dormant.prepare(tags, 1, NULL, NULL));
    REFUSED(dormant.plan(tags, 2, NULL, &(DormantPlan){.size = sizeof(DormantPlan)}));
    REFUSED(dormant.plan(tags, 1, NULL, NULL));
    OK(dormant.trim(NULL));
    HOLDS(!dormant.notice_name(0) && !dormant.notice_text(UINT32_MAX));
    IS(found(block).state, DORMANT_STATE_PAUSED);
    dormant.report_tags(NULL, NULL);
    dormant.report_devices(NULL, NULL);
    REFUSED(dormant.stats(NULL));
    REFUSED(dormant.tag_stats(NULL, NULL));
    REFUSED(dormant.tag_state(NULL, &state));
    REFUSED(dormant.tag_state("w", NULL));
    REFUSED(dormant.backup(block, NULL, &bytes, &length));
    REFUSED(dormant.backup(block, &lease, NULL, &length));
    REFUSED(dormant.backup(block, &lease, &bytes, NULL));
    IS(dormant.backup(NULL, &lease, &bytes, &length), DORMANT_STATUS_NOT_FOUND);
    dormant.backup_release(NULL);
    REFUSED(dormant.capture_begin(NULL));
    REFUSED(dormant.torch_slot(NULL, &slot));
    REFUSED(dormant.torch_slot(&region, NULL));
    dormant.torch_free(NULL, 0, 0, NULL);
    OK(dormant.resume(tags, 0, NULL, NULL)); /* None. */
    IS(found(block).state, DORMANT_STATE_PAUSED);
    OK(dormant.resume(tags, 1, NULL, NULL));
    OK(dormant.free(block));
}

static void wrong_values(void) {
    DormantRegion region = {.size = sizeof region, .policy = 99};
    DormantPauseOptions options = {.size = sizeof options, .policy = 99, .timeout_ms = -1};
    uint64_t number;
    char byte;
    void *block, *ours = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    REFUSED(dormant.region_push(&region, &number));
    region.policy = DORMANT_POLICY_OWN;
    REFUSED(dormant.region_push(&region, &number));
    region.policy = DORMANT_POLICY_HOST;
    region.host_mode = 99;
    REFUSED(dormant.region_push(&region, &number));
    REFUSED(dormant.allocate(100, 0, &region, &block));
    HOLDS(strstr(last_text(), "host mode") && strstr(last_text(), "99"));
    region.host_mode = DORMANT_HOST_MODE_OWN;
    region.checksum = -1;
    REFUSED(dormant.region_push(&region, &number));
    region.checksum = DORMANT_CHECKSUM_OWN;
    region.tag = "";
    REFUSED(dormant.region_push(&region, &number));
    region.tag = "\xFF\xFE";
    REFUSED(dormant.region_push(&region, &number));
    REFUSED(pause_tag("\xFF"));
    REFUSED(dormant.pause(NULL, 0, &options, NULL));
    options.policy = DORMANT_POLICY_OWN;
    options.host_mode = 99;
    REFUSED(dormant.pause(NULL, 0, &options, NULL));
    options.host_mode = DORMANT_HOST_MODE_OWN;
    options.checksum = 99;
    REFUSED(dormant.pause(NULL, 0, &options, NULL));
    REFUSED(dormant.plan(NULL, 0, &options, &(DormantPlan){.size = sizeof(DormantPlan)}));
    REFUSED(dormant.allocate(0, 0, NULL, &block));
    HOLDS(dormant.allocate(SIZE_MAX, 0, NULL, &block) != 0);
    IS(dormant.allocate((size_t)1 << 40, 0, NULL, &block), DORMANT_STATUS_TOO_LARGE);
    IS(dormant.allocate(100, 77, NULL, &block), DORMANT_STATUS_NOT_FOUND);
    IS(dormant.device_memory(77, &number, NULL), DORMANT_STATUS_NOT_FOUND);
    HOLDS(dormant.read(ours, &byte, SIZE_MAX) != 0);
    HOLDS(dormant.write(ours, &byte, SIZE_MAX) != 0);
    region.tag = "w";
    region.peers = (const uint32_t *)&number;
    region.peer_count = SIZE_MAX;
    REFUSED(dormant.region_push(&region, &number));
    region.peers = NULL;
    region.peer_count = 1;
    REFUSED(dormant.region_push(&region, &number));
    REFUSED(dormant.pause((const char *const *)&region.tag, SIZE_MAX, NULL, NULL));
    HOLDS(dormant.read((char *)ours + GRANULE - 1, &number, 2) != 0);
    IS(dormant.capture_end(4711), DORMANT_STATUS_NOT_FOUND);
    IS(dormant.free((char *)ours + 1), DORMANT_STATUS_NOT_FOUND);
    IS(dormant.region_pop(UINT64_MAX), DORMANT_STATUS_NOT_FOUND);
    OK(dormant.free(ours));
    IS(dormant.free(ours), DORMANT_STATUS_NOT_FOUND);
}

static void *no_error_yet(void *with) {
    DormantError error = {.size = sizeof error};
    IS(dormant.last_error(&error), DORMANT_STATUS_NOT_FOUND);
    return with;
}

static void errors(void) {
    void *block;
    no_error_yet(NULL);
    IS(dormant.allocate((size_t)1 << 40, 0, NULL, &block), DORMANT_STATUS_TOO_LARGE);
    DormantError error = {.size = sizeof error};
    OK(dormant.last_error(&error));
    IS(error.status, DORMANT_STATUS_TOO_LARGE);
    SAME(error.kind, "too_large");
    IS(error.wanted_bytes, (uint64_t)1 << 40);
    HOLDS(error.free_bytes <= 64 << 20);
    IS(error.device, 0);
    HOLDS(!strchr(error.text, '\n') && strstr(error.text, "default"));
    OK(dormant.trim(NULL)); /* A call that goes well leaves the error as it is. */
    OK(dormant.last_error(&error));
    IS(error.status, DORMANT_STATUS_TOO_LARGE);
    on_a_thread(no_error_yet, NULL);
    IS(dormant.free(&error), DORMANT_STATUS_NOT_FOUND);
    OK(dormant.last_error(&error));
    SAME(error.kind, "not_found");
    HOLDS(error.address == (void *)&error);
    IS(error.wanted_bytes, UINT64_MAX);
    IS(error.failures, 0);
    IS(error.has_report, 0);
}

int main(int argc, char **argv) {
    find_dormant();
    RUN(written_structs);
    RUN(refused_before_anything);
    RUN(read_structs);
    RUN(nulls);
    RUN(wrong_values);
    RUN(errors);
    return NO_SUCH_CASE;
}
