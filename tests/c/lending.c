/* The C interface by itself: settings, reports, backups on loan, regions that are carried, torch's
 * entry points. */
#include "saver.h"

enum { GRANULE = 2 << 20 };

static void *block_of(const char *tag, int policy, size_t bytes) {
    DormantRegion region = {.size = sizeof region, .policy = policy, .tag = tag};
    void *block = NULL;
    OK(dormant.allocate(bytes, 0, &region, &block));
    return block;
}

static uint64_t free_now(void) {
    uint64_t bytes;
    OK(dormant.device_memory(0, &bytes, NULL));
    return bytes;
}

static void settings(void) {
    DormantConfig config = {.size = sizeof config}, later = {.size = sizeof later};
    OK(dormant.configuration(&config));
    IS(config.transition_timeout_ms, 300000);
    IS(config.ranks_on_node, 4); /* From the environment. */
    IS(config.host_limit_bytes, 0);
    config.host_limit_bytes = GRANULE;
    config.workers = 2;
    config.transition_timeout_ms = 1234;
    OK(dormant.configure(&config));
    OK(dormant.configuration(&later));
    IS(later.host_limit_bytes, GRANULE);
    void *a = block_of("a", DORMANT_POLICY_HOST, GRANULE);
    void *b = block_of("b", DORMANT_POLICY_HOST, GRANULE);
    OK(dormant.configuration(&later));
    IS(later.transition_timeout_ms, 1234);
    IS(later.workers, 2);
    IS(dormant.configure(&config), DORMANT_STATUS_WRONG_STATE);
    IS(dormant.pause(NULL, 0, NULL, NULL), DORMANT_STATUS_HOST_MEMORY);
    IS(found(a).state, DORMANT_STATE_ACTIVE);
    OK(pause_tag("a"));
    OK(dormant.free(a));
    OK(pause_tag("b"));
    OK(dormant.free(b));
}

struct seen {
    int tags, devices, blocks;
    uint64_t bytes;
};

static void see_tag(const DormantTagReport *part, void *seen) {
    struct seen *all = seen;
    all->tags++;
    all->bytes += part->moved.bytes;
    IS(part->device, 0);
    HOLDS(strlen(part->tag) == 1);
}

static void see_device(const DormantDeviceReport *part, void *seen) {
    ((struct seen *)seen)->devices++;
    IS(part->moved_bytes, 3 * GRANULE);
    IS(part->free_after - part->free_before, 3 * GRANULE);
    IS(part->freed_nothing, 0);
}

static void see_stats(const DormantTagStats *part, void *seen) {
    ((struct seen *)seen)->tags++;
    IS(part->active.blocks, 0);
    IS(part->saved.blocks, *part->tag == 'a' ? 1 : 0);
}

static void see_block(const DormantBlock *block, void *seen) {
    ((struct seen *)seen)->blocks++;
    IS(block->state, DORMANT_STATE_PAUSED);
    OK(dormant.free(block->address)); /* A callback may call. */
}

static void see_machine(const DormantDevice *device, void *seen) {
    ((struct seen *)seen)->devices++;
    HOLDS(device->total_bytes == 64 << 20 && *device->name);
}

static void reports(void) {
    struct seen seen = {0};
    DormantReport report = {.size = sizeof report};
    SAME(dormant.version(), "0.1.0");
    SAME(dormant.backend(), "sim");
    HOLDS(strstr(dormant.build(), "dormant 0.1.0"));
    OK(dormant.devices(see_machine, &seen));
    IS(seen.devices, 1);
    block_of("a", DORMANT_POLICY_HOST, GRANULE + 1);
    block_of("b", DORMANT_POLICY_ZERO, 100);
    OK(dormant.pause(NULL, 0, NULL, &report));
    IS(report.moved.blocks, 2);
    IS(report.moved.bytes, 3 * GRANULE);
    IS(report.copied.blocks, 1);
    IS(report.copied.bytes, GRANULE + 1);
    HOLDS(report.total_ns > 0 && *report.host_mode);
    seen = (struct seen){0};
    dormant.report_tags(see_tag, &seen);
    dormant.report_devices(see_device, &seen);
    IS(seen.tags, 2);
    IS(seen.bytes, 3 * GRANULE);
    IS(seen.devices, 1);
    OK(dormant.tag_stats(see_stats, &seen));
    IS(seen.tags, 4);
    IS(state_of("a"), DORMANT_STATE_PAUSED);
    HOLDS(stats().host_backup_bytes >= GRANULE + 1);
    OK(dormant.resume(NULL, 0, NULL, &report));
    IS(report.zeroed.blocks, 1);
    block_of("a", DORMANT_POLICY_HOST, 1);
    OK(pause_tag("b"));
    void *c = block_of("b", DORMANT_POLICY_HOST, 1);
    IS(state_of("b"), DORMANT_STATE_MIXED);
    OK(dormant.free(c));
    OK(dormant.pause(NULL, 0, NULL, &report));
    IS(report.already.blocks, 1);
    OK(dormant.blocks(see_block, &seen));
    IS(seen.blocks, 3);
    IS(state_of("a"), DORMANT_STATE_NONE);
}

static void lease(void) {
    DormantBackup *lease, *inner;
    const void *bytes, *rest;
    size_t length;
    unsigned char *block = block_of("w", DORMANT_POLICY_HOST, 100000);
    memset(block, 5, 100000);
    IS(dormant.backup(block, &lease, &bytes, &length), DORMANT_STATUS_WRONG_STATE);
    HOLDS(strstr(last_text(), "`w`"));
    OK(pause_tag("w"));
    OK(dormant.backup(block, &lease, &bytes, &length));
    IS(length, 100000);
    OK(dormant.backup(block + 99990, &inner, &rest, &length));
    IS(length, 10);
    HOLDS(rest == (const char *)bytes + 99990);
    dormant.backup_release(inner);
    OK(resume_tag("w"));
    memset(block, 6, 100000);
    OK(dormant.free(block));
    for (int i = 0; i < 100000; i++) IS(((const unsigned char *)bytes)[i], 5);
    HOLDS(stats().host_backup_bytes >= 100000);
    dormant.backup_release(lease);
    no_backups_soon();
    block = block_of("w", DORMANT_POLICY_DISCARD, 100);
    OK(pause_tag("w"));
    IS(dormant.backup(block, &lease, &bytes, &length), DORMANT_STATUS_WRONG_STATE);
    HOLDS(strstr(last_text(), "discard"));
}

static void dropped(void) {
    const char *tag = "w";
    uint64_t bytes = 1;
    OK(dormant.drop_backup(NULL, 0, &bytes));
    IS(bytes, 0);
    void *block = block_of("w", DORMANT_POLICY_HOST, 3000);
    void *other = block_of("x", DORMANT_POLICY_HOST, 50);
    memset(other, 9, 50);
    OK(dormant.drop_backup(NULL, 0, &bytes));
    IS(bytes, 0);
    OK(dormant.pause(NULL, 0, NULL, NULL));
    OK(dormant.drop_backup(&tag, 1, &bytes));
    IS(bytes, 3000);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    memset(block, 1, 3000);
    IS(*(unsigned char *)other, 9);
}

static void *carried_to(void *carried) {
    DormantRegion now = {.size = sizeof now};
    uint32_t on = 1;
    uint64_t entered;
    OK(dormant.region_current(&now, &on));
    IS(on, 0);
    for (int round = 0; round < 2; round++) {
        OK(dormant.carried_push(carried, &entered));
        OK(dormant.region_current(&now, &on));
        IS(on, 1);
        SAME(now.tag, "carried");
        IS(now.policy, DORMANT_POLICY_ZERO);
        SAME(now.disk_directory, "/somewhere");
        IS(now.peer_count, 2);
        IS(now.peers[1], 3);
        OK(dormant.region_pop(entered));
    }
    return NULL;
}

static void carried(void) {
    const uint32_t peers[] = {1, 3};
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_ZERO, .tag = "carried",
                            .peers = peers, .peer_count = 2, .disk_directory = "/somewhere"};
    DormantCarried *carried;
    uint64_t entered;
    OK(dormant.region_push(&region, &entered));
    OK(dormant.region_carry(&carried));
    OK(dormant.region_pop(entered));
    on_a_thread(carried_to, carried);
    dormant.carried_free(carried);
}

static void torch(void) {
    void *library = open_library(getenv("TEST_LIBRARY"));
    char tag[16];
    uint32_t slot, again;
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_HOST, .tag = tag};
    for (uint32_t i = 0; i < DORMANT_TORCH_SLOTS; i++) {
        snprintf(tag, sizeof tag, "t%u", i / 2);
        region.policy = i % 2 ? DORMANT_POLICY_HOST : DORMANT_POLICY_DISCARD;
        OK(dormant.torch_slot(&region, &slot));
        IS(slot, i);
        OK(dormant.torch_slot(&region, &again));
        IS(again, i);
    }
    strcpy(tag, "more");
    IS(dormant.torch_slot(&region, &slot), DORMANT_STATUS_NOT_SUPPORTED);
    strcpy(tag, "t63");
    OK(dormant.torch_slot(&region, &slot));
    IS(slot, 127);
    void *(*last)(ssize_t, int, void *) = symbol(library, "dormant_torch_malloc_127");
    void *(*first)(ssize_t, int, void *) = symbol(library, "dormant_torch_malloc_0");
    uint64_t start = free_now(), off = push_disabled();
    void *block = last(GRANULE, 0, NULL); /* Whatever the thread is in. */
    SAME(found(block).tag, "t63");
    IS(found(block).policy, DORMANT_POLICY_HOST);
    HOLDS(first((ssize_t)1 << 40, 0, NULL) == NULL);
    HOLDS(strstr(last_text(), "t0"));
    HOLDS(first(GRANULE, 7, NULL) == NULL);
    HOLDS(first(-1, 0, NULL) == NULL);
    HOLDS(first(GRANULE, -1, NULL) == NULL);
    dormant.set_margin_bytes(63 << 20);
    IS(dormant.margin_bytes(), 63 << 20);
    dormant.set_margin_bytes(0);
    OK(pause_tag("t63"));
    dormant.torch_free(block, GRANULE, 0, NULL);
    dormant.torch_free(block, GRANULE, 0, NULL); /* Nobody's any more. */
    block = first(100, 0, NULL);
    dormant.torch_free(block, 100, 0, NULL);
    IS(free_now(), start);
    IS(stats().failed_frees, 0);
    OK(dormant.region_pop(off));
}

static void copies(void) {
    char there[300], back[300];
    char *block = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    memset(there, 3, sizeof there);
    OK(dormant.write(block + 1000, there, sizeof there));
    OK(dormant.read(block + 1000, back, sizeof back));
    HOLDS(!memcmp(there, back, sizeof back) && !memcmp(block + 1000, back, sizeof back));
    OK(dormant.read(block, back, 0));
    OK(pause_tag("w"));
    IS(dormant.read(block, back, 1), DORMANT_STATUS_WRONG_STATE);
    IS(dormant.write(block, back, 1), DORMANT_STATUS_WRONG_STATE);
    IS(found(block + 77).address == block, 1);
    OK(resume_tag("w"));
    OK(dormant.read(block + 1000, back, sizeof back));
    HOLDS(!memcmp(there, back, sizeof back));
}

static void captures(void) {
    uint64_t one, other;
    void *block = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    void *freed = block_of("w", DORMANT_POLICY_HOST, GRANULE);
    OK(dormant.capture_begin(&one));
    OK(dormant.capture_begin(&other));
    HOLDS(one != other);
    IS(pause_tag("w"), DORMANT_STATUS_BUSY);
    OK(dormant.free(freed));
    OK(dormant.capture_end(one));
    IS(dormant.capture_end(one), DORMANT_STATUS_NOT_FOUND);
    IS(stats().deferred_frees, 1);
    OK(dormant.capture_end(other));
    IS(stats().deferred_frees, 0);
    OK(pause_tag("w"));
    OK(dormant.free(block));
}

int main(int argc, char **argv) {
    find_dormant();
    RUN(settings);
    RUN(reports);
    RUN(lease);
    RUN(dropped);
    RUN(carried);
    RUN(torch);
    RUN(copies);
    RUN(captures);
    return NO_SUCH_CASE;
}
