/* Threads that allocate and free in regions and outside, while another pauses and resumes. */
#include <time.h>

#include "gpu.h"
#include "saver.h"

enum { THREADS = 8, KEPT = 3, MOST = 200000, SECOND = 1000 };

/* Nobody touches memory while it sleeps; allocating and freeing goes on. */
static pthread_rwlock_t awake = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static volatile bool over;

static void touch(void *block, size_t bytes, int byte, bool write) {
    OK(pthread_rwlock_rdlock(&awake));
    if (write) {
        fill(block, byte, bytes);
    } else {
        EXPECT(block, byte, bytes);
    }
    OK(pthread_rwlock_unlock(&awake));
}

static void *work(void *with) {
    unsigned seed = (unsigned)(intptr_t)with + 1;
    char tag[16];
    void *blocks[KEPT] = {0};
    size_t sizes[KEPT];
    int bytes[KEPT];
    snprintf(tag, sizeof tag, "t%u", seed % 3);
    for (int round = 0; !over || round < KEPT; round++) {
        int i = round % KEPT;
        if (blocks[i]) {
            touch(blocks[i], sizes[i], bytes[i], false);
            OK(GPU(Free)(blocks[i]));
        }
        sizes[i] = (size_t)rand_r(&seed) % MOST + 1;
        bytes[i] = rand_r(&seed) % 255 + 1;
        bool ours = rand_r(&seed) % 4 != 0;
        if (ours) enter(tag, true);
        blocks[i] = allocate(sizes[i]);
        if (ours) leave();
        touch(blocks[i], sizes[i], bytes[i], true);
    }
    for (int i = 0; i < KEPT; i++) {
        touch(blocks[i], sizes[i], bytes[i], false);
        OK(GPU(Free)(blocks[i]));
    }
    return NULL;
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void churn(void) {
    size_t start = free_bytes();
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) OK(pthread_create(&threads[i], NULL, work, (void *)i));
    static const char *const tags[] = {"t0", "t1", "t2", NULL};
    long long until = now_ms() + SECOND;
    for (int round = 0; now_ms() < until; round++) {
        const char *tag = tags[round % 4];
        OK(pthread_rwlock_wrlock(&awake));
        OK(tms.pause(tag));
        usleep(1000); /* Others allocate and free meanwhile. */
        OK(tms.resume(tag));
        OK(pthread_rwlock_unlock(&awake));
    }
    over = true;
    for (int i = 0; i < THREADS; i++) OK(pthread_join(threads[i], NULL));
    IS(free_bytes(), start);
    IS(stats().failed_frees, 0);
    IS(stats().leaked_handles, 0);
    IS(stats().leaked_ranges, 0);
    no_backups_soon();
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(churn);
    return NO_SUCH_CASE;
}
